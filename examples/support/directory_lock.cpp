#include "support/directory_lock.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

#include "support/output.hpp"

namespace attune {
namespace {

/// Whether the file is still there: who had locked it before may have removed it.
bool is_at(int file, const std::filesystem::path& path) {
  struct stat open {
  }, there{};
  return fstat(file, &open) == 0 && stat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

/// What a lock's file says of the one who holds it.
std::string holder(int file) {
  char text[300];
  const ssize_t n = pread(file, text, sizeof text, 0);
  const std::string all(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  return all.empty() ? "another process" : all.substr(0, all.find('\n'));
}

void name_this_process(int file) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string text = fmt::format("process {} on host {}\n", getpid(), host);
  // A lock holds without its text.
  if (ftruncate(file, 0) == 0) [[maybe_unused]]
    const ssize_t n = pwrite(file, text.data(), text.size(), 0);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : path_(directory / "attune.lock") {
  do {
    if (file_ >= 0) close(file_);
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0) {
      fail("--out", fmt::format("{} cannot be written: {}", path_.string(), std::strerror(errno)));
    }
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) continue;
    const int reason = errno;
    const std::string other = holder(file_);
    close(file_);
    if (reason == EWOULDBLOCK) {
      fail("--out", fmt::format("{} is in use by {}", directory.string(), other));
    }
    complain("{} cannot be locked ({}): nothing else must write there\n", directory.string(),
             std::strerror(reason));
    unlink(path_.c_str());
    file_ = -1;
    return;
  } while (!is_at(file_, path_));
  name_this_process(file_);
}

DirectoryLock::~DirectoryLock() {
  if (file_ < 0) return;
  unlink(path_.c_str());  // before it is unlocked, or it could be another's
  close(file_);
}

}  // namespace attune
