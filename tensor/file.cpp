#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Closes and tells whether that went well: some file systems report a full disk only now.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw Error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool write_parts(const std::filesystem::path& path, std::span<const std::string_view> parts) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return false;
  for (std::string_view part : parts) {
    if (!write_all(file.get(), part)) return false;
  }
  const bool synced = ::fsync(file.get()) == 0 || errno == EINVAL;  // a pipe has no disk
  return synced && file.close();
}

/// Makes a rename in the directory last through a power failure; not every file system can.
void sync_directory(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

}  // namespace

void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
    if (!write_parts(path, parts)) fail_with_errno(path, "cannot be written");
    return;  // a device or a pipe is written to, not replaced
  }
  std::filesystem::path temporary = path;
  static std::atomic<unsigned> number{0};  // two threads may write the same file
  temporary += fmt::format(".{}.{}.tmp", ::getpid(), number++);
  if (!write_parts(temporary, parts) || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail_with_errno(path, "cannot be written");
  }
  sync_directory(path);
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_with_errno(path, "cannot be read");
  std::string contents;
  std::string chunk(std::size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(path, "cannot be read");
    if (n == 0) return contents;
    contents.append(chunk, 0, static_cast<std::size_t>(n));
  }
}

}  // namespace attune
