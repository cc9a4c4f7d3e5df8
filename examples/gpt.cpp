// A character language model: trains a small decoder-only Transformer (Radford et al., 2019) to
// predict the next character, then generates text.
//
//     build/examples/gpt TEXT.txt                  trains: 4 layers, width 128, context 64
//     build/examples/gpt TEXT.txt --layers 6 --heads 6 --width 192 --context 128 --batch 32
//                        --dropout 0.1 --steps 3000
//     build/examples/gpt gpt.safetensors           generates text with trained weights
//     build/examples/gpt gpt.safetensors --prompt "To be"
#include <cmath>
#include <iostream>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include <attune/attune.hpp>

#include "common.hpp"

using namespace attune;

struct Options {
  Index layers = 4, heads = 4, width = 128, context = 64, batch = 12;
  double dropout = 0;
  Index steps = 2000;
  double rate = 3e-3;
  Precision precision = Precision::f32;
  std::uint64_t seed = 1;
  std::string prompt;
  std::filesystem::path out = "gpt.safetensors";
};

models::OptionList fields_of(Options& o) {
  using models::option;
  constexpr double most = 1e6, longest = 16384;  // the time grows with the square of the context
  return {option("layers", "number of layers", o.layers, 1, 64),
          option("heads", "number of attention heads", o.heads, 1, 65536),
          option("width", "size of embeddings and hidden states", o.width, 1, 16384),
          option("context", "context length, in characters", o.context, 2, longest),
          option("batch", "windows of --context characters per update", o.batch, 1, most),
          option("dropout", "dropout rate of embeddings, attention weights and sublayer outputs",
                 o.dropout, 0, 0.99),
          option("steps", "number of updates", o.steps, 1, most),
          option("rate", "maximum learning rate; decays to a tenth", o.rate, 1e-9, 1),
          models::choice("precision", "precision of matrix products; f32 is used if it is faster",
                         o.precision, {"f32", "bf16x3", "bf16"}),
          option("seed", "random seed: initial weights, windows, dropout, texts", o.seed, 0, 1e18),
          option("prompt", "text to continue, shorter than --context (default: a line break)",
                 o.prompt),
          option("out", "output file of the weights", o.out)};
}

/// A text as character ids, and its alphabet.
struct Text {
  text::Codec codec;
  Tensor ids;  // (N) i32

  explicit Text(const std::string& file) {
    const std::string text = read_file(file);
    if (const auto bad = text::find_bad_byte(text))
      throw Error(file + ": byte " + std::to_string(*bad + 1) + " is not UTF-8");
    const text::Tokenizer tokenizer{text::Characters{}};
    const std::vector<std::string> characters = tokenizer.encode(text);
    const std::set<std::string> different(characters.begin(), characters.end());
    const std::vector<std::string> alphabet(different.begin(), different.end());
    codec = {tokenizer, text::Vocabulary(alphabet)};
    const text::Sentence all = codec.encode(characters);
    ids = Tensor::of({std::ssize(all)}, std::span(all));
  }
};

/// Windows of `context` characters of `ids` (N) that begin at the positions `begins` (B), and the
/// next characters: (T, B) each.
models::Target windows(const Tensor& ids, const Tensor& begins, Index context) {
  const Tensor at = arange(context).reshape({context, 1}) + begins;
  return {gather(ids, at), gather(ids, at + 1), ones(at.shape())};
}

/// Mean loss over adjacent windows. Leaves out the last characters, which do not fill one.
double validation_loss(const models::TransformerLm& model, const Tensor& ids, Index context) {
  const NoGrad no_grad;
  const Tensor begins = context * arange((ids.size() - 1) / context);
  double total = 0;
  for (Index i = 0; i < begins.size(); i += 64) {
    const Tensor some = begins.slice(i, std::min(begins.size(), i + 64));
    const Var loss =
        models::loss(model, models::no_source(some.size()), windows(ids, some, context));
    total += some.size() * loss.item();
  }
  return total / begins.size();
}

/// The token ids of --prompt. Throws if a character is not in the vocabulary.
text::Sentence prompt_of(const text::Codec& codec, const Options& o) {
  if (o.prompt.empty()) return {codec.vocabulary.id("\n")};
  text::Sentence ids = codec.encode(o.prompt);
  if (std::ssize(ids) >= o.context)
    fail("--prompt", fmt::format("{} characters, expected fewer than the {} of --context",
                                 ids.size(), o.context));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == text::Vocabulary::unknown)
      fail("--prompt", in_quotes(codec.tokenizer.encode(o.prompt)[i]) + " is not in the text");
  return ids;
}

