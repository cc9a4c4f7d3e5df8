// The LSTM layer of oneDNN, for comparison with attune: forward and backward over a whole sequence,
// with the gradients of the input, both weights, the bias and the initial state. Weights and their
// gradients are stored in a fixed layout, as an optimiser needs it. Each step converts them to
// oneDNN's layouts and back, because training changes the weights in every step.
#include <cmath>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "support/program.hpp"
#include "support/timed.hpp"

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr memory::dim T = 20, B = 64, H = 512;

memory::desc described(const memory::dims& shape, Tag tag) {
  return {shape, memory::data_type::f32, tag};
}

float* elements(const memory& x) { return static_cast<float*>(x.get_data_handle()); }
std::size_t size(const memory& x) { return x.get_desc().get_size() / sizeof(float); }

class Lstm {
 public:
  Lstm() {
    const auto mixed = [](const memory& x, std::uint32_t seed, float scale = 1) {
      attune::bench::fill_mixed(elements(x), static_cast<std::uint32_t>(size(x)), seed, scale);
    };
    mixed(W_x_, 1, 0.04f), mixed(W_h_, 2, 0.04f), mixed(b_, 3, 0.1f);
    mixed(x_, 4), mixed(h0_, 5), mixed(c0_, 6), mixed(dh_, 7);
    std::memset(elements(zero_), 0, size(zero_) * sizeof(float));
  }

  void step() {
    reorder(W_x_, forward_W_x_), reorder(W_h_, forward_W_h_);
    Arguments arguments = {{DNNL_ARG_SRC_LAYER, x_},
                           {DNNL_ARG_SRC_ITER, h0_},
                           {DNNL_ARG_SRC_ITER_C, c0_},
                           {DNNL_ARG_WEIGHTS_LAYER, forward_W_x_},
                           {DNNL_ARG_WEIGHTS_ITER, forward_W_h_},
                           {DNNL_ARG_BIAS, b_},
                           {DNNL_ARG_DST_LAYER, h_},
                           {DNNL_ARG_DST_ITER, h_last_},
                           {DNNL_ARG_DST_ITER_C, c_last_},
                           {DNNL_ARG_WORKSPACE, workspace_}};
    run_forward_.execute(stream_, arguments);

    reorder(W_x_, backward_W_x_), reorder(W_h_, backward_W_h_);
    for (const memory& sum : {backward_dW_x_, backward_dW_h_, db_}) {  // oneDNN adds to them
      std::memset(elements(sum), 0, size(sum) * sizeof(float));
    }
    const Arguments more = {{DNNL_ARG_WEIGHTS_LAYER, backward_W_x_},
                            {DNNL_ARG_WEIGHTS_ITER, backward_W_h_},
                            {DNNL_ARG_DIFF_DST_LAYER, dh_},
                            {DNNL_ARG_DIFF_DST_ITER, zero_},
                            {DNNL_ARG_DIFF_DST_ITER_C, zero_},
                            {DNNL_ARG_DIFF_SRC_LAYER, dx_},
                            {DNNL_ARG_DIFF_SRC_ITER, dh0_},
                            {DNNL_ARG_DIFF_SRC_ITER_C, dc0_},
                            {DNNL_ARG_DIFF_WEIGHTS_LAYER, backward_dW_x_},
                            {DNNL_ARG_DIFF_WEIGHTS_ITER, backward_dW_h_},
                            {DNNL_ARG_DIFF_BIAS, db_}};
    for (const auto& [name, argument] : more) arguments[name] = argument;
    run_backward_.execute(stream_, arguments);
    reorder(backward_dW_x_, dW_x_), reorder(backward_dW_h_, dW_h_);
    stream_.wait();
  }

  /// Norms of the result and of every gradient.
  attune::bench::Json norms() const {
    attune::bench::Json norms;
    for (const memory& x : {h_, dx_, dW_x_, dW_h_, db_, dh0_, dc0_}) {
      double squares = 0;
      for (std::size_t i = 0; i < size(x); ++i) squares += double{elements(x)[i]} * elements(x)[i];
      norms.push_back(std::sqrt(squares));
    }
    return norms;
  }

