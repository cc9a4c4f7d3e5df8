// Functions from scores to weights whose state every decoder, search and ensemble must carry: those
// of examples/new_normalizer.cpp, which is included without its program.
#define main new_normalizer
#include "new_normalizer.cpp"
#undef main

#include <doctest/doctest.h>

#include <attune/nn/schedules.hpp>

#include "models/decoders.hpp"
#include "support/models_batches.hpp"

namespace attune::models {
namespace {

/// Calls check(params, model) for every decoder of this size with each normalizer.
template <class Check>
void for_all(DType dtype, Index size, Check check) {
  const auto with = [&]<class M>(std::type_identity<M>, Index memory, auto options) {
    options.source_vocabulary = options.target_vocabulary = 9;
    options.embedding = options.hidden = size;
    for (const bool scored : {true, false}) {
      CAPTURE(M::name);
      CAPTURE(scored);
      nn::Parameters params(5, dtype);
      const nn::Scope place = params / "attention";
      const nn::ScoreOptions score{.attention = 5, .coverage = nn::Coverage::summed};
      const M model(
          params, options,
          scored ? nn::Attention(nn::AdditiveScore(place, size, memory, score), Monotonic(place))
                 : nn::Attention(GaussianWindow(place, size, 2)));
      if (dtype == DType::f64) test::scale_parameters(params, 3);
      check(params, Model(model));
    }
  };
  with(std::type_identity<Bahdanau>(), 2 * size, BahdanauOptions{.readout = size});
  with(std::type_identity<Nematus>(), 2 * size, BahdanauOptions{.readout = size});
  with(std::type_identity<Luong>(), size, LuongOptions{.encoder_layers = 1, .decoder_layers = 2});
}

TEST_CASE("own normalizers: gradients of padded sequences are central differences") {
  for_all(DType::f64, 4, [](const nn::Parameters& params, const Model& model) {
    const text::Batch batch = text::make_batch(test::ragged_pairs(9, 9, 8));
    const auto run = [&] {
      const auto [logits, weights] = test::force(model, batch);
      return test::flat({logits, weights});
    };
    CHECK(gradcheck(params, run, {.step = 1e-4}));
  });
}

TEST_CASE("own normalizers: search, sampling and ensembles of a batch have forced probabilities") {
  int complete = 0;
  for_all(DType::f64, 4, [&](const nn::Parameters&, const Model& model) {
    const auto sources = test::random_sentences({5, 1, 3, 4}, 9, 2, 4);
    for (const bool samples : {false, true}) {
      TranslateOptions options{.how = {.beam = 4, .max_length = 6, .best = 3}};
      if (samples) options.how.sampling = SamplingOptions{.seed = 2};
      const auto found = translate(model, sources, options);
      const auto both = translate(ensemble_of({model, model}), sources, options);
      options.sentences = 1;
      const auto alone = translate(model, sources, options);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        REQUIRE(found[i].size() == alone[i].size());
        for (std::size_t k = 0; k < found[i].size(); ++k) {
          const Hypothesis& h = found[i][k];
          CHECK(h.words == alone[i][k].words);
          CHECK(h.words == both[i][k].words);
          CHECK(test::near(h.log_probability, both[i][k].log_probability));
          CHECK(difference(h.weights, alone[i][k].weights) < 1e-6);  // f32
          if (!h.complete) continue;
          const text::Pair pair{sources[i], h.words};
          const auto forced = force_decode(model, text::make_batch(std::span(&pair, 1)));
          CHECK(test::near(h.log_probability, forced[0].log_probability));
          ++complete;
        }
      }
    }
  });
  CHECK(complete > 20);
}

TEST_CASE("own normalizers: every decoder learns to repeat tokens once to three times") {
  const auto draw = [](int n, Random& random) {
    std::vector<text::Pair> pairs(static_cast<std::size_t>(n));
    for (auto& [source, target] : pairs)
      for (Index k = 3 + random.below(5); k > 0; --k) {
        source.push_back(static_cast<std::int32_t>(4 + random.below(5)));
        target.insert(target.end(), static_cast<std::size_t>(1 + source.back() % 3), source.back());
      }
    return pairs;
  };
  for_all(DType::f32, 32, [&](nn::Parameters& params, const Model& model) {
    nn::Adam adam(params);
    Random random(1);
    const nn::LinearDecay rate{.rate = 5e-3, .steps = 400, .after = 200};
    for (int step = 0; step < 400; ++step) {
      adam.set_rate(rate(step));
      adam.step(backward(loss(model, text::make_batch(draw(32, random)))));
    }
    int right = 0;
    for (const text::Pair& pair : draw(50, random))
      right += translate(model, std::span(&pair.source, 1), {.how = {.beam = 3}})[0][0].words ==
               pair.target;
    CHECK(right >= 45);
  });
}

TEST_CASE("Monotonic: equals the recurrence of its paper, also for probabilities of 0 and 1") {
  constexpr Index S = 6, B = 3;
  nn::Parameters params(1, DType::f64);
  const Monotonic monotonic(params);
  const std::vector<Index> lengths = {6, 4, 1};
  const Mask mask = mask_of(lengths, DType::f64);
  std::vector<double> before(S * B, 0);
  for (Index b = 0; b < B; ++b) before[static_cast<std::size_t>(b)] = 1;
  nn::AttentionState past;
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Tensor e = randn({S, B}, DType::f64, step) * (step == 3 ? 1e4 : 5);
    auto [alpha, state] = monotonic(e, {.state = {}, .past = past}, {.k = {}, .mask = mask});
    past.state = state;
    for (Index b = 0; b < B; ++b) {
      double q = 0, passes = 0, total = 0;  // q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j}
      for (Index j = 0; j < S; ++j) {
        double& own = before[static_cast<std::size_t>(j * B + b)];
        const double x = e.at<double>({j, b}) - 1;
        q = passes * q + own;
        own = j < lengths[static_cast<std::size_t>(b)] ? q / (1 + std::exp(-x)) : 0;
        passes = 1 / (1 + std::exp(x));
        total += own;
        CHECK(std::abs(alpha.value().at<double>({j, b}) - own) < 1e-13);
      }
      CHECK(total <= 1 + 1e-12);
    }
  }
}

}  // namespace
}  // namespace attune::models
