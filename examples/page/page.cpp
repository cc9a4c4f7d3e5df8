// The part of attention.html that is C++: models of the reader's choice learn side by side to write the dates of
// dates.cpp, or to translate the sentences of examples/long_sentences; or a checkpoint of `attune train` is in the page,
// which `attune report --live` has written. worker.js calls the functions at the end, which take and return JSON.
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
// What it includes is included above: the namespace has its own names alone.
namespace long_sentences {
#define main long_sentences_main
#include "../long_sentences.cpp"
#undef main
}  // namespace long_sentences

namespace {

using Json = nlohmann::ordered_json;

/// What a reader sees of attention, and sets.
struct Watch {
  bool keeps = false;
  std::vector<std::pair<Tensor, Tensor>> e;  // (W, 1) of each step, and the window's positions
  std::map<Index, std::vector<float>> overruled = {};  // α (S) of some steps
};

/// Another score, under watch.
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

/// Sets those of the choices that the options have.
template <class Options>
Options chosen(Options options, const Json& choices) {
  const models::OptionList list = models::options_of(options);
  for (const auto& [name, value] : choices.items())
    if (const models::Option* one = models::find(list, name)) one->set(value);
  return options;
}

struct Learner {
  Learner(const models::Vocabularies& sizes, const Json& choices)
      : model(choices.value("model", "") == "encoder-decoder" ? last_state(sizes, choices)
                                                              : attending(sizes, choices)) {}

  models::AnyModel attending(const models::Vocabularies& sizes, const Json& choices) {
    const auto o = chosen(models::BahdanauOptions{.source_vocabulary = sizes.source,
                                                  .target_vocabulary = sizes.target,
                                                  .embedding = 32,
                                                  .hidden = 64,
                                                  .readout = 64,
                                                  .score = {.attention = 64, .longest = 40},
                                                  .attention = {.half_width = 3}},
                          choices);
    const nn::Scope scope = nn::Scope(parameters) / "attention";
    auto score = nn::make_score(scope, o.hidden, models::encoder_options(o).sizes().h, o.score);
    const nn::Attention attention(std::make_shared<Watched>(scope, score, watch), scope, o.hidden,
                                  o.attention);
    return models::AnyModel(models::Bahdanau(parameters, o, attention));
  }
  models::AnyModel last_state(const models::Vocabularies& sizes, const Json& choices) {
    const auto o = chosen(models::EncoderDecoderOptions{.source_vocabulary = sizes.source,
                                                        .target_vocabulary = sizes.target,
                                                        .embedding = 32,
                                                        .hidden = 64,
                                                        .readout = 64},
                          choices);
    return models::AnyModel(models::EncoderDecoder(parameters, o));
  }

  double update(const text::Batch& batch, double rate) {
    const Var loss = models::loss(model, batch);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(rate);
    adam.step(gradients);
    return loss.item();
  }

  nn::Parameters parameters{/*seed=*/1};
  std::shared_ptr<Watch> watch = std::make_shared<Watch>();
  models::AnyModel model;
  nn::Adam adam{parameters};
};

/// Models that learn from the same batches.
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
  /// What a model gets right of the first `count` of what is held out.
  virtual Json right(const Learner& learner, std::size_t count) const = 0;

  std::deque<Learner> learners;  // which never move
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
    const double u = random.uniform();  // short ones are frequent, as in examples/long_sentences
    return pairs(1 + static_cast<Index>(longest * u * u), 16, random);
  }
  /// For each length, the share of words that are right.
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

/// The five likeliest characters by logits (V).
Json likeliest(const Tensor& logits, const text::Vocabulary& vocabulary) {
  const auto p = softmax(logits, -1).to_vector<double>();
  std::vector<std::int32_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + 5, ids.end(),
                    [&](std::int32_t a, std::int32_t b) { return p[a] > p[b]; });
  Json all = Json::array();
  for (int i = 0; i < 5; ++i) all.push_back({vocabulary.token(ids[i]), p[ids[i]]});
  return all;
}

