// The C++ part of attention.html. Models that the user selects train in parallel on the dates of dates.cpp or the sentences
// of long_sentences.cpp. The page starts with the embedded checkpoint: of dates.cpp, or of another model, which it only runs.
// worker.js calls the functions at the end, which take and return JSON.
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>

#include <emscripten.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#define main dates_main
#include "../dates.cpp"
#undef main
// Its includes have include guards and precede the namespace, which so contains only its own names.
namespace long_sentences {
#define main long_sentences_main
#include "../long_sentences.cpp"
#undef main
}  // namespace long_sentences

namespace {

using Json = nlohmann::ordered_json;

/// Recorded scores, and attention weights that the user has set.
struct Watch {
  bool keeps = false;                                  // record scores
  std::vector<std::pair<Tensor, Tensor>> e;            // per step: scores (W, 1), window positions
  std::map<Index, std::vector<float>> overruled = {};  // step -> α (S) that replaces the model's
};

/// Wraps a score function to record and replace its results.
class Watched : public nn::Score {
 public:
  Watched(const nn::Scope& scope, std::shared_ptr<const nn::Score> score,
          std::shared_ptr<Watch> watch)
      : Score(scope), score_(std::move(score)), watch_(std::move(watch)) {}

  Var keys(const Var& memory) const override { return score_->keys(memory); }
  Var operator()(const nn::Query& query, const nn::Keys& keys) const override {
    Var e = (*score_)(query, keys);
    const auto at = watch_->overruled.find(query.past.steps);
    if (at != watch_->overruled.end())  // exp(log α) / 1 = α
      e = 0 * e + log(Tensor::of<float>({keys.mask.dim(0), 1}, at->second));
    if (watch_->keeps) watch_->e.emplace_back(e.value(), keys.positions);
    return e;
  }

 private:
  std::shared_ptr<const nn::Score> score_;
  std::shared_ptr<Watch> watch_;
};

/// Sets the sizes, and the choices that are options of this model.
template <class Options>
Options chosen(Options options, const models::Vocabularies& sizes, const Json& choices) {
  options.source_vocabulary = sizes.source, options.target_vocabulary = sizes.target;
  options.embedding = 32, options.hidden = 64, options.readout = 64;
  const models::OptionTable<Options>& table = models::options_of(options);
  for (const auto& [name, value] : choices.items())
    if (const models::Option* one = models::find(table, name)) table.set(options, *one, value);
  return options;
}

struct Learner {
  Learner(const models::Vocabularies& sizes, const Json& choices)
      : title(choices.value("title", "")),
        model(choices.value("model", "") == "encoder-decoder" ? last_state(sizes, choices)
              : choices.value("model", "") == "transformer"   ? with_heads(sizes)
                                                              : attending(sizes, choices)) {}

  models::Model attending(const models::Vocabularies& sizes, const Json& choices) {
    const auto o = chosen(models::BahdanauOptions{.score = {.attention = 64, .longest = 40},
                                                  .attention = {.half_width = 3}},
                          sizes, choices);
    const nn::Scope scope = nn::Scope(parameters) / "attention";
    auto score = nn::make_score(scope, o.hidden, models::encoder_options(o).sizes().h, o.score);
    const nn::Attention attention(std::make_shared<Watched>(scope, score, watch), scope, o.hidden,
                                  o.attention);
    return models::Bahdanau(parameters, o, attention);
  }
  models::Model last_state(const models::Vocabularies& sizes, const Json& choices) {
    const auto o = chosen(models::EncoderDecoderOptions(), sizes, choices);
    return models::EncoderDecoder(parameters, o);
  }
  models::Model with_heads(const models::Vocabularies& sizes) {
    transformer.emplace(parameters,
                        models::TransformerOptions{.source_vocabulary = sizes.source,
                                                   .target_vocabulary = sizes.target,
                                                   .layer = {.size = 64, .heads = 4, .inner = 128},
                                                   .encoder_layers = 2,
                                                   .decoder_layers = 2});
    return *transformer;
  }

  double update(const text::Batch& batch, double rate) {
    const Var loss = models::loss(model, batch);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(rate);
    adam.step(gradients);
    return loss.item();
  }

