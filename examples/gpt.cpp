// A character language model: a decoder-only Transformer (Radford et al., 2019, in small) learns to
// predict the next character, and then writes a text of its own.
//
//     build/examples/gpt TEXT.txt                  4 layers, 128 wide, context 64
//     build/examples/gpt TEXT.txt --layers 6 --heads 6 --width 192 --context 128 --batch 32
//                        --dropout 0.1 --steps 3000
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <numbers>
#include <set>
#include <sstream>

#include <attune/attune.hpp>

using namespace attune;
using std::chrono::steady_clock;

/// The options, and their defaults.
std::map<std::string, double> options = {{"layers", 4},   {"heads", 4},   {"width", 128},
                                         {"context", 64}, {"batch", 12},  {"dropout", 0},
                                         {"steps", 2000}, {"rate", 3e-3}, {"seed", 1}};

Index number(const std::string& name) { return static_cast<Index>(options.at(name)); }

/// A text as numbers, one for each different byte.
struct Text {
  std::string alphabet;
  text::Sentence ids;

  explicit Text(const std::string& file) {
    const std::string bytes = read_file(file);
    const std::set<char> different(bytes.begin(), bytes.end());
    alphabet.assign(different.begin(), different.end());
    for (const char c : bytes) ids.push_back(static_cast<std::int32_t>(alphabet.find(c)));
  }
};

/// Columns of `context` characters from each place, and those that come next: (T, B).
models::Target windows(std::span<const std::int32_t> ids, const std::vector<Index>& places,
                       Index context) {
  const Index B = std::ssize(places);
  models::Target batch{zeros({context, B}, DType::i32), zeros({context, B}, DType::i32),
                       ones({context, B})};
  std::int32_t *previous = batch.previous.mutable_data<std::int32_t>(),
               *next = batch.next.mutable_data<std::int32_t>();
  for (Index t = 0; t < context; ++t) {
    for (const Index place : places) {
      *previous++ = ids[place + t];
      *next++ = ids[place + t + 1];
    }
  }
  return batch;
}

/// Mean loss of windows side by side: each character but the first is predicted once.
double validation_loss(const models::TransformerLm& model, std::span<const std::int32_t> ids,
                       Index context) {
  const NoGrad no_grad;
  double total = 0;
  Index count = 0;
  std::vector<Index> places;
  for (Index at = 0; at + context < std::ssize(ids); at += context) {
    places.push_back(at);
    if (std::ssize(places) < 64 && at + 2 * context < std::ssize(ids)) continue;
    const Index n = std::ssize(places);
    total += n * models::loss(model, models::no_source(n), windows(ids, places, context)).item();
    count += n;
    places.clear();
  }
  return total / count;
}

void run(const std::string& file) {
  const Text text(file);
  const Index context = number("context"), batch = number("batch"), steps = number("steps");
  const auto part = text.ids.size() * 9 / 10;  // nine tenths to train
  const std::span train(text.ids.data(), part), valid = std::span(text.ids).subspan(part);
  if (std::ssize(valid) <= context)
    throw Error(file + ": " + std::to_string(text.ids.size()) +
                " characters are too few: a tenth of them must exceed the context");

  nn::Parameters params(number("seed"));
  const Index vocabulary = std::ssize(text.alphabet);
  const models::TransformerLm model(params, {.target_vocabulary = vocabulary,
                                             .layer = {.size = number("width"),
                                                       .heads = number("heads"),
                                                       .inner = 4 * number("width"),
                                                       .nonlinearity = nn::Nonlinearity::gelu,
                                                       .dropout = options.at("dropout"),
                                                       .inner_dropout = 0},
                                             .decoder_layers = number("layers")});
  nn::Adam adam(params, {.beta2 = 0.99, .weight_decay = 0.1, .decays = nn::matrices_only});
  const auto rate = [&, first = options.at("rate")](Index step) {  // cosine to a tenth of it
    const double cosine = (1 + std::cos(std::numbers::pi * step / steps)) / 2;
    return std::min(1.0, (step + 1) / 100.0) * first * (0.1 + 0.9 * cosine);
  };
  Random random(number("seed"));
  std::cout << params.count() << " parameters, " << threads() << " threads, " << std::ssize(train)
            << " characters, " << vocabulary << " different ones\n";

  const auto start = steady_clock::now();
  for (Index step = 0; step < steps; ++step) {
    std::vector<Index> places(batch);
    for (Index& place : places) place = random.below(std::ssize(train) - context);
    const nn::Training training(random);
    const Var loss = models::loss(model, models::no_source(batch), windows(train, places, context));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(rate(step));
    adam.step(gradients);

    if ((step + 1) % 200 != 0 && step + 1 != steps) continue;
    const std::chrono::duration<double> seconds = steady_clock::now() - start;
    const double per_step = seconds.count() / (step + 1);
    std::cout << "step " << step + 1 << " of " << steps << "  loss " << loss.item() << "  "
              << std::lround(batch * context / per_step) << " characters/s  "
              << std::lround(per_step * (steps - step - 1)) << " s left" << std::endl;
  }
  std::cout << "validation loss " << validation_loss(model, valid, context)
            << " nats per character\n";

  const std::int32_t begin = std::max(0, static_cast<std::int32_t>(text.alphabet.find('\n')));
  for (const auto& sampled :
       models::sample(model, models::no_source(4),
                      {.temperature = 0.8, .max_length = context - 1, .begin = begin, .end = -1})) {
    std::string written;
    for (const std::int32_t id : sampled.words) written += text.alphabet[id];
    std::cout << "----\n" << printable(written, "\n") << "\n";
  }
}

int main(int argc, char** argv) try {
  if (argc < 2 || argc % 2 != 0 || *argv[1] == '-') {
    std::cout << "usage: gpt TEXT.txt [--OPTION NUMBER] ...\noptions and their defaults:";
    for (const auto& [name, value] : options) std::cout << " --" << name << " " << value;
    std::cout << "\n";
    return argc == 2 ? 0 : 1;
  }
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    const auto option = flag.starts_with("--") ? options.find(flag.substr(2)) : options.end();
    if (option == options.end()) throw Error("there is no option '" + flag + "'");
    const bool whole = flag != "--dropout" && flag != "--rate";
    std::istringstream text(argv[i + 1]);
    double& value = option->second;
    if (!(text >> value) || !text.eof() || value < whole || value > 1e6 ||
        (whole && value != std::floor(value)))
      throw Error(flag + ": a number to 1000000 is expected" + (whole ? ", whole, from 1" : ""));
  }
  run(argv[1]);
} catch (const std::bad_alloc&) {
  std::cerr << "gpt: there is not enough memory\n";
  return 1;
} catch (const std::exception& error) {
  std::cerr << "gpt: " << error.what() << "\n";
  return 1;
}
