#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"

namespace {

using namespace attune;
using test::identical;

/// A path in the temporary directory, removed at the end.
struct TemporaryFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("attune_checkpoint_test_" + std::to_string(getpid()) + ".safetensors");
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path); }
};

/// Two layers, with f64 or f32 weights.
struct Model {
  nn::Parameters params;
  nn::Lstm encoder;
  nn::Linear output;

  explicit Model(std::uint64_t seed, DType dtype = DType::f32)
      : params(seed, dtype),
        encoder(nn::Scope(params) / "encoder", 4, 3),
        output(nn::Scope(params) / "output", 3, 5, {.bias_init = nn::init::normal(1)}) {}
};

TEST_CASE("checkpoint: weights come back bit for bit") {
  const TemporaryFile file;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Model saved(1, dtype);
    Model loaded(2, dtype);
    Safetensors contents;
    nn::save_parameters(saved.params, contents);
    save_safetensors(file.path, contents);
    REQUIRE_FALSE(identical(loaded.params["output.W"].value(), saved.params["output.W"].value()));
    nn::load_parameters(load_safetensors(file.path), loaded.params);
    for (const auto& [name, w] : saved.params) {
      CAPTURE_BINDING(name);
      CHECK(identical(loaded.params[name].value(), w.value()));
    }
    const Tensor x = randn({2, 3, 4}, dtype, 3);
    CHECK(identical(loaded.output(loaded.encoder(x).h).value(),
                    saved.output(saved.encoder(x).h).value()));
  }
}

TEST_CASE("checkpoint: the file is readable by the format's description alone") {
  const TemporaryFile file;
  const Model model(1);
  Safetensors contents;
  nn::save_parameters(model.params, contents);
  contents.metadata["epoch"] = "3";
  save_safetensors(file.path, contents);

  std::ifstream in(file.path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::uint64_t header_size = 0;
  for (int i = 7; i >= 0; --i) {
    header_size = header_size << 8 | static_cast<unsigned char>(bytes.at(static_cast<size_t>(i)));
  }
  const auto header = nlohmann::json::parse(bytes.substr(8, header_size));
  CHECK(header.at("__metadata__").at("epoch") == "3");
  CHECK(header.size() == 1 + model.params.all().size());
  std::size_t data_size = 0;
  for (const auto& [name, w] : model.params) {
    CAPTURE_BINDING(name);
    const auto& entry = header.at(name);
    CHECK(entry.at("dtype") == "F32");
    CHECK(entry.at("shape").get<std::vector<Index>>() ==
          std::vector<Index>(w.shape().begin(), w.shape().end()));
    const auto offsets = entry.at("data_offsets").get<std::vector<std::size_t>>();
    const std::vector<float> expected = w.value().to_vector<float>();
    REQUIRE(offsets.at(1) - offsets.at(0) == expected.size() * 4);
    std::vector<float> read(expected.size());
    std::memcpy(read.data(), bytes.data() + 8 + header_size + offsets[0], read.size() * 4);
    CHECK(read == expected);
    data_size += read.size() * 4;
  }
  CHECK(bytes.size() == 8 + header_size + data_size);
}

/// A file with everything but what `spoil` changes leaves the model as it was, and says why.
template <class Spoil>
void check_refused(const char* message, Spoil spoil) {
  const Model saved(1);
  Model model(2);
  Safetensors contents;
  nn::save_parameters(saved.params, contents);
  spoil(contents.tensors);
  std::vector<Tensor> before;
  for (const auto& [name, w] : model.params) before.push_back(w.value().clone());
  CHECK_THROWS_WITH_AS(nn::load_parameters(contents, model.params), message, Error);
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(identical(model.params.all()[i].variable.value(), before[i]));
  }
}

// The last parameter is spoilt, so that all others could have been changed before.

TEST_CASE("checkpoint: a missing parameter is an error, and nothing is changed") {
  check_refused("checkpoint: there is no 'output.b' (5) in it",
                [](auto& t) { t.erase("output.b"); });
}

TEST_CASE("checkpoint: a parameter of another shape is an error, and nothing is changed") {
  check_refused("checkpoint: 'output.b' is f32 (5, 1), but f32 (5) was expected", [](auto& t) {
    t["output.b"] = zeros({5, 1});
  });
}

TEST_CASE("checkpoint: a parameter of another type is an error, and nothing is changed") {
  check_refused("checkpoint: 'output.b' is f64 (5), but f32 (5) was expected",
                [](auto& t) { t["output.b"] = zeros({5}, DType::f64); });
}

TEST_CASE("checkpoint: other tensors of the file are ignored") {
  const Model saved(1);
  Model model(2);
  Safetensors contents;
  contents.add("adam.m.output.b", zeros({7}));
  nn::save_parameters(saved.params, contents);
  contents.add("ids", zeros({2, 2}, DType::i32));
  nn::load_parameters(contents, model.params);
  for (const auto& [name, w] : saved.params) {
    CHECK(identical(model.params[name].value(), w.value()));
  }
}

TEST_CASE("checkpoint: loading overwrites what layers and optimiser hold, it does not replace it") {
  const Model saved(1);
  Model model(2);
  const Var held = model.params["output.W"];
  Safetensors contents;
  nn::save_parameters(saved.params, contents);
  nn::load_parameters(contents, model.params);
  CHECK(identical(held.value(), saved.params["output.W"].value()));
  CHECK_FALSE(held.value().shares_buffer_with(saved.params["output.W"].value()));
}

TEST_CASE("load_tensors: overwrites tensors by name, or says what does not fit") {
  Safetensors contents;
  contents.add("x", full({2, 3}, 7));
  Tensor to = zeros({2, 3}), other = zeros({3, 2});
  nn::load_tensors(contents, {{"x", to}});
  CHECK(identical(to, full({2, 3}, 7)));
  CHECK_THROWS_WITH_AS(nn::load_tensors(contents, {{"x", other}}),
                       "checkpoint: 'x' is f32 (2, 3), but f32 (3, 2) was expected", Error);
  CHECK_THROWS_WITH_AS(nn::load_tensors(contents, {{"y", to}}),
                       "checkpoint: there is no 'y' (2, 3) in it", Error);
}

}  // namespace
