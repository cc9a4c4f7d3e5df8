#include "data.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>
#include <attune/tensor/random.hpp>

#include "support/hash.hpp"
#include "support/hold_out.hpp"

namespace attune::dates {
namespace {

constexpr long chunk_steps = 16;

std::vector<std::string> distinct_code_points(std::span<const Row> rows, std::string Row::*column) {
  std::set<std::string> points;
  for (const Row& row : rows) {
    for (std::string& point : text::code_points(row.*column)) points.insert(std::move(point));
  }
  return {points.begin(), points.end()};
}

}  // namespace

Data::Data(const DataOptions& options) : options_(options) {
  if (options.train_file.empty()) {
    generator_.emplace(GeneratorOptions{.locales = parse_locales(options.locales),
                                        .held_out = static_cast<int>(options.held_out),
                                        .seed = options.seed});
  } else {
    train_ = read_tsv(options.train_file, options.columns);
  }
  if (!options.valid_file.empty()) {
    validation_ = read_tsv(options.valid_file, options.columns);
  } else if (generator_) {
    validation_ = generator_->validation();
  } else {
    validation_ = hold_out(train_, options.held_out, options.seed, options.train_file);
  }
}

std::string Data::fingerprint() const {
  const bool generated = generator_ && options_.valid_file.empty();
  return attune::fingerprint(train_, generated ? std::vector<Row>() : validation_);
}

void check_pairs(const Metadata& metadata, const Data& data) {
  const auto pairs = metadata.find("pairs");
  if (pairs != metadata.end() && pairs->second != data.fingerprint())
    fail("checkpoint", "it was trained on other pairs, or others were held out");
}

Row Data::row(std::int64_t number) {
  if (generator_) {
    Random random(options_.seed, static_cast<std::uint64_t>(number));
    return generator_->sample([&](std::uint64_t n) {
      return static_cast<std::uint64_t>(random.below(static_cast<Index>(n)));
    });
  }
  const auto size = static_cast<std::int64_t>(train_.size());
  if (number / size != epoch_) {
    epoch_ = number / size;
    permutation_ = shuffled(train_.size(), Random(options_.seed, fmt::format("epoch {}", epoch_)));
  }
  return train_[permutation_[static_cast<std::size_t>(number % size)]];
}

void Data::load_chunk(const Model& model, long chunk, Index batch_size) {
  if (chunk == loaded_chunk_) return;
  loaded_chunk_ = chunk;
  chunk_.clear();
  const std::int64_t first = chunk * chunk_steps * batch_size;
  for (std::int64_t i = 0; i < chunk_steps * batch_size; ++i) {
    const Row example = row(first + i);
    chunk_.push_back(model.encode(example.source, example.target));
  }
  std::ranges::stable_sort(chunk_, {}, [](const text::Pair& p) { return p.source.size(); });
  chunk_order_ = shuffled(chunk_steps, Random(options_.seed, fmt::format("chunk {}", chunk)));
}

std::span<const text::Pair> Data::batch(const Model& model, long step, Index batch_size) {
  load_chunk(model, step / chunk_steps, batch_size);
  const std::size_t at = chunk_order_[static_cast<std::size_t>(step % chunk_steps)] *
                         static_cast<std::size_t>(batch_size);
  return std::span(chunk_).subspan(at, static_cast<std::size_t>(batch_size));
}

std::vector<std::string> Data::source_alphabet() const {
  return generator_ ? generator_->alphabet() : distinct_code_points(train_, &Row::source);
}

std::vector<std::string> Data::target_alphabet() const {
  if (!generator_) return distinct_code_points(train_, &Row::target);
  return {"-", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

std::string Data::description() const {
  const std::string training =
      generator_ ? fmt::format("generated dates ({})", options_.locales)
                 : fmt::format("{} examples of {}", train_.size(), options_.train_file);
  const std::string validation = !options_.valid_file.empty() ? "examples of " + options_.valid_file
                                 : generator_                 ? "held-out dates"
                                                              : "held-out examples";
  return printable(
      fmt::format("{}; validation on {} {}", training, validation_.size(), validation));
}

}  // namespace attune::dates
