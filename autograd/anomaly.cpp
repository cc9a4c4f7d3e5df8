#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {
/// cancel(true) adds this to anomaly_detectors, so that operations read a single variable.
constexpr int cancelled = 1 << 20;

void check_cancelled() {
  if (detail::anomaly_detectors.load(std::memory_order_relaxed) >= cancelled - 1) throw Cancelled();
}

bool has_nan(const Tensor& x) { return any(isnan(x)).item() != 0; }

}  // namespace

DetectAnomaly::DetectAnomaly() {
  detail::detects_anomaly();  // reads the environment
  ++detail::anomaly_detectors;
}

DetectAnomaly::~DetectAnomaly() { --detail::anomaly_detectors; }

void cancel(bool on) noexcept { detail::anomaly_detectors += on ? cancelled : -cancelled; }

int detail::read_anomaly_setting() {
  const char* text = std::getenv("ATTUNE_DETECT_ANOMALY");
  const std::string_view value = text ? text : "";
  if (!value.empty() && value != "0" && value != "1")
    fail("ATTUNE_DETECT_ANOMALY", in_quotes(value) + " is neither 0 nor 1");
  int unread = -1;
  anomaly_detectors.compare_exchange_strong(unread, value == "1");
  return anomaly_detectors;
}

void detail::check_result(const char* operation, const Tensor& result,
                          std::span<const Var> inputs) {
  check_cancelled();
  const std::string made = first_non_finite(result);
  if (made.empty()) return;
  const bool nan = has_nan(result);
  for (const Var& input : inputs) {
    const std::string got = first_non_finite(input.value());
    if (got.empty() || (nan && !has_nan(input.value()))) continue;
    const bool leaf = input.node() && input.node()->is_leaf;
    if (!nan && !leaf) return;
    fail("anomaly", "{}: forward got a non-finite value: {} {}", operation,
         leaf ? "variable" : "constant", got);
  }
  std::vector<std::string> shapes;
  for (const Var& input : inputs)
    if (input.defined()) shapes.push_back(to_string(input.shape()));
  fail("anomaly", "{}: forward computed a non-finite value: {}, from inputs {}", operation, made,
       fmt::join(shapes, ", "));
}

void detail::check_gradient(const char* operation, const Tensor& gradient) {
  check_cancelled();
  const std::string made = first_non_finite(gradient);
  if (made.empty()) return;
  fail("anomaly", "{}: backward computed a non-finite gradient: {}", operation, made);
}

}  // namespace attune
