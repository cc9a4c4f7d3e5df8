#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#define NOMINMAX
#include <windows.h>

#include "support/process.hpp"
#include "support/scratch_directory.hpp"

namespace attune::test {
namespace {

std::wstring wide(const std::string& utf8) {
  return std::filesystem::path(std::u8string(utf8.begin(), utf8.end())).wstring();
}

/// An argument as CommandLineToArgvW reads it.
std::string quoted(const std::string& argument) {
  std::string text = "\"";
  std::size_t backslashes = 0;
  for (const char c : argument) {
    if (c == '"') text.append(backslashes + 1, '\\');
    backslashes = c == '\\' ? backslashes + 1 : 0;
    text += c;
  }
  return text.append(backslashes, '\\') + "\"";
}

HANDLE open_inherited(const std::filesystem::path& path, DWORD access, DWORD creation) {
  SECURITY_ATTRIBUTES inherited{.nLength = sizeof(SECURITY_ATTRIBUTES),
                                .lpSecurityDescriptor = nullptr,
                                .bInheritHandle = TRUE};
  return CreateFileW(path.c_str(), access, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, creation,
                     FILE_ATTRIBUTE_NORMAL, nullptr);
}

/// The C library writes CR LF to standard streams.
std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::erase(text, '\r');
  return text;
}

}  // namespace

std::vector<std::string> this_program() {
  wchar_t path[4096];
  const std::filesystem::path all(path, path + GetModuleFileNameW(nullptr, path, std::size(path)));
  const std::u8string text = all.u8string();
  return {std::string(text.begin(), text.end())};
}

ProcessResult run_process(std::vector<std::string> arguments, const ProcessOptions& options) {
  using Clock = std::chrono::steady_clock;
  const ScratchDirectory files;
  std::ofstream(files / "in", std::ios::binary) << options.input;
  STARTUPINFOW start{};
  start.cb = sizeof start;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdInput = open_inherited(files / "in", GENERIC_READ, OPEN_EXISTING);
  start.hStdOutput = open_inherited(files / "out", GENERIC_WRITE, CREATE_ALWAYS);
  start.hStdError = open_inherited(files / "err", GENERIC_WRITE, CREATE_ALWAYS);
  std::string line;
  for (const std::string& argument : arguments)
    line += (line.empty() ? "" : " ") + quoted(argument);
  // The child inherits the environment of this process, whose changes are undone below.
  std::map<std::string, const char*> before;
  for (const auto& [name, value] : options.environment) {
    before[name] = std::getenv(name.c_str());
    SetEnvironmentVariableW(wide(name).c_str(), wide(value).c_str());
  }
  PROCESS_INFORMATION process{};
  const BOOL started =
      CreateProcessW(nullptr, wide(line).data(), nullptr, nullptr, /*inherits handles=*/TRUE,
                     CREATE_NEW_PROCESS_GROUP, nullptr, nullptr, &start, &process);
  for (const auto& [name, value] : before)
    SetEnvironmentVariableW(wide(name).c_str(), value ? wide(value).c_str() : nullptr);
  for (const HANDLE handle : {start.hStdInput, start.hStdOutput, start.hStdError})
    CloseHandle(handle);
  if (!started) throw std::runtime_error("cannot start " + arguments.front());

  constexpr UINT killed = 0xDEAD;
  ProcessResult result;
  bool sent = !options.signal_when;
  for (const Clock::time_point begin = Clock::now();
       WaitForSingleObject(process.hProcess, 1) == WAIT_TIMEOUT;) {
    result.timed_out = Clock::now() - begin > options.limit;
    const bool kills = !sent && options.signal_when();
    if (kills && options.signal == SIGINT)
      GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, process.dwProcessId);
    else if (kills || result.timed_out)
      TerminateProcess(process.hProcess, killed);
    sent = sent || kills;
  }
  DWORD status = 0;
  GetExitCodeProcess(process.hProcess, &status);
  CloseHandle(process.hProcess);
  CloseHandle(process.hThread);
  result.status = status == killed ? -1 : static_cast<int>(status);
  result.signal = status == killed ? options.signal : 0;
  result.out = read(files / "out");
  result.err = read(files / "err");
  return result;
}

}  // namespace attune::test
