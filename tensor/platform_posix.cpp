#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>
#ifdef ATTUNE_BLAS
#include <dlfcn.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#endif
#ifdef __APPLE__
#include <mach/mach.h>
#include <xlocale.h>
#endif

#include <attune/tensor/platform.hpp>

namespace attune::platform {
namespace {

/// Repeats a call that a signal has interrupted.
template <class F>
std::ptrdiff_t repeated(F call) {
  std::ptrdiff_t result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

/// Flags of `open` for each File::Access. Without waiting has no effect on regular files.
constexpr int flags[] = {O_RDONLY, O_RDONLY | O_NONBLOCK | O_NOCTTY, O_RDONLY | O_DIRECTORY,
                         O_WRONLY | O_CREAT | O_TRUNC};

/// True if `path` still names the open file: the previous owner of the lock may have removed it.
bool is_at(int file, const std::filesystem::path& path) {
  struct stat open {
  }, there{};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

}  // namespace

File::File(const std::filesystem::path& path, Access access, unsigned permissions)
    : number_(::open(path.c_str(), flags[static_cast<int>(access)] | O_CLOEXEC, permissions)) {}

std::optional<std::size_t> File::size() const {
  struct stat status;
  if (::fstat(number_, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return static_cast<std::size_t>(status.st_size);
}

std::ptrdiff_t File::read(std::span<std::byte> to) {
  return repeated([&] { return ::read(number_, to.data(), to.size()); });
}

std::ptrdiff_t File::read(std::span<std::byte> to, std::size_t at) {
  return repeated([&] { return ::pread(number_, to.data(), to.size(), static_cast<off_t>(at)); });
}

bool File::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::ptrdiff_t n = repeated([&] { return ::write(number_, bytes.data(), bytes.size()); });
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool File::sync() { return ::fsync(number_) == 0 || errno == EINVAL || errno == ENOTSUP; }

bool File::close() { return !is_open() || ::close(std::exchange(number_, -1)) == 0; }

bool is_writable(const std::filesystem::path& path) { return ::access(path.c_str(), W_OK) == 0; }

std::error_code replace_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  return error;
}

FileLock::FileLock(std::filesystem::path path, std::string_view owner) : path_(std::move(path)) {
  do {
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) == 0) continue;
    reason_ = std::strerror(errno);
    state_ = file_ < 0              ? State::not_created
             : errno == EWOULDBLOCK ? State::in_use
                                    : State::unsupported;
    if (state_ == State::in_use) {
      char text[300] = "";
      const bool named = ::pread(file_, text, sizeof text - 1, 0) > 0;
      reason_ = named ? std::string(text, std::strcspn(text, "\n")) : "another process";
    }
    if (state_ == State::unsupported) ::unlink(path_.c_str());
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    return;
  } while (!is_at(file_, path_));
  // The lock is valid without the text, so errors are ignored.
  if (::ftruncate(file_, 0) == 0) [[maybe_unused]]
    const ssize_t n = ::pwrite(file_, owner.data(), owner.size(), 0);
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());  // before unlocking: afterwards another process may own the file
  ::close(file_);
}

int process_id() { return ::getpid(); }

bool is_running(int process) {
  if (::kill(process, 0) != 0 && errno == ESRCH) return false;
  std::ifstream file(fmt::format("/proc/{}/stat", process));  // "PROCESS (NAME) STATE ..."
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  return name_end == text.npos || (text[name_end + 2] != 'Z' && text[name_end + 2] != 'X');
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::size_t resident_memory() {
#ifdef __APPLE__
  mach_task_basic_info info;
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  const auto result = ::task_info(mach_task_self(), MACH_TASK_BASIC_INFO,
                                  reinterpret_cast<task_info_t>(&info), &count);
  return result == KERN_SUCCESS ? info.resident_size : 0;
#else
  std::size_t total = 0, resident = 0;  // in pages
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
#endif
}

std::string program_name() {
#if defined(__linux__) || defined(__EMSCRIPTEN__)
  return program_invocation_name;
#else
  return ::getprogname();
#endif
}

void prepare_process() {
  ::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor. The access mode keeps using the stream an error.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) ::_exit(1);
  }
}

bool is_terminal(Stream stream) {
  return ::isatty(stream == Stream::input ? STDIN_FILENO : STDOUT_FILENO) == 1;
}

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int columns_of(char32_t c) {
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (c == 0 || utf8 == nullptr) return 1;
  const locale_t before = ::uselocale(utf8);  // affects this thread only
  const int columns = ::wcwidth(static_cast<wchar_t>(c));
  ::uselocale(before);
  return columns < 0 ? 1 : columns;
}

#ifdef CPU_SETSIZE
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

void allow_cpus(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}
#else  // macOS has no affinity
std::vector<int> allowed_cpus() {
  std::vector<int> cpus(std::thread::hardware_concurrency());
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

void allow_cpus(std::span<const int>) {}
#endif

void require_stack(std::size_t bytes) {
#ifdef __linux__
  pthread_attr_t attributes;
  std::size_t size = bytes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < bytes &&
      pthread_attr_setstacksize(&attributes, bytes) == 0)
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
#else
  static_cast<void>(bytes);
#endif
}

int cpu_quota(const std::string& root_directory) {
  const std::filesystem::path root = root_directory;
  double least = std::numeric_limits<int>::max();
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // ID:CONTROLLERS:/PATH, none in version 2
    const std::size_t first = line.find(':'), second = line.find(":/", first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version_2 = controllers.empty();
    if (!version_2 && ("," + controllers + ",").find(",cpu,") == line.npos) continue;
    // Limits of parent groups apply too. A container may see only the last group, as the root.
    for (std::filesystem::path path = line.substr(second + 2);; path = path.parent_path()) {
      const auto group = root / "sys/fs/cgroup" / controllers / path;
      double quota = 0, period = 0;  // 0 if a file is missing or contains "max"
      std::ifstream limits(group / (version_2 ? "cpu.max" : "cpu.cfs_quota_us"));
      limits >> quota;
      std::ifstream periods(group / "cpu.cfs_period_us");
      (version_2 ? limits : periods) >> period;
      if (quota > 0 && period > 0) least = std::min(least, std::ceil(quota / period));
      if (path.empty()) break;
    }
  }
  return static_cast<int>(least);
}

bool permit_tiles() {
#ifdef SYS_arch_prctl
  constexpr long request_permission = 0x1023, tile_data = 18;  // of arch_prctl
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

void* allocate(std::size_t bytes) {
  constexpr std::size_t cache_line = 64, huge_page = std::size_t{2} << 20;
  const bool huge = bytes >= 2 * huge_page;
  const std::size_t alignment = huge ? huge_page : cache_line;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#ifdef MADV_HUGEPAGE
  if (block && huge) ::madvise(block, bytes, MADV_HUGEPAGE);  // a hint: it may be refused
#endif
  return block;
}

void release(void* memory) { std::free(memory); }

#ifdef __APPLE__
const char* const openblas_library = "libopenblas.dylib";
#else
const char* const openblas_library = "libopenblas.so.0";
#endif

#ifdef ATTUNE_BLAS
void* load_library(const std::string& name, std::string& error) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) error = ::dlerror();
  return library;
}
void* find_symbol(void* library, const char* name) { return ::dlsym(library, name); }
#else
void* load_library(const std::string&, std::string& error) {
  error = "attune was built without it";
  return nullptr;
}
void* find_symbol(void*, const char*) { return nullptr; }
#endif

}  // namespace attune::platform
