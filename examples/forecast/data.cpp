#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>

#include "forecast.hpp"

namespace attune::forecast {
namespace {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 40;
  return fmt::format("'{}{}'", text.substr(0, most), text.size() > most ? "..." : "");
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (const auto field : std::views::split(line, ','))
    fields.emplace_back(field.begin(), field.end());
  return fields;
}

std::optional<Time> parse_time(std::string_view text) {
  constexpr std::string_view pattern = "0000-00-00 00:00:00";
  if (text.size() != 10 && text.size() != 16 && text.size() != 19) return {};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == '0' ? !digit : text[i] != pattern[i] && !(i == 10 && text[i] == 'T'))
      return {};
  }
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::sscanf(std::string(text).c_str(), "%d-%u-%u%*c%u:%u:%u", &year, &month, &day, &hour, &minute,
              &second);
  const auto date = std::chrono::year(year) / month / day;
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return {};
  return std::chrono::sys_days(date) + std::chrono::seconds(3600 * hour + 60 * minute + second);
}

std::vector<std::string> columns_of(text::LineReader& lines) {
  const auto header = lines.next();
  if (!header) lines.fail("a header was expected, but the file is empty");
  const std::vector<std::string_view> fields = fields_of(*header);
  if (fields.size() < 2)
    lines.fail(fmt::format("a header with commas was expected, not {}", in_quotes(*header)));
  if (parse_time(fields[0])) lines.fail("a header was expected, not the first row");
  const std::vector<std::string> columns(fields.begin() + 1, fields.end());
  std::set<std::string> names;
  for (const std::string& name : columns)
    if (!names.insert(name).second)
      lines.fail(fmt::format("there are two columns {}", in_quotes(name)));
  return columns;
}

}  // namespace

Table read_table(const std::filesystem::path& path) {
  if (path.empty()) fail("--csv", "a file was expected");
  text::LineReader lines(path);
  Table table{.columns = columns_of(lines), .first = {}, .values = {}};
  std::vector<double> values;
  Index rows = 0;
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    const std::vector<std::string_view> fields = fields_of(*line);
    if (fields.size() != table.columns.size() + 1)
      lines.fail(fmt::format("{} columns, but the header has {}", fields.size(),
                             table.columns.size() + 1));
    const std::optional<Time> time = parse_time(fields[0]);
    if (!time)
      lines.fail(fmt::format("a date such as 2016-07-01 05:00:00 was expected, not {}",
                             in_quotes(fields[0])));
    if (rows == 0) table.first = *time;
    if (rows == 1) table.interval = *time - table.first;
    if (rows == 1 && table.interval.count() <= 0)
      lines.fail(fmt::format("{} is not after the row before", to_string(*time)));
    if (*time != table.time(rows))
      lines.fail(fmt::format("{} was expected, in the interval of the first two rows, not {}",
                             to_string(table.time(rows)), to_string(*time)));
    for (std::size_t i = 1; i < fields.size(); ++i) {
      double& value = values.emplace_back();
      const char* const last = fields[i].data() + fields[i].size();
      const auto [end, error] = std::from_chars(fields[i].data(), last, value);
      if (error != std::errc() || end != last || !std::isfinite(value))
        lines.fail(fmt::format("{}: a number was expected, not {}", table.columns[i - 1],
                               in_quotes(fields[i])));
    }
    ++rows;
  }
  if (rows < 2) lines.fail("the file ends after less than two rows");
  table.values = Tensor::of({rows, std::ssize(table.columns)}, std::span<const double>(values));
  return table;
}

void check_columns(const std::filesystem::path& path, const Table& table,
                   const std::vector<std::string>& columns) {
  if (table.columns == columns) return;
  fail(path.string(), fmt::format("its columns are {}, but the model's are {}",
                                  fmt::join(table.columns, ", "), fmt::join(columns, ", ")));
}

std::string to_string(Time time) {  // fmt's own counts nanoseconds, which end in 2262
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", int{date.year()},
                     unsigned{date.month()}, unsigned{date.day()}, clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

frames::Scaling scaling_of(const Tensor& values, const std::vector<std::string>& columns) {
  frames::Moments moments;
  moments.add(values);
  const frames::Scaling scaling = moments.scaling();
  const std::vector<double> deviation = scaling.deviation.to_vector<double>();
  for (std::size_t i = 0; i < deviation.size(); ++i)
    if (deviation[i] == 0)
      fail("forecast", fmt::format("{} is the same in all rows of training", columns[i]));
  frames::check(scaling);
  return scaling;
}

Parts parts_of(const Table& table, Protocol protocol) {
  constexpr Index month = 30 * 24;
  const Index rows = table.rows(), share = rows * 7 / 10;
  if (protocol == Protocol::shares)
    return {{0, share}, {share, share + rows / 10}, {share + rows / 10, rows}};
  if (table.interval != std::chrono::hours(1))
    fail("--protocol", fmt::format("ett takes a row for each hour, not for every {} seconds",
                                   table.interval.count()));
  if (rows < 20 * month)
    fail("--protocol", fmt::format("ett takes {} rows, and there are {}", 20 * month, rows));
  return {{0, 12 * month}, {12 * month, 16 * month}, {16 * month, 20 * month}};
}

std::vector<Index> windows_of(const Part& part, const NetworkOptions& o, const char* what) {
  const Index first = std::max(part.begin, o.look_back), last = part.end - o.horizon;
  if (first > last)
    fail("forecast", fmt::format("{} has {} rows, but a window reads {} and forecasts {}", what,
                                 part.end - part.begin, o.look_back, o.horizon));
  std::vector<Index> rows(last - first + 1);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

Windows windows_at(const Tensor& values, const NetworkOptions& o, std::span<const Index> rows) {
  const Index columns = values.dim(1), batch = std::ssize(rows);
  const float* from = values.data<float>();
  const auto cut = [&](Index offset, Index steps) {
    Tensor x = Tensor::uninitialized({steps, batch, columns});
    float* to = x.mutable_data<float>();
    for (Index t = 0; t < steps; ++t)
      for (const Index row : rows)
        to = std::copy_n(from + (row + offset + t) * columns, columns, to);
    return x;
  };
  return {cut(-o.look_back, o.look_back), cut(0, o.horizon)};
}

}  // namespace attune::forecast