/// e of the S places, null outside of a window.
Json scores(const std::pair<Tensor, Tensor>& kept, Index S) {
  const auto e = kept.first.to_vector<double>();
  Json all(static_cast<std::size_t>(S), nullptr);
  for (std::size_t i = 0; i < e.size(); ++i) {
    const Index s = kept.second.defined() ? kept.second.at<std::int32_t>({Index(i), 0}) : Index(i);
    if (s >= 0) all[s] = e[i];
  }
  return all;
}

/// What a model makes of a line: the best of a beam of four, and each of its steps under teacher forcing.
Json look_at(const text::Codec& source, const text::Codec& target,
             const models::WordModel auto& model, Watch& watch, const std::string& line,
             Index longest) {
  const NoGrad no_grad;
  const text::Sentence words = source.encode(line);
  if (words.empty()) throw Error("there is nothing to read");
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
  const auto all =
      models::unroll(model, model.encode(batch.source, batch.source_mask), batch.previous);
  const std::vector<Var>& weights = all.weights;
  const Tensor logits = Var(model.logits(all.words, all.outputs)).value();
  for (Index t = 0; t < batch.previous.dim(0); ++t) {
    Json step{{"likeliest", likeliest(logits[t][0], target.vocabulary)}};
    if (!weights.empty())
      step["weights"] = weights[static_cast<std::size_t>(t)].value().to_vector<double>();
    if (!watch.e.empty()) step["e"] = scores(watch.e[t], batch.source.dim(0));
    answer["steps"].push_back(step);
  }
  return answer;
}

/// What `make` returns, or {"error": ...}, as text that stays until the next call.
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

/// {lesson, updates, rate, models: [options of Bahdanau, or of the model "encoder-decoder"]}: new
/// models, -> their sizes.
EMSCRIPTEN_KEEPALIVE const char* begin(const char* request) {
  return answer(request, [](const Json& asked) {
    if (asked["lesson"] == "dates") dates = std::make_unique<DatesLesson>(asked);
    if (asked["lesson"] == "sentences") sentences = std::make_unique<SentencesLesson>(asked);
    Json counts = Json::array();
    for (const Learner& learner : lesson_of(asked).learners)
      counts.push_back(learner.parameters.count());
    return Json{{"parameters", counts}};
  });
}

/// {lesson, updates}: -> the number of updates so far, and the mean loss of each model in these.
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

/// {lesson, count}: what each model gets right.
EMSCRIPTEN_KEEPALIVE const char* evaluate(const char* request) {
  return answer(request, [](const Json& asked) {
    Json right = Json::array();
    for (const Learner& learner : lesson_of(asked).learners)
      right.push_back(lesson_of(asked).right(learner, asked["count"]));
    return Json{{"right", right}, {"of", asked["count"]}};
  });
}

/// {lesson, line, model, overruled: [[step, α], ...]}: what that model makes of a line, see look_at.
EMSCRIPTEN_KEEPALIVE const char* look(const char* request) {
  return answer(request, [](const Json& asked) {
    const std::string line = asked["line"];
    if (asked["lesson"] == "checkpoint") {
      const auto& [parameters, model, codecs, metadata, checksum] = *checkpoint;
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
                   typed(line, dates->source).source, 12);
  });
}

/// {place, size} of the bytes of a checkpoint, which it frees: -> the number of its parameters.
EMSCRIPTEN_KEEPALIVE const char* open_checkpoint(const char* request) {
  return answer(request, [](const Json& asked) {
    const auto bytes = reinterpret_cast<std::byte*>(asked["place"].get<std::uintptr_t>());
    const std::unique_ptr<std::byte, decltype(&std::free)> owner(bytes, std::free);
    checkpoint = std::make_unique<models::LoadedModel<>>(models::load_from<>(
        load_safetensors(std::span<const std::byte>(bytes, asked["size"].get<std::size_t>()))));
    return Json{{"parameters", checkpoint->parameters->count()}};
  });
}

}  // extern "C"
