// Trains the model of a paper on pairs of lines, and shows its attention weights:
//   bahdanau  D. Bahdanau, K. Cho, Y. Bengio: Neural machine translation by jointly learning to
//             align and translate (2014): bidirectional encoder, additive attention before a step
//   luong     T. Luong, H. Pham, C. Manning: Effective approaches to attention-based neural machine
//             translation (2015): two LSTM layers, general attention after each step, input feeding
// Other models (models/by_name.hpp): nematus, encoder-decoder, sutskever, transformer.
//
//     build/examples/papers luong PAIRS.tsv [--epochs 10] [--weights papers.safetensors]
//
// Each line of PAIRS.tsv is SOURCE TAB TARGET; blanks separate words. One pair in twenty, at most
// 500, is held out: after each epoch, the program prints the BLEU of these pairs, and saves the
// weights if it is the best so far.
#include <iostream>
#include <set>

#include <fmt/format.h>

#include <attune/attune.hpp>

#include "common.hpp"

using namespace attune;

struct Data {
  text::Codec source, target;
  std::vector<text::Pair> train;
  std::vector<text::TextPair> held_out;
};

Data read(const std::string& path) {
  const text::TextCorpus corpus = text::read_corpus(text::ParallelReader(path), /*longest=*/50);
  const std::size_t n = corpus.pairs.size();
  if (n < 2) throw Error(path + ": has " + std::to_string(n) + " pairs, expected at least 2");
  std::cout << to_string(corpus.report) << "\n";
  const std::vector<std::uint32_t> order = shuffled(n, Random(/*seed=*/1));
  const std::size_t held_out = std::clamp<std::size_t>(n / 20, 1, 500);

  Data data;
  std::vector<text::TextPair> train;
  std::set<std::string> tests;  // held-out sources are excluded from training
  for (std::size_t i = 0; i < n; ++i) {
    const text::TextPair& pair = corpus.pairs[order[i]];
    if (i < held_out) tests.insert(pair.source), data.held_out.push_back(pair);
    if (!tests.contains(pair.source)) train.push_back(pair);
  }
  if (train.empty()) throw Error(path + ": all pairs have the same source, expected several");
  text::TokenCounts source, target;
  for (const text::TextPair& pair : train) {
    text::count_tokens(source, data.source.tokenizer.encode(pair.source));
    text::count_tokens(target, data.target.tokenizer.encode(pair.target));
  }
  examples::warn_of_rare_tokens(path + ": source", source);
  examples::warn_of_rare_tokens(path + ": target", target);
  data.source.vocabulary = text::make_vocabulary(source, {.maximum_size = 20'000});
  data.target.vocabulary = text::make_vocabulary(target, {.maximum_size = 20'000});
  for (const text::TextPair& pair : train)
    data.train.push_back({data.source.encode(pair.source), data.target.encode(pair.target)});
  return data;
}

/// The best hypothesis for each line, by beam search.
std::vector<models::Hypothesis> translate(const models::NamedModel& model, const Data& data,
                                          std::span<const text::TextPair> pairs) {
  std::vector<text::Sentence> sources;
  for (const text::TextPair& pair : pairs) sources.push_back(data.source.encode(pair.source));
  const models::SearchOptions search{.beam = 4, .length_penalty = 1};
  std::vector<models::Hypothesis> best;
  for (auto& found : models::translate(model, sources, {.how = search}))
    best.push_back(std::move(found.front()));
  return best;
}

double bleu(const models::NamedModel& model, const Data& data) {
  std::vector<std::string> written;
  std::vector<metrics::References> references;
  for (const models::Hypothesis& best : translate(model, data, data.held_out))
    written.push_back(data.target.decode(best.words));
  for (const text::TextPair& pair : data.held_out) references.push_back({pair.target});
  return metrics::corpus_bleu(written, references);
}

/// Prints α of one held-out pair as a heat map.
void show(const models::NamedModel& model, const Data& data) {
  const text::TextPair& pair = data.held_out.front();
  const models::Hypothesis best = translate(model, data, std::span(&pair, 1)).front();
  if (!best.weights.defined()) return;  // a model without attention
  report::Heatmap map{.rows = {},
                      .columns = data.source.tokenizer.encode(pair.source),
                      .weights = best.weights.slice(0, std::ssize(best.words)).to_vector<double>(),
                      .caption = ""};
  for (const auto word : best.words) map.rows.push_back(data.target.vocabulary.token(word));
  std::cout << fmt::format(
      "\n{} -> {}\nAttention: rows are target words, columns source words; a stronger shade is a "
      "larger weight\n\n{}\n",
      printable(pair.source), printable(data.target.decode(best.words)),
      report::terminal(map, {.colour = examples::obeys_escapes()}));
}

void train(const models::ModelOptions& options, const Data& data, Index epochs,
           const std::string& weights) {
  nn::Parameters parameters(/*seed=*/1);
  const models::Vocabularies sizes{data.source.vocabulary.size(), data.target.vocabulary.size()};
  const models::NamedModel model(parameters, options, sizes);
  nn::Adam adam(parameters, {.rate = 1e-3});
  Random random(/*seed=*/1);  // for dropout
  std::cout << fmt::format(
      "{} pairs to train on, {} held out; vocabularies of {} and {}; {} parameters\n",
      data.train.size(), data.held_out.size(), sizes.source, sizes.target, parameters.count());

  double best = -1;
  for (Index epoch = 1; epoch <= epochs; ++epoch) {
    const auto batches = text::epoch_batches(data.train, {.sentences = 64}, /*seed=*/1, epoch);
    double loss_sum = 0;
    for (std::size_t step = 1; step <= batches.size(); ++step) {
      const text::Batch batch = text::make_batch(data.train, batches[step - 1]);
      const nn::Training training(random);  // dropout is active in this block
      const Var loss = model.loss(batch);
      Gradients gradients = backward(loss);
      nn::clip_by_global_norm(gradients, 1.0);
      adam.step(gradients);
      loss_sum += loss.item();
      if (step % 50 == 0 || step == batches.size())
        std::cout << fmt::format("epoch {}  batch {} of {}  loss {:.3f}", epoch, step,
                                 batches.size(), loss_sum / static_cast<double>(step))
                  << std::endl;
    }
    const double score = bleu(model, data);
    std::cout << fmt::format("epoch {}  BLEU {:.2f}", epoch, score) << std::endl;
    if (score > best)  // `attune predict --model` can also read the file
      best = score, models::save(weights, model, parameters, {data.source, data.target});
  }
  nn::load_parameters(load_safetensors(weights), parameters);
  show(model, data);
  std::cout << fmt::format("The best weights, BLEU {:.2f}, are in {}\n", bleu(model, data),
                           printable(weights))
            << "Try it: examples/build.sh attune && build/examples/attune predict --model "
            << examples::in_shell(weights) << "\n";
}

struct Options {
  Index epochs = 10;
  std::string weights = "papers.safetensors";
};

models::OptionList fields_of(Options& o) {
  return {models::option("epochs", "passes over the training pairs", o.epochs, 1, 1e6),
          models::option("weights", "output file of the best weights", o.weights, "FILE")};
}

int main(int argc, char** argv) {
  return examples::run_program("papers", [&] {
    Options o;
    std::string usage =
        "usage: papers MODEL PAIRS.tsv [OPTIONS]\n"
        "PAIRS.tsv: SOURCE TAB TARGET on each line; blanks separate words\nMODEL:";
    for (const models::ModelKind& kind : models::model_kinds())
      usage += fmt::format(" {}", kind.name);
    const auto arguments = examples::parse_command_line(argc, argv, usage, o);
    if (arguments.size() != 2) throw Error("expected MODEL PAIRS.tsv; --help describes them");
    examples::require_writable(o.weights, {arguments[1]});
    auto options = models::model_options(arguments[0]);
    models::set(options, "dropout", "0.2");
    models::set(options, "label-smoothing", "0.1");
    train(options, read(arguments[1]), o.epochs, o.weights);
    return 0;
  });
}
