// What depends on the operating system, for the library and its programs. A port changes only this
// file and its source. (Child processes and signals are in examples/attune/processes.cpp.)
//
// If a call of the system fails, functions return false, null or -1, and errno has the reason.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#if __has_include(<sys/single_threaded.h>)
extern "C" char __libc_single_threaded;  // of glibc
#endif

namespace attune::platform {

// ---- Files

/// An open file, closed on destruction.
class File {
 public:
  /// `read_at_once` does not wait for the writer of a pipe. A `directory` can only be synced.
  /// `overwrite` creates or empties the file.
  enum class Access { read, read_at_once, directory, overwrite };
  /// `permissions` are those of a new file.
  explicit File(const std::string& path, Access access, unsigned permissions = 0644);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(); }

  bool is_open() const { return number_ >= 0; }
  /// The size in bytes; nullopt unless it is a regular file.
  std::optional<std::size_t> size() const;
  /// Reads at most to.size() bytes, from offset `at` or after those read before. Returns the number
  /// of bytes read: 0 at the end.
  std::ptrdiff_t read(std::span<std::byte> to);
  std::ptrdiff_t read(std::span<std::byte> to, std::size_t at);
  bool write(std::string_view bytes);
  /// Flushes to the disk: the contents, or the new and renamed entries of a directory. True also if
  /// there is no disk, as for a pipe, or if the file system does not support it.
  bool sync();
  /// Some file systems report a full disk only at this point.
  bool close();

 private:
  int number_;
};

/// True if this process may create files in the directory.
bool is_writable_directory(const std::string& directory);

/// Holds an exclusive lock on a file that names its owner. The destructor removes the file, and the
/// system releases the lock when the process ends.
class FileLock {
 public:
  enum class State { locked, in_use, unsupported, not_created };
  /// Creates and locks the file, and writes `owner` to it.
  FileLock(std::string path, std::string_view owner);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  State state() const { return state_; }
  /// If in use, the first line of the file. If unsupported or not created, the system's reason.
  std::string reason() const { return reason_; }

 private:
  std::string path_;
  int file_ = -1;
  State state_ = State::locked;
  std::string reason_;
};

// ---- Processes and terminals

int process_id();
/// False if there is no process of this number, or if it has ended.
bool is_running(int process);
std::string host_name();

enum class Stream { input, output };
/// True if the standard stream is a terminal.
bool is_terminal(Stream stream);
/// Width of the terminal in columns; 0 if standard output is not one, or its width is unknown.
int terminal_columns();

// ---- CPUs and threads

/// The ids of the CPUs that the calling thread may run on; empty if unknown.
std::vector<int> allowed_cpus();
/// Restricts the calling thread, and threads that it starts later, to these CPUs. It is optional: a
/// failure is ignored.
void allow_cpus(std::span<const int> cpus);
/// Threads started later, of the whole process, get stacks of at least this size. It is optional.
void require_stack(std::size_t bytes);
/// CPU quota of the process's control groups (cgroup versions 1 and 2), rounded up; the largest int
/// if there is no quota. `root` is the directory of proc/ and sys/, normally "/".
int cpu_quota(const std::string& root);
/// Asks the system for AMX tiles, which a process may use only after that.
bool permit_tiles();

/// True if the process has a single thread; false if the C library does not tell. glibc clears its
/// flag in the thread that starts the second one, before that one runs, and 2.36 never sets it
/// again. So while it is true, no other thread runs, until this thread starts one.
inline bool single_threaded() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

// ---- Memory and libraries

/// Memory aligned to 64 bytes; from 4 MiB on in huge pages, if the system has them.
void* allocate(std::size_t bytes);
void release(void* memory);

/// Loads a shared library. Null if that fails; `error` is then the reason.
void* load_library(const std::string& name, std::string& error);
/// The address of a symbol of the library, or null.
void* find_symbol(void* library, const char* name);

}  // namespace attune::platform
