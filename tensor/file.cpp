#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/platform.hpp>

namespace attune {
namespace {

using platform::File;

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw Error(fmt::format("{}: {}: {}", utf8_path(path), what, std::strerror(errno)));
}

bool write_parts(const std::filesystem::path& path, std::span<const std::string_view> parts,
                 unsigned permissions = 0644) {
  File file(path, File::Access::overwrite, permissions);
  if (!file.is_open()) return false;
  for (const std::string_view part : parts)
    if (!file.write(part)) return false;
  return file.sync() && file.close();
}

/// Syncs a new or renamed directory entry to the disk, unless the directory may not be read.
void sync_directory_of(const std::filesystem::path& path) {
  File directory(path.has_parent_path() ? path.parent_path() : ".", File::Access::directory);
  if (directory.is_open() ? !directory.sync() : errno != EACCES)
    fail_with_errno(path, "its directory cannot be flushed to the disk");
}

}  // namespace

std::string utf8_path(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
    if (!write_parts(path, parts)) fail_with_errno(path, "cannot be written");
    return;  // a device or pipe is written to directly, not replaced
  }
  // A symbolic link is kept: the file that it names is replaced, or created.
  std::filesystem::path file = path;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(file, none); ++links)
    file = file.parent_path() / std::filesystem::read_symlink(file, none);
  std::filesystem::path temporary = file;
  static std::atomic<unsigned> number{0};  // two threads may write the same file
  temporary += fmt::format(".{}.{}.tmp", platform::process_id(), number++);
  const std::filesystem::file_status old = std::filesystem::status(file, none);
  const unsigned permissions = exists(old) ? static_cast<unsigned>(old.permissions()) & 0777 : 0644;
  std::error_code error;
  if (!write_parts(temporary, parts, permissions)) {
    error.assign(errno, std::generic_category());
  } else {
    error = platform::replace_file(temporary, file);
  }
  if (error) {
    std::filesystem::remove(temporary, none);
    throw Error(fmt::format("{}: cannot be written: {}", utf8_path(path), error.message()));
  }
  sync_directory_of(file);
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  for (auto at = path; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path())
    missing.push_back(at);
  std::filesystem::create_directories(path, error);
  if (error == std::errc::file_exists) error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    throw Error(fmt::format("{}: cannot be created: {}", utf8_path(path), error.message()));
  for (const auto& made : missing) sync_directory_of(made);
}

void remove_unfinished(const std::filesystem::path& directory) {
  std::error_code none;  // a file that cannot be removed does no harm
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = utf8_path(entry.path().filename());
    std::size_t at = name.size();  // of ".PROCESS.NUMBER.tmp"
    for (int dots = 0; dots < 3 && at > 0 && at != name.npos; ++dots) at = name.rfind('.', at - 1);
    if (at == 0 || at == name.npos) continue;
    int process = 0, number = 0, length = 0;
    std::sscanf(name.c_str() + at, ".%d.%d.tmp%n", &process, &number, &length);
    if (length == 0 || at + static_cast<std::size_t>(length) != name.size()) continue;
    if (process == platform::process_id() || !platform::is_running(process))
      std::filesystem::remove(entry.path(), none);
  }
}

std::string read_file(const std::filesystem::path& path, std::size_t most) try {
  File file(path, File::Access::read);
  if (!file.is_open()) fail_with_errno(path, "cannot be read");
  std::string contents;
  std::vector<char> chunk(1 << 16);
  for (;;) {
    const std::ptrdiff_t n = file.read(std::as_writable_bytes(std::span(chunk)));
    if (n < 0) fail_with_errno(path, "cannot be read");
    if (n == 0) return contents;
    contents.append(chunk.data(), static_cast<std::size_t>(n));
    if (contents.size() > most)
      fail(utf8_path(path), "cannot be read: there are more than {} bytes", most);
  }
} catch (const std::bad_alloc&) {
  fail(utf8_path(path), "cannot be read: it does not fit into memory");
}

InputFile::InputFile(const std::filesystem::path& path) {
  const auto file = std::make_shared<File>(path, File::Access::read_at_once);
  if (!file->is_open()) fail_with_errno(path, "cannot be read");
  const std::optional<std::size_t> bytes = file->size();
  if (!bytes) fail(utf8_path(path), "not a regular file");
  size = *bytes;
  read = [file, path](std::size_t at, std::span<std::byte> to) {
    while (!to.empty()) {
      const std::ptrdiff_t n = file->read(to, at);
      if (n < 0) fail_with_errno(path, "cannot be read");
      if (n == 0) fail(utf8_path(path), "cannot be read: it became shorter after it was opened");
      to = to.subspan(static_cast<std::size_t>(n));
      at += static_cast<std::size_t>(n);
    }
  };
}

}  // namespace attune
