// Simulates a full or failing disk: when preloaded, lets calls on files below a directory fail.
//
//   ATTUNE_FAULT_BELOW  the absolute path of the directory
//   ATTUNE_FAULT_KIND   EIO: one call fails. ENOSPC: a call that needs space fails, and later
//                       ones. SHORT: one write writes only half of its bytes
//   ATTUNE_FAULT_AT     number of the call that fails, from 1; 0: none
//   ATTUNE_FAULT_CALLS  a file to which a line "CALL PATH" is appended for each call
#undef _FILE_OFFSET_BITS  // open must not be an alias of open64 here
#undef _FORTIFY_SOURCE

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The C library's function that this library overrides.
template <class F>
F* real(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define REAL(function) real(&::function, #function)

struct Faults {
  std::string below = variable("ATTUNE_FAULT_BELOW"), kind = variable("ATTUNE_FAULT_KIND");
  long at = std::atol(variable("ATTUNE_FAULT_AT").c_str());
  int calls =
      REAL(open)(variable("ATTUNE_FAULT_CALLS").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  std::atomic<long> count{0};
};

Faults& faults() {
  static Faults& only = *new Faults;  // never destroyed: files are closed after the destructors
  return only;
}

enum class Needs { nothing, space };

/// Counts a call. True if it must fail; errno is then set.
bool strikes(const char* call, const std::string& path, Needs needs = Needs::nothing) {
  Faults& f = faults();
  if (f.below.empty() || !path.starts_with(f.below)) return false;
  if (f.kind == "ENOSPC" && needs != Needs::space) return false;
  if (f.kind == "SHORT" && call != std::string("write")) return false;
  const long n = ++f.count;
  const std::string line = call + (" " + path + "\n");
  syscall(SYS_write, f.calls, line.data(), line.size());
  const bool full = f.kind == "ENOSPC";
  if (f.at == 0 || n < f.at || (n > f.at && !full)) return false;
  errno = full ? ENOSPC : EIO;
  return true;
}

bool strikes(const char* call, int file, Needs needs = Needs::nothing) {
  const int before = errno;
  char path[4096];
  const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path);
  errno = before;
  return n > 0 && strikes(call, std::string(path, static_cast<std::size_t>(n)), needs);
}

bool creates(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

extern "C" {

#define OPEN(name)                                                                        \
  int name(const char* path, int flags, ...) {                                            \
    va_list rest;                                                                         \
    va_start(rest, flags);                                                                \
    const mode_t mode = creates(flags) ? va_arg(rest, mode_t) : 0;                        \
    va_end(rest);                                                                         \
    if (strikes("open", path, creates(flags) ? Needs::space : Needs::nothing)) return -1; \
    return REAL(name)(path, flags, mode);                                                 \
  }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                          \
  FILE* name(const char* path, const char* mode) {                                           \
    if (strikes("open", path, *mode == 'r' ? Needs::nothing : Needs::space)) return nullptr; \
    return REAL(name)(path, mode);                                                           \
  }
FOPEN(fopen)
FOPEN(fopen64)

// A call whose result is -1 on failure.
#define CALL(result, name, parameters, arguments, call, place, needs) \
  result name parameters { return strikes(call, place, Needs::needs) ? -1 : REAL(name) arguments; }
CALL(ssize_t, read, (int file, void* to, size_t n), (file, to, n), "read", file, nothing)
CALL(ssize_t, pread, (int file, void* to, size_t n, off_t at), (file, to, n, at), "read", file,
     nothing)
CALL(ssize_t, pread64, (int file, void* to, size_t n, off64_t at), (file, to, n, at), "read", file,
     nothing)
CALL(int, fsync, (int file), (file), "fsync", file, space)
CALL(int, rename, (const char* from, const char* to) noexcept, (from, to), "rename", from, space)
CALL(int, unlink, (const char* path) noexcept, (path), "unlink", path, nothing)
CALL(int, remove, (const char* path) noexcept, (path), "unlink", path, nothing)
CALL(int, truncate, (const char* path, off_t n) noexcept, (path, n), "truncate", path, nothing)
CALL(int, truncate64, (const char* path, off64_t n) noexcept, (path, n), "truncate", path, nothing)
CALL(int, mkdir, (const char* path, mode_t mode) noexcept, (path, mode), "mkdir", path, space)

ssize_t write(int file, const void* from, size_t n) {
  if (!strikes("write", file, Needs::space)) return REAL(write)(file, from, n);
  return faults().kind == "SHORT" ? REAL(write)(file, from, (n + 1) / 2) : -1;
}
/// Bytes that the C library wrote before the failure remain in the file.
size_t fwrite(const void* from, size_t size, size_t n, FILE* file) {
  if (faults().kind == "SHORT" || !strikes("fwrite", fileno(file), Needs::space)) {
    return REAL(fwrite)(from, size, n, file);
  }
  const int reason = errno;
  const size_t written = REAL(fwrite)(from, size, n / 2, file);
  errno = reason;
  return written;
}

// The descriptor is closed even if the call fails.
#define CLOSE(name, type, number)                              \
  int name(type file) {                                        \
    const bool fails = strikes("close", number, Needs::space); \
    const int reason = errno, result = REAL(name)(file);       \
    if (!fails) return result;                                 \
    errno = reason;                                            \
    return EOF;                                                \
  }
CLOSE(close, int, file)
CLOSE(fclose, FILE*, fileno(file))

}  // extern "C"
