// Runs a tagger with weights from PyTorch, converted by import_torch.py: nn.Embedding "embedding",
// a recurrent layer "rnn" and nn.Linear "output".
//
//     run_imported LAYER WEIGHTS INPUT OUTPUT
//
// WEIGHTS, INPUT and OUTPUT are safetensors files. INPUT contains `ids` (T, B) i32 and `mask` (T,
// B), OUTPUT `scores` (T, B, C). LAYER is one of the names below; stacked ones have two layers.
#include <iostream>
#include <map>

#include <attune/attune.hpp>

using namespace attune;

/// The first tensor in a file whose name ends with `ending`.
const Tensor& find(const Safetensors& file, const std::string& ending) {
  for (const auto& [name, tensor] : file.tensors) {
    if (name.ends_with(ending)) return tensor;
  }
  throw Error("no tensor has a name that ends with " + in_quotes(ending));
}

template <class Layer>
Var scores(const Safetensors& weights, const Safetensors& input) {
  const Tensor &E = find(weights, "embedding.E"), &W_h = find(weights, "W_h"),
               &W = find(weights, "output.W"), &mask = find(input, "mask");
  nn::Parameters params(/*seed=*/1, E.dtype());
  const nn::Scope scope(params);
  const nn::Embedding embedding(scope / "embedding", E.dim(0), E.dim(1));
  const Layer rnn(scope / "rnn", E.dim(1), W_h.dim(0));
  const nn::Linear output(scope / "output", W.dim(0), W.dim(1));
  nn::load_parameters(weights, params);
  const NoGrad no_grad;
  return output(rnn(embedding(find(input, "ids")), {.mask = mask}).h);
}

const std::map<std::string, Var (*)(const Safetensors&, const Safetensors&)> layers = {
    {"lstm", scores<nn::Lstm>},
    {"gru", scores<nn::Gru>},
    {"bidirectional_lstm", scores<nn::Bidirectional<nn::Lstm>>},
    {"bidirectional_gru", scores<nn::Bidirectional<nn::Gru>>},
    {"stacked_lstm", scores<nn::Stacked<nn::Lstm>>},
    {"stacked_gru", scores<nn::Stacked<nn::Gru>>},
    {"stacked_bidirectional_lstm", scores<nn::Stacked<nn::Bidirectional<nn::Lstm>>>},
    {"stacked_bidirectional_gru", scores<nn::Stacked<nn::Bidirectional<nn::Gru>>>},
};

int main(int count, char** arguments) try {
  if (count != 5) throw Error("usage: run_imported LAYER WEIGHTS INPUT OUTPUT");
  const auto layer = layers.find(arguments[1]);
  if (layer == layers.end()) throw Error("unknown layer " + in_quotes(arguments[1]));
  const Safetensors weights = load_safetensors(arguments[2]),
                    input = load_safetensors(arguments[3]);
  Safetensors output;
  output.add("scores", layer->second(weights, input).value());
  save_safetensors(arguments[4], output);
} catch (const Error& error) {
  std::cerr << "run_imported: " << error.what() << "\n";
  return 1;
}
