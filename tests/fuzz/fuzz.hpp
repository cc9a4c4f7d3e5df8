// Helpers of the fuzz targets: checks, choices made from bytes, files in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <attune/tensor/errors.hpp>

namespace attune::fuzz {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Prints the finding and aborts the process; libFuzzer then saves the input.
[[noreturn]] inline void finding(std::string_view what) {
  fmt::print(stderr, "finding: {}\n", printable(what));
  std::abort();
}

inline void expect(bool holds, std::string_view what) {
  if (!holds) finding(what);
}

/// The result of read(), or nullopt if it throws an Error, whose message must be one printable
/// line. Other exceptions are not caught and end the process.
template <class F>
std::optional<std::invoke_result_t<F>> accepted(F read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    expect(!message.empty(), "an error has an empty message");
    expect(printable(message) == message, fmt::format("a message is not printable: {}", message));
    return std::nullopt;
  }
}

/// Makes choices from bytes. After the last byte, all bytes are 0.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return first;
  }
  /// A number in [low, high]; high - low must be less than 256.
  int between(int low, int high) { return low + byte() % (high - low + 1); }
  bool one_in(int n) { return between(0, n - 1) == n - 1; }  // false after the last byte
  /// All remaining bytes.
  std::string_view rest() { return std::exchange(bytes_, {}); }

 private:
  std::string_view bytes_;
};

/// Removes the text up to the first `separator` from `text` (all if there is none); returns it
/// without the separator.
inline std::string_view take(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + separator.size());
  return first;
}

/// An anonymous file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents = {}) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    const auto size = static_cast<ssize_t>(contents.size());
    if (fd_ < 0 || ::write(fd_, contents.data(), contents.size()) != size) {
      std::perror("memfd");
      std::exit(1);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

/// A path in a memory file system, for files that are replaced atomically. The directory is removed
/// when the process exits.
inline std::filesystem::path scratch_file(const char* name) {
  static const struct Directory {
    std::filesystem::path path = fmt::format("/dev/shm/attune-fuzz-{}", ::getpid());
    Directory() { std::filesystem::create_directory(path); }
    ~Directory() { std::filesystem::remove_all(path); }
  } directory;
  return directory.path / name;
}

}  // namespace attune::fuzz

/// Defined by every target: parses the input and checks the results.
void fuzz_one(std::string_view input);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
