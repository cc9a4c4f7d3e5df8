#include <fmt/format.h>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/thread_state.hpp>

namespace attune {
namespace {

/// 40000000000 -> "40 GB"
std::string in_words(std::size_t bytes) {
  constexpr const char* units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 999.5; ++unit) number /= 1000;
  return fmt::format("{:.3g} {}", number, units[unit]);
}

}  // namespace

Error::Error(std::string_view message) : std::runtime_error(printable(message)) {}

void fail(std::string_view operation, std::string_view message) {
  const std::string* const path = detail::thread_state.layer_path;
  const bool named = path && !path->empty();
  throw Error(
      fmt::format("{}: {}{}{}", operation, message, named ? ", in " : "", named ? *path : ""));
}

OutOfMemory::OutOfMemory(std::string_view operation, std::string what, std::size_t bytes)
    : Error(fmt::format("{}: there is no memory for {}{}{}",
                        operation.empty() ? "tensor" : operation, what, what.empty() ? "" : ", ",
                        in_words(bytes))),
      what_(std::move(what)),
      bytes_(bytes),
      named_(!operation.empty()) {}

void OutOfMemory::throw_as(std::string_view operation) const {
  if (named_) throw;
  throw OutOfMemory(operation, what_, bytes_);
}

}  // namespace attune