  std::string title;
  nn::Parameters parameters{/*seed=*/1};
  std::shared_ptr<Watch> watch = std::make_shared<Watch>();
  std::optional<models::Transformer> transformer;  // the model, if it is one
  models::Model model;
  nn::Adam adam{parameters};
};

/// A task, and models that train on the same batches.
struct Lesson {
  Lesson(const models::Vocabularies& sizes, const Json& request)
      : schedule{.rate = request["rate"],
                 .last = 1e-4,
                 .steps = request["updates"],
                 .after = request["updates"].get<Index>() / 2} {
    for (const Json& choices : request["models"]) learners.emplace_back(sizes, choices);
  }
  virtual ~Lesson() = default;
  virtual std::vector<text::Pair> draw() = 0;
  /// Accuracy of a model on the first `count` held-out examples.
  virtual Json right(const Learner& learner, std::size_t count) const = 0;

  std::deque<Learner> learners;  // deque: elements are not movable
  nn::LinearDecay schedule;
  Random random{/*seed=*/1};
  Index step = 0;
};

struct DatesLesson : Task, Lesson {
  explicit DatesLesson(const Json& request)
      : Lesson({source.vocabulary.size(), target.vocabulary.size()}, request), held_out(500) {
    Random held_out_dates(/*seed=*/2);
    for (Example& example : held_out) example = ::draw(held_out_dates, true);
  }
  std::vector<text::Pair> draw() override {
    std::vector<text::Pair> pairs(16);  // fewer than in dates.cpp: a browser has one thread
    for (text::Pair& pair : pairs) pair = encode(::draw(random, false));
    return pairs;
  }
  Json right(const Learner& learner, std::size_t count) const override {
    return exact_match(learner.model, {held_out.begin(), held_out.begin() + count});
  }

  std::vector<Example> held_out;
};

struct SentencesLesson : long_sentences::Task, Lesson {
  static constexpr Index longest = 20;

