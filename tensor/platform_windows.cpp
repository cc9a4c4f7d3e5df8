#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#define NOMINMAX
#define PSAPI_VERSION 2
#include <windows.h>
// windows.h comes first.
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <process.h>
#include <psapi.h>

#include <attune/tensor/platform.hpp>

namespace attune::platform {
namespace {

/// errno for the last error of the system.
int last_error() {
  switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
      return ENOENT;
    case ERROR_ACCESS_DENIED:
      return EACCES;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
      return EBUSY;
    case ERROR_DISK_FULL:
      return ENOSPC;
    case ERROR_TOO_MANY_OPEN_FILES:
      return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
      return ENOMEM;
    default:
      return EIO;
  }
}

/// Opens a file and returns its descriptor, or -1. Its HANDLE is not inherited by child processes.
int open_file(const std::filesystem::path& path, DWORD access, DWORD sharing, DWORD creation,
              DWORD flags = 0) {
  const HANDLE handle = CreateFileW(path.c_str(), access, sharing, nullptr, creation,
                                    FILE_ATTRIBUTE_NORMAL | flags, nullptr);
  if (handle != INVALID_HANDLE_VALUE)
    return _open_osfhandle(reinterpret_cast<std::intptr_t>(handle), _O_BINARY);
  errno = last_error();
  return -1;
}

HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }

constexpr DWORD share_all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Bytes of one call of the C library.
unsigned at_once(std::size_t bytes) {
  return static_cast<unsigned>(std::min<std::size_t>(bytes, 1 << 30));
}

HANDLE standard_stream(Stream stream) {
  return GetStdHandle(stream == Stream::input ? STD_INPUT_HANDLE : STD_OUTPUT_HANDLE);
}

}  // namespace

File::File(const std::filesystem::path& path, Access access, unsigned)
    : number_(access == Access::overwrite
                  ? open_file(path, GENERIC_WRITE, share_all, CREATE_ALWAYS)
                  : open_file(path, GENERIC_READ, share_all, OPEN_EXISTING)) {
  // A directory cannot be opened in this way, which is EACCES. replace_file writes its entries.
}

std::optional<std::size_t> File::size() const {
  LARGE_INTEGER size;
  if (GetFileType(handle_of(number_)) != FILE_TYPE_DISK ||
      !GetFileSizeEx(handle_of(number_), &size))
    return std::nullopt;
  return static_cast<std::size_t>(size.QuadPart);
}

std::ptrdiff_t File::read(std::span<std::byte> to) {
  return _read(number_, to.data(), at_once(to.size()));
}

std::ptrdiff_t File::read(std::span<std::byte> to, std::size_t at) {
  OVERLAPPED from{};
  from.Offset = static_cast<DWORD>(at), from.OffsetHigh = static_cast<DWORD>(at >> 32);
  DWORD n = 0;
  if (ReadFile(handle_of(number_), to.data(), at_once(to.size()), &n, &from)) return n;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  errno = last_error();
  return -1;
}

bool File::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const int n = _write(number_, bytes.data(), at_once(bytes.size()));
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool File::sync() {
  return GetFileType(handle_of(number_)) != FILE_TYPE_DISK || _commit(number_) == 0;
}

bool File::close() { return !is_open() || _close(std::exchange(number_, -1)) == 0; }

bool is_writable(const std::filesystem::path& path) { return _waccess(path.c_str(), 2) == 0; }

std::error_code replace_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  for (int tries = 0; tries < 100; ++tries) {
    std::filesystem::rename(from, to, error);
    if (error != std::errc::permission_denied && error != std::errc::device_or_resource_busy) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return error;
}

FileLock::FileLock(std::filesystem::path path, std::string_view owner) : path_(std::move(path)) {
  // While it is open, only readers may open it; the system deletes it when it is closed.
  file_ = open_file(path_, GENERIC_READ | GENERIC_WRITE | DELETE,
                    FILE_SHARE_READ | FILE_SHARE_DELETE, CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE);
  if (file_ >= 0) {
    // The lock is valid without the text, so errors are ignored.
    _write(file_, owner.data(), at_once(owner.size()));
    return;
  }
  reason_ = std::strerror(errno);
  state_ = errno == EBUSY ? State::in_use : State::not_created;
  if (state_ == State::not_created) return;
  File reader(path_, File::Access::read);
  char text[300] = "";
  const bool named =
      reader.is_open() && reader.read(std::as_writable_bytes(std::span(text, sizeof text - 1))) > 0;
  reason_ = named ? std::string(text, std::strcspn(text, "\n")) : "another process";
}

