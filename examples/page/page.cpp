// The part of attention.html that is C++: dates.cpp in WebAssembly. worker.js calls these functions; each returns JSON.
#include <emscripten.h>
#include <nlohmann/json.hpp>

#define main dates_main
#include "../dates.cpp"
#undef main

namespace {

using Json = nlohmann::ordered_json;

struct Session {
  explicit Session(int updates)
      : adam(dates.parameters, {.rate = 3e-3}),
        schedule{.rate = 3e-3, .last = 1e-4, .steps = updates, .after = updates / 2} {
    Random random(/*seed=*/2);
    held_out.resize(500);
    for (Example& example : held_out) example = draw(random, true);
  }

  double update() {
    std::vector<text::Pair> pairs(16);  // fewer than in dates.cpp: a browser has one thread
    for (text::Pair& pair : pairs) pair = dates.encode(draw(random, false));
    const Var loss = models::loss(dates.model, text::make_batch(pairs));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(schedule(step++));
    adam.step(gradients);
    return loss.item();
  }

  Dates dates;
  nn::Adam adam;
  nn::LinearDecay schedule;
  Random random{/*seed=*/1};
  std::vector<Example> held_out;
  int step = 0;
};

std::unique_ptr<Session> session;

/// What `make` returns, or {"error": ...}, as text that stays until the next call.
template <class Make>
const char* answer(Make make) {
  static std::string text;
  try {
    text = make().dump();
  } catch (const std::exception& error) {
    text = Json{{"error", error.what()}}.dump();
  }
  return text.c_str();
}

}  // namespace

extern "C" {

/// A new model, to be trained with so many updates.
EMSCRIPTEN_KEEPALIVE const char* begin(int updates) {
  return answer([&] {
    session = std::make_unique<Session>(updates);
    return Json{{"parameters", session->dates.parameters.count()}};
  });
}

/// Makes so many updates.
EMSCRIPTEN_KEEPALIVE const char* update(int updates) {
  return answer([&] {
    double loss = 0;
    for (int i = 0; i < updates; ++i) loss += session->update() / updates;
    return Json{{"step", session->step}, {"loss", loss}};
  });
}

/// The share of the first `count` held-out dates that is written exactly.
EMSCRIPTEN_KEEPALIVE const char* evaluate(int count) {
  return answer([&] {
    const auto& all = session->held_out;
    return Json{{"exact", session->dates.exact_match({all.begin(), all.begin() + count})},
                {"of", count}};
  });
}

/// What the model makes of a date, and α: a row for each character that it writes.
EMSCRIPTEN_KEEPALIVE const char* look(const char* line) {
  return answer([&] {
    const Dates& dates = session->dates;
    const Example date = typed(line, dates.source);
    const models::Hypothesis best = dates.write({date}).front().front();
    std::vector<std::vector<double>> weights;
    for (Index i = 0; i < std::ssize(best.words); ++i)
      weights.push_back(best.weights[i].to_vector<double>());
    const std::string output = dates.target.decode(best.words);
    return Json{{"source", dates.source.tokenizer.encode(date.source)},
                {"output", dates.target.tokenizer.encode(output)},
                {"probability", std::exp(best.log_probability)},
                {"weights", weights}};
  });
}

}  // extern "C"
