#include "support/output.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace attune {

namespace {
bool silent = false;
}

bool is_silent() { return silent; }

void set_silent(bool value) { silent = value; }

void detail::print(std::FILE* file, fmt::string_view format, fmt::format_args args) noexcept {
  if (silent) return;
  try {
    const std::string text = fmt::vformat(format, args);
    std::fwrite(text.data(), 1, text.size(), file);  // as one write, where the file has no buffer
  } catch (...) {                                    // no memory: there is nothing left to do
  }
}

void require_writable(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& inputs) {
  int error = std::filesystem::is_directory(path) ? EISDIR : 0;
  // A file is replaced by a new one beside it; a pipe or a device is written itself.
  const bool itself = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (error == 0 && access((itself ? path : directory).c_str(), W_OK) != 0) error = errno;
  if (error != 0) fail(path.string(), fmt::format("cannot be written: {}", std::strerror(error)));
  std::error_code none;  // what is not there is read later, with an error of its own
  for (const auto& input : inputs) {
    // A pipe or a device may be both.
    if (!itself && std::filesystem::equivalent(path, input, none))
      fail(path.string(), "it is read, too: another file to write was expected");
  }
}

std::string with_field(std::string object, const std::string& name, const std::string& value) {
  object.pop_back();
  return fmt::format("{}{}\"{}\": {}}}", object, object == "{" ? "" : ", ", name, value);
}

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free is the one it gets.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) _exit(1);
  }
}

std::string message_of(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return fmt::format("{}: {}", file->path1().string(), file->code().message());
  }
  // A container throws a length_error where no memory could be large enough.
  if (dynamic_cast<const std::bad_alloc*>(&error) ||
      dynamic_cast<const std::length_error*>(&error)) {
    return "there is not enough memory";
  }
  return error.what();
}

}  // namespace attune