FileLock::~FileLock() {
  if (file_ >= 0) _close(file_);
}

int process_id() { return _getpid(); }

bool is_running(int process) {
  const HANDLE handle =
      OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, static_cast<DWORD>(process));
  if (!handle) return GetLastError() == ERROR_ACCESS_DENIED;
  DWORD status = 0;
  const bool running = GetExitCodeProcess(handle, &status) && status == STILL_ACTIVE;
  CloseHandle(handle);
  return running;
}

std::string host_name() {
  char name[256] = "";
  DWORD size = sizeof name;
  return GetComputerNameExA(ComputerNameDnsHostname, name, &size) ? name : "";
}

std::size_t resident_memory() {
  PROCESS_MEMORY_COUNTERS counters{};
  GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters);
  return counters.WorkingSetSize;
}

std::string program_name() { return __argv[0]; }

void prepare_process() {
  _set_fmode(_O_BINARY);
  for (std::FILE* stream : {stdin, stdout, stderr}) _setmode(_fileno(stream), _O_BINARY);
  SetConsoleCP(CP_UTF8);
  SetConsoleOutputCP(CP_UTF8);
  for (const DWORD stream : {STD_OUTPUT_HANDLE, STD_ERROR_HANDLE}) {
    DWORD mode = 0;
    const HANDLE handle = GetStdHandle(stream);
    if (GetConsoleMode(handle, &mode))
      SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
  }
}

bool is_terminal(Stream stream) {
  DWORD mode = 0;
  return GetConsoleMode(standard_stream(stream), &mode) != 0;
}

int terminal_columns() {
  CONSOLE_SCREEN_BUFFER_INFO info;
  return GetConsoleScreenBufferInfo(standard_stream(Stream::output), &info)
             ? info.srWindow.Right - info.srWindow.Left + 1
             : 0;
}

int columns_of(char32_t c) {
  // The larger blocks of marks and of wide characters, each as first and one past the last: Windows
  // has no function for it.
  constexpr char32_t marks[] = {0x300,  0x370,  0x483,  0x48A,  0x591,  0x5BE,  0x610,   0x61B,
                                0x64B,  0x660,  0x1160, 0x1200, 0x1AB0, 0x1B00, 0x1DC0,  0x1E00,
                                0x200B, 0x2010, 0x202A, 0x202F, 0x2060, 0x2070, 0x20D0,  0x2100,
                                0xFE00, 0xFE10, 0xFE20, 0xFE30, 0xFEFF, 0xFF00, 0xE0000, 0xE1000};
  constexpr char32_t wide[] = {0x1100,  0x1160,  0x2E80,  0x303F,  0x3041,  0xA4D0,  0xA960,
                               0xA980,  0xAC00,  0xD7A4,  0xF900,  0xFB00,  0xFE30,  0xFE70,
                               0xFF01,  0xFF61,  0xFFE0,  0xFFE7,  0x1F300, 0x1F650, 0x1F680,
                               0x1F700, 0x1F900, 0x1FB00, 0x20000, 0x40000};
  const auto in = [c](std::span<const char32_t> ranges) {
    return (std::ranges::upper_bound(ranges, c) - ranges.begin()) % 2 == 1;
  };
  return in(marks) ? 0 : in(wide) ? 2 : 1;
}

std::vector<int> allowed_cpus() {
  DWORD_PTR own = 0, all = 0;
  std::vector<int> cpus;
  if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all)) {
    for (int cpu = 0; cpu < std::numeric_limits<DWORD_PTR>::digits; ++cpu) {
      if (own >> cpu & 1) cpus.push_back(cpu);
    }
  }
  return cpus;
}

void allow_cpus(std::span<const int> cpus) {
  DWORD_PTR mask = 0;
  for (const int cpu : cpus) mask |= DWORD_PTR{1} << cpu;
  SetThreadAffinityMask(GetCurrentThread(), mask);
}

void require_stack(std::size_t) {}  // the linker sets it, 1 MiB or more

int cpu_quota(const std::string&) { return std::numeric_limits<int>::max(); }

bool permit_tiles() { return false; }

void* allocate(std::size_t bytes) { return _aligned_malloc(bytes, 64); }

void release(void* memory) { _aligned_free(memory); }

const char* const openblas_library = "libopenblas.dll";

void* load_library(const std::string& name, std::string& error) {
  const HMODULE library =
      LoadLibraryW(std::filesystem::path(std::u8string(name.begin(), name.end())).c_str());
  if (!library) error = std::system_category().message(static_cast<int>(GetLastError()));
  return library;
}

void* find_symbol(void* library, const char* name) {
  return std::bit_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace attune::platform