/// A language model that starts after the tokens `before`.
struct Continued : models::TransformerLm {
  text::Sentence before;

  State start(const models::Encoded& source) const {
    State state = TransformerLm::start(source);
    for (const std::int32_t id : before)
      state = step(read(full({1, source.mask.dim(1)}, id, DType::i32))[0], state).state;
    return state;
  }
};

/// Generates and prints four texts.
void write(const models::TransformerLm& model, const text::Codec& codec, const Options& o) {
  text::Sentence prompt = prompt_of(codec, o);
  const models::SearchOptions search{
      .max_length = o.context - std::ssize(prompt), .begin = prompt.back(), .end = -1};
  prompt.pop_back();
  const Continued continued{model, prompt};
  for (const auto& sampled : models::sample(continued, models::no_source(4),
                                            {.temperature = 0.8, .seed = o.seed}, search))
    std::cout << "----\n" << printable(o.prompt + codec.decode(sampled.words), "\n\t") << "\n";
}

void train(const std::string& file, Options o) {
  if (o.out.extension() != ".safetensors")
    fail("--out", "expected FILE.safetensors, got " + in_quotes(o.out.string()));
  examples::require_writable(o.out, {file});
  const Text text(file);
  const Index size = text.ids.size(), part = size * 9 / 10;  // nine tenths to train
  const Tensor train = text.ids.slice(0, part), valid = text.ids.slice(part, size);
  if (valid.size() <= o.context)
    throw Error(file + ": " + std::to_string(size) +
                " characters are too few: a tenth of them must exceed --context");

  prompt_of(text.codec, o);
  nn::Parameters params(o.seed);
  const Index vocabulary = text.codec.vocabulary.size();
  const models::TransformerLm model(params, {.target_vocabulary = vocabulary,
                                             .layer = {.size = o.width,
                                                       .heads = o.heads,
                                                       .inner = 4 * o.width,
                                                       .nonlinearity = nn::Nonlinearity::gelu,
                                                       .dropout = o.dropout,
                                                       .inner_dropout = 0},
                                             .decoder_layers = o.layers});
  nn::Adam adam(params, {.beta2 = 0.99, .weight_decay = 0.1, .decays = nn::matrices_only});
  const auto rate = [&](Index step) {  // warm-up of 100 steps, cosine decay to a tenth
    const double cosine = (1 + std::cos(std::numbers::pi * step / o.steps)) / 2;
    return std::min(1.0, (step + 1) / 100.0) * o.rate * (0.1 + 0.9 * cosine);
  };
  Random random(o.seed);
  const Precision precision = fastest_precision(o.precision);
  std::cout << params.count() << " parameters, " << threads() << " threads, matrix products in "
            << to_string(precision) << ", " << train.size() << " characters, " << vocabulary - 4
            << " different ones\n";

  examples::Progress progress(0, o.steps);
  for (Index step = 1; step <= o.steps; ++step) {
    const Tensor begins = integers({o.batch}, random, 0, train.size() - o.context);
    const nn::Training training(random);
    const InPrecision products(precision);
    const Var loss =
        models::loss(model, models::no_source(o.batch), windows(train, begins, o.context));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(rate(step - 1));
    adam.step(gradients);
    progress.show(step, "loss " + std::to_string(loss.item()), step % 200 == 0 || step == o.steps);
  }
  std::cout << "validation loss " << validation_loss(model, valid, o.context)
            << " nats per character\n";
  models::Codecs codecs;  // a language model has no source
  codecs.target = text.codec;
  const auto out = std::exchange(o.out, "");  // the path may not be UTF-8
  models::save(out, model, params, codecs, models::to_map(o));
  write(model, text.codec, o);
  std::cout << "Try it: " << examples::program_in_shell() << " " << examples::in_shell(out.string())
            << "\n";
}

int main(int argc, char** argv) {
  return examples::run_program("gpt", [&] {
    Options o;
    const std::string usage =
        "usage: gpt TEXT.txt [OPTIONS] trains; gpt WEIGHTS.safetensors generates text";
    const auto files = examples::parse_command_line(argc, argv, usage, o);
    if (files.size() != 1) throw Error(usage);
    if (std::filesystem::path(files[0]).extension() != ".safetensors") return train(files[0], o), 0;
    const auto saved = models::load<models::TransformerLm>(files[0]);
    Metadata trained = saved.metadata;
    trained["prompt"] = "";
    examples::parse_for_model(argc, argv, o, files[0], trained, {"seed", "prompt"});
    write(saved.model, saved.codecs.target, o);
    return 0;
  });
}
