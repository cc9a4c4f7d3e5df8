// Compares models with and without attention by accuracy on sentences of 5 to 80 words (Cho et al.,
// 2014, "On the properties of neural machine translation"; Bahdanau et al., 2014, figure 2; Luong
// et al., 2015, figure 6). The models train in parallel, each on one thread.
//
//     build/examples/long_sentences --quick       four models: a minute
//     build/examples/long_sentences               all models
//     build/examples/long_sentences --longest 20  trains on up to 20 words: extrapolation to 80
//
// Saves weights in --out. A saved model that was trained with the same options is only tested.
#include <mutex>
#include <numeric>

#include <fmt/ranges.h>

#include <attune/attune.hpp>

#include "common.hpp"

using namespace attune;

constexpr std::int32_t first_word = 4;  // after <pad>, <s>, </s> and <unk>
constexpr Index words_of_language = 80;
constexpr std::array<Index, 9> lengths = {5, 10, 20, 30, 40, 50, 60, 70, 80};  // of test sentences

/// A random language and its translation. Each source word has a class, 0 or 1. Source word w
/// becomes form k of the word dictionary[w], where k is the class of the source word before w (0
/// for the first). No word occurs twice in a sentence; a sentence of 60 out of 80 words carries 334
/// bits.
struct Task {
  Task(Index count, std::uint64_t seed) : words(count) {  // count: vocabulary size
    Random random(seed, "dictionary");
    dictionary = draw(words, random);
    for (Index i = 0; i < words; ++i) classes.push_back(static_cast<std::int32_t>(random.below(2)));
  }

  /// The first `length` words of a random permutation (Fisher-Yates shuffle).
  text::Sentence draw(Index length, Random& random) const {
    text::Sentence all(words);
    std::iota(all.begin(), all.end(), first_word);
    for (Index i = 0; i < length; ++i) std::swap(all[i], all[i + random.below(words - i)]);
    all.resize(length);
    return all;
  }

  /// `count` sentences of one length with their translations.
  std::vector<text::Pair> pairs(Index length, Index count, Random& random) const {
    std::vector<text::Pair> pairs(count);
    for (text::Pair& pair : pairs) {
      std::int32_t form = 0;
      for (const std::int32_t word : pair.source = draw(length, random)) {
        const Index w = word - first_word;
        pair.target.push_back(first_word + 2 * (dictionary[w] - first_word) + form);
        form = classes[w];
      }
    }
    return pairs;
  }

  Index words;
  text::Sentence dictionary;          // a permutation of the words
  std::vector<std::int32_t> classes;  // 0 or 1, of each word of the source
};

/// Percentage of target positions that greedy search predicts correctly.
double accuracy(const models::Model& model, const std::vector<text::Pair>& pairs) {
  std::vector<text::Sentence> sources;
  for (const text::Pair& pair : pairs) sources.push_back(pair.source);
  const models::SearchOptions greedy{.max_length = std::ssize(sources.front()) + 5};
  const auto found = models::translate(model, sources, {.how = greedy});
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const text::Sentence &written = found[i].front().words, &target = pairs[i].target;
    double right = 0;
    for (std::size_t t = 0; t < std::min(written.size(), target.size()); ++t)
      right += written[t] == target[t];
    sum += right / static_cast<double>(std::max(written.size(), target.size()));
  }
  return 100 * sum / static_cast<double>(pairs.size());
}

// ---- Training, and the models

struct Options {
  Index steps = 1500, hidden = 64, longest = 60;
  std::uint64_t seed = 1;
};

models::OptionList fields_of(Options& o) {
  using models::option;
  return {option("steps", "number of updates, with 64 sentences each", o.steps, 1, 1e9),
          option("hidden", "hidden size of each layer; a multiple of 8", o.hidden, 8, 4096),
          option("longest", "maximum words per training sentence", o.longest, 1, words_of_language),
          option("seed", "random seed: language, sentences, initial weights", o.seed, 0, 0x1p64)};
}

using Row = std::array<double, lengths.size()>;   // accuracy by length
using Report = std::function<void(double loss)>;  // called after each step

/// Trains a model, or reads it from `file` if that was trained with the same options, and tests it.
/// Training lengths are 1 + ⌊longest · u²⌋ with u uniform in [0, 1): for 60 words, a third of the
/// batches have at most 7 words, which are cheap and which models without attention can learn. Long
/// sentences occur from the first step on.
template <class Model>
Row run(const typename Model::Options& own, double rate, Options o, const std::string& file,
        const Report& report) {
  const Task task(words_of_language, o.seed);
  nn::Parameters parameters(o.seed);
  const Model model(parameters, own);
  const std::string options = fmt::format("{}", models::to_map(o));
  if (!std::filesystem::exists(file) || load_safetensors(file).metadata["options"] != options) {
    nn::Adam adam(parameters);
    const nn::LinearDecay decay{rate, rate / 50, o.steps, o.steps / 2};  // after half of the steps
    const nn::WarmUp schedule{.steps = 50, .next = decay};
    Random training(o.seed, "training");
    for (Index step = 0; step < o.steps; ++step) {
      const double u = training.uniform();
      const Index length = 1 + static_cast<Index>(static_cast<double>(o.longest) * u * u);
      const Var loss = models::loss(model, text::make_batch(task.pairs(length, 64, training)));
      Gradients gradients = backward(loss);
      nn::clip_by_global_norm(gradients, 1.0);
      adam.set_rate(schedule(step));
      adam.step(gradients);
      report(loss.item());
    }
    Safetensors trained{.tensors = {}, .metadata = {{"options", options}}};
    nn::save_parameters(parameters, trained);
    save_safetensors(file, trained);
  }
  nn::load_parameters(load_safetensors(file), parameters);
  Random test(o.seed, "test");
  Row row;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    row[i] = accuracy(model, task.pairs(lengths[i], 50, test));
  return row;
}

