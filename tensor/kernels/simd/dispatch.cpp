#include <cstdint>
#include <cstdlib>

#include <hwy/targets.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/dispatch.hpp>

namespace attune::simd {

std::string lower_case(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

void limit_targets() {
  const char* wanted = std::getenv("ATTUNE_TARGET");
  if (!wanted || !*wanted) return;
  std::string names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string name = lower_case(hwy::TargetName(target));
    if (name == wanted) return hwy::DisableTargets(target - 1);  // better ones are lower bits
    names += (names.empty() ? "" : ", ") + name;
  }
  fail("ATTUNE_TARGET", "{} is not an instruction set of this CPU and build, which have {}",
       in_quotes(wanted), names);
}

std::vector<std::int64_t> targets() {
  limit_targets_once();
  return hwy::SupportedAndGeneratedTargets();
}

void use_target([[maybe_unused]] std::int64_t target) {
  if constexpr (HWY_TARGETS != HWY_STATIC_TARGET) {  // WebAssembly has only one
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace attune::simd
