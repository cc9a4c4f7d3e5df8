#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/file.hpp>

namespace attune {
namespace {

/// An open file descriptor, closed on destruction.
class Descriptor {
 public:
  /// `number` is the result of open; negative if that failed.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  /// Closes the file; false on an error. Some file systems report a full disk only at this point.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw Error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

/// True for the errors of fsync on pipes, and on file systems without a disk.
bool cannot_be_synced(int error) { return error == EINVAL || error == ENOTSUP; }

bool write_parts(const std::filesystem::path& path, std::span<const std::string_view> parts,
                 mode_t mode = 0644) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!file.is_open()) return false;
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const ssize_t n = ::write(file.number(), part.data(), part.size());
      if (n < 0 && errno != EINTR) return false;
      if (n > 0) part.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  const bool synced = ::fsync(file.number()) == 0 || cannot_be_synced(errno);
  return synced && file.close();
}

/// Syncs a new or renamed directory entry to the disk. Skipped where the file system does not
/// support it, and for a directory that is writable but not readable, as it cannot be opened.
void sync_directory_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open() && errno == EACCES) return;
  if (directory.is_open() && (::fsync(directory.number()) == 0 || cannot_be_synced(errno))) return;
  fail_with_errno(path, "its directory cannot be flushed to the disk");
}

}  // namespace

void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
    if (!write_parts(path, parts)) fail_with_errno(path, "cannot be written");
    return;  // a device or pipe is written to directly, not replaced
  }
  // A symbolic link is kept: the file that it names is replaced.
  const std::filesystem::path file = std::filesystem::is_symlink(path, none)
                                         ? std::filesystem::weakly_canonical(path, none)
                                         : path;
  std::filesystem::path temporary = file;
  static std::atomic<unsigned> number{0};  // two threads may write the same file
  temporary += fmt::format(".{}.{}.tmp", ::getpid(), number++);
  struct stat old;
  const mode_t mode = ::stat(file.c_str(), &old) == 0 ? old.st_mode & 0777 : 0644;
  if (!write_parts(temporary, parts, mode) || ::rename(temporary.c_str(), file.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail_with_errno(path, "cannot be written");
  }
  sync_directory_of(file);
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  for (auto at = path; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path())
    missing.push_back(at);
  std::filesystem::create_directories(path, error);
  if (error) throw Error(fmt::format("{}: cannot be created: {}", path.string(), error.message()));
  for (const auto& made : missing) sync_directory_of(made);
}

std::string read_file(const std::filesystem::path& path, std::size_t most) try {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail_with_errno(path, "cannot be read");
  std::string contents;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.number(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(path, "cannot be read");
    if (n == 0) return contents;
    contents.append(chunk, static_cast<std::size_t>(n));
    if (contents.size() > most)
      fail(path.string(), "cannot be read: there are more than {} bytes", most);
  }
} catch (const std::bad_alloc&) {
  fail(path.string(), "cannot be read: it does not fit into memory");
}

InputFile::InputFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe would wait for a writer. It has no effect on regular files.
  const auto file = std::make_shared<Descriptor>(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!file->is_open() || ::fstat(file->number(), &status) != 0)
    fail_with_errno(path, "cannot be read");
  if (!S_ISREG(status.st_mode)) fail(path.string(), "not a regular file");
  size = static_cast<std::size_t>(status.st_size);
  read = [file, path](std::size_t at, std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t n = ::pread(file->number(), to.data(), to.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_with_errno(path, "cannot be read");
      if (n == 0) fail(path.string(), "cannot be read: it became shorter after it was opened");
      to = to.subspan(static_cast<std::size_t>(n));
      at += static_cast<std::size_t>(n);
    }
  };
}

}  // namespace attune
