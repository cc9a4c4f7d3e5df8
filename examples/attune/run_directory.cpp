#include "run_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <sstream>

#include <attune/tensor/file.hpp>
#include <attune/tensor/platform.hpp>

#include "processes.hpp"

namespace attune {
namespace {

/// A line of the log; not an object if it is incomplete.
report::Json parse_line(const std::string& line) {
  return report::Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

/// The step in a line of the log.
std::optional<long> step_of(const std::string& line) {
  const report::Json fields = parse_line(line);
  const bool has_step = fields.is_object() && fields.contains("step");
  return has_step && fields["step"].is_number_integer() ? std::optional<long>(fields["step"])
                                                        : std::nullopt;
}

/// The directory, or its nearest existing parent.
std::filesystem::path nearest_existing(std::filesystem::path directory) {
  std::error_code none;
  while (!directory.empty() && !std::filesystem::exists(directory, none))
    directory = directory.parent_path();
  return directory.empty() ? "." : directory;
}

[[noreturn]] void fail_to_write(const std::string& log, int error) {
  fail(log, "cannot write the log: {}", std::strerror(error));
}

}  // namespace

void fail_foreign(const std::filesystem::path& path) {
  fail(path.string(),
       "belongs to another training, or to another step, than the checkpoint next to it");
}

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : lock_(directory / "attune.lock",
            fmt::format("process {} on host {}\n", platform::process_id(), platform::host_name())) {
  using State = platform::FileLock::State;
  const std::string path = directory.string();
  if (lock_.state() == State::not_created)
    fail("--out", "{} cannot be written: {}", (directory / "attune.lock").string(), lock_.reason());
  if (lock_.state() == State::in_use) fail("--out", "{} is in use by {}", path, lock_.reason());
  if (lock_.state() == State::unsupported)
    complain("{} cannot be locked ({}): no other process must write there\n", path, lock_.reason());
  remove_unfinished(directory);
}

RunDirectory::RunDirectory(std::filesystem::path path) : path_(std::move(path)) {
  if (!is_first_worker()) return;
  std::error_code none;
  const std::filesystem::path there = nearest_existing(path_);
  int error = std::filesystem::is_directory(there, none) ? 0 : ENOTDIR;
  if (error == 0 && !platform::is_writable(there)) error = errno;
  if (error != 0) fail(path_.string(), "cannot create the directory: {}", std::strerror(error));
  if (std::filesystem::exists(path_)) lock_.emplace(path_);
}

void RunDirectory::make() {
  if (!is_first_worker()) return;
  make_directories(path_);
  if (!lock_) lock_.emplace(path_);
}

void RunDirectory::keep_previous() const {
  if (!is_first_worker()) return;
  if (!std::filesystem::exists(last()) && !std::filesystem::exists(best())) {
    std::filesystem::remove(log());  // a run without a checkpoint does not replace an earlier one
    return;
  }
  // last.safetensors first: if the renaming is interrupted, nothing resumes from mixed files.
  for (const auto& path : {last(), best(), log(), path_ / "report.html"}) {
    std::filesystem::path kept = path;
    kept.replace_extension(".previous" + path.extension().string());
    if (!std::filesystem::exists(path)) {
      std::filesystem::remove(kept);  // of another run
      continue;
    }
    std::filesystem::rename(path, kept);
    say("{} was renamed to {}\n", path.string(), kept.filename().string());
  }
}

void RunDirectory::cut_log(long step, const std::string& line, const std::string& training) const {
  if (!line.empty() && step_of(line) != step)
    fail("checkpoint", "log_line does not belong to step {}", step);
  std::string kept;
  bool has_step = false;
  const std::string all = std::filesystem::exists(log()) ? read_file(log()) : "";
  report::check_log(log(), training);
  std::istringstream lines(all);
  for (std::string one;
       std::getline(lines, one) && !lines.eof();) {  // skips an incomplete last line
    const std::optional<long> at = step_of(one);
    if (!at || *at > step) continue;
    kept += one + "\n";
    has_step = has_step || at == step;
  }
  if (!has_step && !line.empty()) kept += line + "\n";
  if (is_first_worker() && kept != all) write_file(log(), kept);
}

report::LogWriter::LogWriter(const std::string& path, bool append)
    : path_(path), file_(std::fopen(path.c_str(), append ? "ab" : "wb"), std::fclose) {
  if (!file_) fail_to_write(path, errno);
  // Unbuffered: each line is a single write.
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

void report::LogWriter::write(const Json& fields) {
  if (!file_) fail(path_, "the log was closed after a failed write");
  const std::string text = json_line(fields) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) return;
  const int error = errno;
  file_.reset();  // never append to an incomplete line
  fail_to_write(path_, error);
}

void report::check_log(const std::filesystem::path& path, const std::string& training) {
  std::istringstream lines(std::filesystem::exists(path) ? read_file(path) : "");
  for (std::string line; std::getline(lines, line);) {
    const Json fields = parse_line(line);
    const auto of = fields.find("training");  // also of a line that is no object
    if (of != fields.end() && *of != training) fail_foreign(path);
  }
}

report::Log report::read_log(const std::string& path) {
  Log log;
  std::istringstream lines(read_file(path));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const Json object = parse_line(line);
    if (!object.is_object() && lines.eof()) break;
    if (!object.is_object())
      fail(fmt::format("{}:{}", path, number), "expected a JSON object, got " + in_quotes(line));
    auto& numbers = log.emplace_back();
    for (const auto& [name, value] : object.items()) {
      if (value.is_number()) numbers[name] = value.get<double>();
      if (value.is_null()) numbers[name] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return log;
}

std::vector<std::string> run_names(std::span<const std::filesystem::path> files) {
  std::vector<std::string> names;
  for (const auto& file : files) {
    const auto whole = std::filesystem::absolute(file).lexically_normal();
    const std::string stem = file.stem().string(),
                      directory = whole.parent_path().filename().string();
    names.push_back(stem == "best" && !directory.empty() ? directory : stem);
  }
  std::vector<std::string> unique = names;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (std::ranges::count(names, names[i]) > 1) unique[i] = files[i].string();
  return unique;
}

}  // namespace attune