  explicit SentencesLesson(const Json& request)
      : Task(40, /*seed=*/1),
        Lesson({long_sentences::first_word + words, long_sentences::first_word + 2 * words},
               request) {}
  std::vector<text::Pair> draw() override {
    const double u = random.uniform();  // the distribution of lengths of long_sentences.cpp
    return pairs(1 + static_cast<Index>(longest * u * u), 16, random);
  }
  /// For each length, the fraction of correct words.
  Json right(const Learner& learner, std::size_t count) const override {
    Json shares = Json::array();
    for (Index length = 2; length <= longest; length += 2) {
      Random test(/*seed=*/2, std::to_string(length));
      const double share =
          long_sentences::accuracy(learner.model, pairs(length, static_cast<Index>(count), test)) /
          100;
      shares.push_back({{"length", length}, {"right", share}});
    }
    return shares;
  }
};

std::unique_ptr<DatesLesson> dates;
std::unique_ptr<SentencesLesson> sentences;
std::unique_ptr<models::LoadedModel<>> checkpoint;  // of `attune train`

Lesson& lesson_of(const Json& request) {
  if (request["lesson"] == "dates") return *dates;
  return *sentences;
}

/// The five most likely characters, with probabilities: logits (V) -> [[character, p], ...]
Json likeliest(const Tensor& logits, const text::Vocabulary& vocabulary) {
  const Tensor p = softmax(logits, -1);
  Json all = Json::array();
  for (const auto id : argsort(p, 5, -1, Order::descending).to_vector<std::int32_t>())
    all.push_back({vocabulary.token(id), p[id].item()});
  return all;
}

/// Scores e of the S positions, null outside of the window.
Json scores(const std::pair<Tensor, Tensor>& kept, Index S) {
  const auto e = kept.first.to_vector<double>();
  Json all(static_cast<std::size_t>(S), nullptr);
  for (std::size_t i = 0; i < e.size(); ++i) {
    const Index s = kept.second.defined() ? kept.second.at<std::int32_t>({Index(i), 0}) : Index(i);
    if (s >= 0) all[s] = e[i];
  }
  return all;
}

/// A heat map of the rows (S) of each step.
std::string figure_of(const Json& answer, const std::vector<Tensor>& weights, std::string caption,
                      const std::string& note, bool wrong) {
  const Json& written = answer["beam"][0]["written"];
  report::Heatmap map{{}, {}, {}, std::move(caption)};
  for (std::size_t t = 0; t < written.size() && !weights.empty(); ++t) {
    map.rows.push_back(written[t]);
    for (const double w : weights[t].to_vector<double>()) map.weights.push_back(w);
  }
  if (!weights.empty()) map.columns = answer["source"];
  return report::figure(map, note, wrong);
}

/// Predicts a line with beam size 4, then records each decoder step of the best hypothesis under teacher forcing.
Json look_at(const text::Codec& source, const text::Codec& target, const models::Model& model,
             Watch& watch, const std::string& line, Index longest, const Learner* learner = nullptr,
             const std::string& expected = "") {
  const NoGrad no_grad;
  const text::Sentence words = source.encode(line);
  if (words.empty()) throw Error("the text is empty");
  const models::SearchOptions search{.beam = 4, .max_length = longest, .best = 4};
  const models::Translation beam =
      models::translate(model, std::span(&words, 1), {.how = search}).front();
  const auto tokens = [&](const models::Hypothesis& one) {
    Json all = Json::array();
    for (const std::int32_t word : one.words) all.push_back(target.vocabulary.token(word));
    return all;
  };
  Json answer{{"line", line},
              {"source", source.tokenizer.encode(line)},
              {"text", target.decode(beam.front().words)}};
  for (const models::Hypothesis& one : beam)
    answer["beam"].push_back(
        {{"written", tokens(one)}, {"probability", std::exp(one.log_probability)}});

  const text::Pair pair{words, beam.front().words};
  const text::Batch batch = text::make_batch(std::span(&pair, 1));
  watch.keeps = true;
  const auto [affine_logits, weights] =
      model.unroll(model.encode(batch.source, batch.source_mask), batch.previous);
  const Tensor logits = Var(affine_logits).value();
  for (Index t = 0; t < batch.previous.dim(0); ++t) {
    Json step{{"likeliest", likeliest(logits[t][0], target.vocabulary)}};
    if (!weights.empty())
      step["weights"] = weights[static_cast<std::size_t>(t)].value().to_vector<double>();
    if (!watch.e.empty()) step["e"] = scores(watch.e[t], batch.source.dim(0));
    answer["steps"].push_back(step);
  }
  const std::string text = answer["text"];
  const bool wrong = !expected.empty() && text != expected;
  const double p = std::exp(beam.front().log_probability);
  std::vector<Tensor> alpha;
  for (const Var& w : weights) alpha.push_back(w.value());
  answer["figure"] = figure_of(answer, alpha, line + " → " + text,
                               fmt::format("{}{}probability {:.3f}", wrong ? "✗ wrong; " : "",
                                           learner ? learner->title + "; " : "", p),
                               wrong);
  answer["heads"] = "";
  if (!learner || !learner->transformer) return answer;
  const models::Transformer& transformer = *learner->transformer;
  const auto heads = transformer.unroll(transformer.encode(batch.source, batch.source_mask),
                                        batch.previous, batch.target_mask, nn::Weights::per_head);
  for (Index k = 0; k < 4; ++k) {
    for (std::size_t t = 0; t < alpha.size(); ++t) alpha[t] = heads.weights[t].value()[k];
    answer["heads"] = answer["heads"].get<std::string>() +
                      figure_of(answer, alpha, fmt::format("head {}", k + 1), "", false);
  }
  return answer;
}

/// The result of `make(request)` or {"error": ...}, as JSON text that is valid until the next call.
template <class Make>
const char* answer(const char* request, Make make) {
  static std::string text;
  try {
    text = make(Json::parse(request)).dump();
  } catch (const std::exception& error) {
    text = Json{{"error", error.what()}}.dump();
  }
  return text.c_str();
}

}  // namespace

