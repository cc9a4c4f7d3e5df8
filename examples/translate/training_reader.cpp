#include "training_reader.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune::translate {
namespace {

/// 1 when the size cannot be known.
double megabytes(const std::string& path) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(path, none);
  return none ? 1 : std::max(1.0, static_cast<double>(bytes) / 1e6);
}

}  // namespace

TrainingReader::TrainingReader(const TrainOptions& o, const std::string& what)
    : reader_(text::open_pairs(o.source, o.target, o.columns)),
      tsv_(o.target.empty()),
      total_(megabytes(o.source)),
      progress_(0, static_cast<long>(total_), what + ": MB") {}

std::optional<text::TextPair> TrainingReader::next() {
  auto pair = reader_.next();
  if (!pair) return pair;
  megabytes_ += static_cast<double>(pair->source.size() + 1) / 1e6;
  if (tsv_) megabytes_ += static_cast<double>(pair->target.size() + 1) / 1e6;
  if (reader_.number() % 256 == 0) show();
  return pair;
}

void TrainingReader::fail(std::string_view message) const {
  attune::fail(fmt::format("{}:{}", reader_.source_name(), number()), message);
}

void TrainingReader::show() {
  using std::chrono::seconds;
  const auto now = Clock::now();
  if (now - start_ < seconds(3)) return;
  const bool line = now - line_ > seconds(30);
  if (line) line_ = now;
  const double rate = static_cast<double>(reader_.number()) / seconds_since(start_);
  progress_.show(static_cast<long>(std::min(megabytes_, total_)),
                 fmt::format("{:.0f} pairs/s", rate), line);
}

}  // namespace attune::translate
