#include "support/run_directory.hpp"

#include <csignal>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune {
namespace {

volatile std::sig_atomic_t signalled = 0;

}  // namespace

RunDirectory::RunDirectory(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) fail("--out", fmt::format("{} cannot be made: {}", path_.string(), error.message()));
}

void RunDirectory::keep_previous() const {
  for (const auto& path : {best(), last(), log()}) {
    if (!std::filesystem::exists(path)) continue;
    std::filesystem::path kept = path;
    kept.replace_extension(".previous" + path.extension().string());
    std::filesystem::rename(path, kept);
    fmt::print("{} is kept as {}\n", path.string(), kept.filename().string());
  }
}

void RunDirectory::cut_log(long step) const {
  if (!std::filesystem::exists(log())) return;
  std::string kept;
  const std::string all = read_file(log());
  for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != all.npos; begin = end + 1) {
    const std::string line = all.substr(begin, end + 1 - begin);
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", 0L) <= step) kept += line;
  }
  write_file(log(), kept);
}

void catch_signals() {
  const auto handler = [](int signal) {
    signalled = 1;
    std::signal(signal, SIG_DFL);
  };
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

bool interrupted() { return signalled != 0; }

}  // namespace attune