 private:
  using Arguments = std::unordered_map<int, memory>;

  void reorder(const memory& from, const memory& to) {
    dnnl::reorder(from, to).execute(stream_, const_cast<memory&>(from), const_cast<memory&>(to));
  }
  memory make(const memory::desc& of) const { return {of, engine_}; }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  const memory::desc sequence_ = described({T, B, H}, Tag::tnc),
                     state_ = described({1, 1, B, H}, Tag::ldnc),
                     bias_ = described({1, 1, 4, H}, Tag::ldgo),
                     weights_ = described({1, 1, H, 4, H}, Tag::ldigo),
                     any_ = described({1, 1, H, 4, H}, Tag::any);
  static constexpr auto order_ = dnnl::rnn_direction::unidirectional_left2right;
  const dnnl::lstm_forward::primitive_desc forward_{
      dnnl::lstm_forward::desc(dnnl::prop_kind::forward_training, order_, sequence_, state_, state_,
                               any_, any_, bias_, sequence_, state_, state_),
      engine_};
  const dnnl::lstm_backward::primitive_desc backward_{
      dnnl::lstm_backward::desc(dnnl::prop_kind::backward, order_, sequence_, state_, state_, any_,
                                any_, bias_, sequence_, state_, state_, sequence_, state_, state_,
                                any_, any_, bias_, sequence_, state_, state_),
      engine_, forward_};
  const dnnl::lstm_forward run_forward_{forward_};
  const dnnl::lstm_backward run_backward_{backward_};

  const memory x_ = make(sequence_), h0_ = make(state_), c0_ = make(state_), W_x_ = make(weights_),
               W_h_ = make(weights_), b_ = make(bias_), dh_ = make(sequence_), zero_ = make(state_);
  const memory h_ = make(sequence_), h_last_ = make(state_), c_last_ = make(state_),
               workspace_ = make(forward_.workspace_desc());
  const memory dx_ = make(sequence_), dh0_ = make(state_), dc0_ = make(state_),
               dW_x_ = make(weights_), dW_h_ = make(weights_), db_ = make(bias_);
  // In the layouts of oneDNN.
  const memory forward_W_x_ = make(forward_.weights_layer_desc()),
               forward_W_h_ = make(forward_.weights_iter_desc()),
               backward_W_x_ = make(backward_.weights_layer_desc()),
               backward_W_h_ = make(backward_.weights_iter_desc()),
               backward_dW_x_ = make(backward_.diff_weights_layer_desc()),
               backward_dW_h_ = make(backward_.diff_weights_iter_desc());
};

int run(int threads, int steps, int warmup) {
  if (threads > 0) omp_set_num_threads(threads);
  Lstm lstm;
  lstm.step();
  const dnnl_version_t* version = dnnl_version();
  attune::bench::Json line = {
      {"peer", fmt::format("onednn-{}.{}.{}", version->major, version->minor, version->patch)},
      {"threads", omp_get_max_threads()},
      {"bench", "lstm_fwd_bwd"},
      {"B", B},
      {"H", H},
      {"T", T},
      {"norms", lstm.norms()}};
  const auto times = attune::bench::timed(steps, warmup, [&](int) { lstm.step(); });
  const double gflop = 3 * 2e-9 * T * B * 4 * H * 2 * H;
  line["gflop"] = attune::bench::rounded(gflop, 3);
  line["gflops"] = attune::bench::rounded(gflop / times.median(), 1);
  attune::bench::print(std::move(line), times);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string only = "lstm_fwd_bwd";
  int threads = 0, steps = 20, warmup = 3;
  CLI::App app("Times oneDNN's LSTM layer, forward and backward; prints a JSON line.", "dnnl_lstm");
  attune::bench::add_common_options(app, threads, steps, warmup);
  app.add_option("--only", only, "part to time; there is only one")->check(CLI::IsMember({only}));
  return attune::bench::run_program(app, argc, argv, [&] { return run(threads, steps, warmup); });
}
