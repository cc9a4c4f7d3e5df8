// What depends on the operating system, for the library and its programs: platform_posix.cpp (Linux,
// macOS, WebAssembly) and platform_windows.cpp. Signals and child processes of the program attune
// are in examples/attune/processes_*.cpp.
//
// If a call of the system fails, functions return false, null or -1, and errno
// has the reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace attune::platform {

// ---- Files

/// An open file, closed on destruction.
class File {
 public:
  /// `read_at_once` does not wait for the writer of a pipe. A `directory` can only be synced.
  /// `overwrite` creates or empties the file.
  enum class Access { read, read_at_once, directory, overwrite };
  /// `permissions` are those of a new file.
  explicit File(const std::filesystem::path& path, Access access, unsigned permissions = 0644);
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

/// True if this process may write the file, or create files in the directory.
bool is_writable(const std::filesystem::path& path);

/// Renames a file, and replaces the one at `to`. Windows refuses that while another process reads
/// the old file, so it is tried for up to a second there.
std::error_code replace_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Holds an exclusive lock on a file that names its owner. The destructor removes the file, and the
/// system releases the lock when the process ends.
class FileLock {
 public:
  enum class State { locked, in_use, unsupported, not_created };
  /// Creates and locks the file, and writes `owner` to it.
  FileLock(std::filesystem::path path, std::string_view owner);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  State state() const { return state_; }
  /// If in use, the first line of the file. If unsupported or not created, the system's reason.
  std::string reason() const { return reason_; }

 private:
  std::filesystem::path path_;
  int file_ = -1;
  State state_ = State::locked;
  std::string reason_;
};

// ---- Processes and terminals

int process_id();
/// False if there is no process of this number, or if it has ended.
bool is_running(int process);
std::string host_name();

/// Resident memory of this process in bytes; 0 if unknown.
std::size_t resident_memory();
/// The name by which this program was started.
std::string program_name();

/// For the start of a program. POSIX: opens closed standard streams, so that no other file gets
/// their descriptors (using them remains an error); exceeding the file size limit is a write error.
/// Windows: UTF-8 and escape sequences on the console, and no CR before LF in standard streams and
/// in files that are opened later.
void prepare_process();

enum class Stream { input, output };
/// True if the standard stream is a terminal.
bool is_terminal(Stream stream);
/// Width of the terminal in columns; 0 if standard output is not one, or its width is unknown.
int terminal_columns();
/// Columns of a character in a terminal, independent of the locale: 0 for marks and format
/// characters, 2 for East Asian Width W and F.
int columns_of(char32_t c);

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

// ---- Memory and libraries

/// Memory aligned to 64 bytes; from 4 MiB on in huge pages, if the system has them.
void* allocate(std::size_t bytes);
void release(void* memory);

/// The usual file name of OpenBLAS.
extern const char* const openblas_library;
/// Loads a shared library. Null if that fails; `error` is then the reason.
void* load_library(const std::string& name, std::string& error);
/// The address of a symbol of the library, or null.
void* find_symbol(void* library, const char* name);

}  // namespace attune::platform
