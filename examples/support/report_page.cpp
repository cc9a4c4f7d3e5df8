#include "support/report_page.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>

#include <attune/tensor/file.hpp>

#include "support/output.hpp"
#include "support/workers.hpp"

namespace attune {

std::string grouped(Index count) {
  std::string digits = std::to_string(count);
  for (Index at = std::ssize(digits) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

void add_card(report::Page& page, const Metadata& metadata,
              const std::vector<std::vector<std::string>>& more) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : metadata) {
    if (!name.ends_with("vocabulary") && !name.ends_with("tokenizer"))
      rows.push_back({name, value});
  }
  rows.insert(rows.end(), more.begin(), more.end());
  page.heading("The model");
  page.table({"option", "value"}, rows);
}

void add_parameters(report::Page& page, const nn::Parameters& parameters) {
  page.heading("Parameters");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, w] : parameters)
    rows.push_back({name, to_string(w.shape()), grouped(w.size())});
  page.table({"name", "shape", "elements"}, rows);
}

std::vector<std::size_t> from_short_to_long(std::span<const std::size_t> lengths,
                                            std::size_t count) {
  std::vector<std::size_t> order(lengths.size()), some;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lengths[i]; });
  const std::size_t n = std::min(count, order.size());
  for (std::size_t i = 0; i < n; ++i)
    some.push_back(order[n == 1 ? 0 : i * (order.size() - 1) / (n - 1)]);
  return some;
}

std::string isolated(const std::string& text) {
  const bool ascii = std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
  return ascii ? text : "\u2068" + text + "\u2069";
}

std::filesystem::path page_path(const std::filesystem::path& out,
                                const std::filesystem::path& directory) {
  const std::filesystem::path path = out.empty() ? directory / "report.html" : out;
  require_writable(path);
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) > 0) {
    std::string first_line;
    std::getline(std::ifstream(path), first_line);
    if (!first_line.starts_with("<!DOCTYPE html>") && !first_line.starts_with("<!doctype html>"))
      fail(path.string(), "there is a file that is no page: another file to write was expected");
  }
  return path;
}

void write_page(const report::Page& page, const std::filesystem::path& path) {
  if (!is_first_worker()) return;
  const bool replaces = std::filesystem::is_regular_file(path);
  write_file(path, page.html());
  say("{}{}\n", path.string(), replaces ? "    replaces the report that was there" : "");
}

int then_report(int status, const TrainingOptions& options,
                const std::function<int(const std::filesystem::path& best)>& report) {
  const std::filesystem::path best = options.out / "best.safetensors";
  const bool writes = status == 0 && options.report && std::filesystem::exists(best);
  return writes ? report(best) : status;
}

}  // namespace attune