struct Variant {
  std::string name;
  std::function<Row(const Options&, const std::string& file, const Report&)> run;
};

/// A model with hidden size `units`, and half of that for embeddings.
template <class Model>
Variant variant(const std::string& name, Index units, typename Model::Options own,
                double rate = 6e-3) {
  own.source_vocabulary = first_word + words_of_language;
  own.target_vocabulary = first_word + 2 * words_of_language;  // each word has two forms
  if constexpr (requires { own.embedding; }) own.hidden = units, own.embedding = units / 2;
  if constexpr (requires { own.readout; }) own.readout = units;
  return {name, [=](const Options& o, const std::string& file, const Report& report) {
            return run<Model>(own, rate, o, file, report);
          }};
}

/// All models. The Transformer needs a lower learning rate to learn long sentences.
std::vector<Variant> variants(Index n) {
  const auto luong = [n](const char* name, const char* score, nn::AttentionOptions window = {}) {
    const nn::ScoreOptions own{.kind = score, .attention = n / 2, .longest = words_of_language};
    return variant<models::Luong>(
        name, n, {.encoder_layers = 1, .decoder_layers = 1, .score = own, .attention = window});
  };
  return {
      variant<models::EncoderDecoder>("encoder-decoder", n, {}),
      variant<models::Sutskever>("sutskever", n, {}),
      variant<models::Bahdanau>("bahdanau", n, {.score = {.attention = n / 2}}),
      variant<models::Nematus>("nematus", n, {.score = {.attention = n / 2}}),
      variant<models::Transformer>(
          "transformer", n,
          {.layer = {.size = n, .inner = 4 * n}, .encoder_layers = 2, .decoder_layers = 2}, 2e-3),
      luong("luong-dot", "dot"),
      luong("luong-scaled-dot", "scaled_dot"),
      luong("luong-general", "general"),
      luong("luong-concat", "concat"),
      luong("luong-location", "location"),
      luong("luong-cosine", "cosine"),
      luong("luong-multi-head", "multi_head"),
      luong("luong-local-m", "general", {.window = nn::Window::local_monotonic}),
      luong("luong-local-p", "general", {.window = nn::Window::local_predictive}),
      luong("luong-sparsemax", "general", {.normalizer = "sparsemax"})};
}

struct CommandLine {
  Options of_training;
  std::string names, out = "long-sentences";
  bool quick = false;
};

models::OptionList fields_of(CommandLine& o) {
  models::OptionList all = fields_of(o.of_training);
  std::string names;
  for (const Variant& one : variants(o.of_training.hidden))
    names += (names.empty() ? "" : ", ") + one.name;
  const std::string help = "comma-separated (default: " + names + ")";
  all.push_back(models::option("models", help, o.names, "TEXT"));
  all.push_back(models::option("out", "output directory of the weights", o.out, "DIRECTORY"));
  all.push_back(models::flag("quick", "four models only: a minute on two cores", o.quick));
  return models::only_with(all, {"quick"}, "models to choose, which --models replaces", o,
                           [](const CommandLine& typed) { return typed.names.empty(); });
}

int experiment(int argc, char** argv) {
  CommandLine typed;
  const std::string usage = "usage: long_sentences [--quick] [--OPTION VALUE ...]";
  if (!examples::parse_command_line(argc, argv, usage, typed).empty()) throw Error(usage);
  auto& [o, names, out, quick] = typed;
  if (o.hidden % 8 != 0)
    fail("--hidden", "expected a multiple of 8");  // half of it is split into four heads
  if (quick) names = "encoder-decoder,bahdanau,luong-general,luong-local-m";
  std::vector<Variant> chosen = variants(o.hidden);
  std::vector<std::string> asked;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');)
    asked.push_back(models::with_hyphens(name));
  std::erase_if(chosen, [&](const Variant& one) {
    return !asked.empty() && std::ranges::find(asked, one.name) == asked.end();
  });
  if (!asked.empty() && chosen.size() != asked.size())
    fail("--models", "expected different names of models, got " + in_quotes(names));
  make_directories(out);
  remove_unfinished(out);
  examples::Progress progress(0, o.steps * std::ssize(chosen));
  std::mutex mutex;
  Index done = 0;
  std::vector<Row> rows(chosen.size());
  parallel_for(std::ssize(chosen), [&, &o = o, &out = out](Index i) {
    rows[i] = chosen[i].run(o, out + "/" + chosen[i].name + ".safetensors", [&](double loss) {
      const std::lock_guard lock(mutex);
      progress.show(++done, fmt::format("{}  loss {:.3f}", chosen[i].name, loss));
    });
  });
  fmt::print("\nCorrect target words in percent, by length; trained on up to {} words\n",
             o.longest);
  fmt::print("{:16}{:>6}\n", "", fmt::join(lengths, ""));
  for (std::size_t i = 0; i < rows.size(); ++i)
    fmt::print("{:16}{:6.1f}\n", chosen[i].name, fmt::join(rows[i], ""));
  return 0;
}

int main(int argc, char** argv) {
  return examples::run_program("long_sentences", [&] { return experiment(argc, argv); });
}