extern "C" {

/// {lesson, updates, rate, models: [options], trained} -> {parameters: [count of each model]}. Creates
/// new models: EncoderDecoder or Transformer if the option "model" names them, else Bahdanau. If
/// trained, the first one gets the weights of the checkpoint.
EMSCRIPTEN_KEEPALIVE const char* begin(const char* request) {
  return answer(request, [](const Json& asked) {
    if (asked["lesson"] == "dates") dates = std::make_unique<DatesLesson>(asked);
    if (asked["lesson"] == "sentences") sentences = std::make_unique<SentencesLesson>(asked);
    if (asked.value("trained", false)) {
      Safetensors file;
      for (const auto& [name, w] : *checkpoint->parameters) file.add(name, w.value());
      nn::load_parameters(file, dates->learners.front().parameters);
    }
    Json counts = Json::array();
    for (const Learner& learner : lesson_of(asked).learners)
      counts.push_back(learner.parameters.count());
    return Json{{"parameters", counts}};
  });
}

/// {lesson, updates} -> {step, losses: [mean loss of each model]}. Trains for some updates.
EMSCRIPTEN_KEEPALIVE const char* update(const char* request) {
  return answer(request, [](const Json& asked) {
    Lesson& lesson = lesson_of(asked);
    const int updates = asked["updates"];
    std::vector<double> losses(lesson.learners.size());
    for (int i = 0; i < updates; ++i) {
      const text::Batch batch = text::make_batch(lesson.draw());
      const double rate = lesson.schedule(lesson.step++);
      for (std::size_t m = 0; m < losses.size(); ++m)
        losses[m] += lesson.learners[m].update(batch, rate) / updates;
    }
    return Json{{"step", lesson.step}, {"losses", losses}};
  });
}

/// {lesson, count} -> {right: [accuracy of each model], of: count}
EMSCRIPTEN_KEEPALIVE const char* evaluate(const char* request) {
  return answer(request, [](const Json& asked) {
    Json right = Json::array();
    for (const Learner& learner : lesson_of(asked).learners)
      right.push_back(lesson_of(asked).right(learner, asked["count"]));
    return Json{{"right", right}, {"of", asked["count"]}};
  });
}

/// {lesson, line, model, overruled: [[step, α], ...], expected} -> the result of look_at.
EMSCRIPTEN_KEEPALIVE const char* look(const char* request) {
  return answer(request, [](const Json& asked) {
    const std::string line = asked["line"];
    if (asked["lesson"] == "checkpoint") {
      const auto& [parameters, model, codecs, metadata, checksum, shortlist] = *checkpoint;
      Index longest = 100;  // as in attune predict
      if (metadata.contains("longest-target")) {
        longest = nn::load_count(metadata, "longest-target");
        longest += std::min(longest, Index{50}) + 5;
      }
      Watch none;
      return look_at(codecs.source, codecs.target, model, none, line, longest);
    }
    const Learner& learner = dates->learners.at(asked["model"]);
    const struct Looking {
      explicit Looking(Watch& watch) : watch(watch) {}
      ~Looking() { watch = {}; }
      Watch& watch;
    } looking(*learner.watch);
    looking.watch.overruled = asked["overruled"];
    return look_at(dates->source, dates->target, learner.model, looking.watch,
                   typed(line, dates->source).source, 12, &learner, asked.value("expected", ""));
  });
}

/// {place, size} -> {parameters: count, title}. Loads a checkpoint from memory (address, bytes) and frees it.
EMSCRIPTEN_KEEPALIVE const char* open_checkpoint(const char* request) {
  return answer(request, [](const Json& asked) {
    const auto bytes = reinterpret_cast<std::byte*>(asked["place"].get<std::uintptr_t>());
    const std::unique_ptr<std::byte, decltype(&std::free)> owner(bytes, std::free);
    checkpoint = std::make_unique<models::LoadedModel<>>(models::load_from<>(
        load_safetensors(std::span<const std::byte>(bytes, asked["size"].get<std::size_t>()))));
    const auto trained = checkpoint->metadata.find("train");
    const std::filesystem::path file = trained == checkpoint->metadata.end() ? "" : trained->second;
    return Json{{"parameters", checkpoint->parameters->count()},
                {"title", "A model" + (file.empty() ? "" : " of " + file.filename().string())}};
  });
}

}  // extern "C"
