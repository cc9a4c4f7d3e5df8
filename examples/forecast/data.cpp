#include "data.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>

namespace attune::forecast {

namespace {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 40;
  return fmt::format("'{}{}'", text.substr(0, most), text.size() > most ? "..." : "");
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::optional<Time> parse_time(std::string_view text) {
  constexpr std::string_view pattern = "0000-00-00 00:00:00";
  if (text.size() != 10 && text.size() != 16 && text.size() != 19) return {};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == '0' ? !digit : text[i] != pattern[i] && !(i == 10 && text[i] == 'T'))
      return {};
  }
  const auto number = [&](std::size_t begin, std::size_t size) {
    int value = 0;
    if (begin < text.size()) std::from_chars(&text[begin], &text[begin] + size, value);
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return {};
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

/// Reads the rows after the header one by one.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : lines_(path) {}

  Table read() {
    read_header();
    while (const auto line = lines_.next()) {
      if (!line->empty()) read_row(*line);
    }
    if (rows_ < 2) lines_.fail("the file ends after less than two rows");
    table_.values =
        Tensor::of({rows_, std::ssize(table_.columns)}, std::span<const double>(values_));
    return std::move(table_);
  }

 private:
  void read_header() {
    const auto header = lines_.next();
    if (!header) lines_.fail("a header was expected, but the file is empty");
    for (const std::string_view name : fields_of(*header)) table_.columns.emplace_back(name);
    if (table_.columns.size() < 2) {
      lines_.fail(fmt::format("a header with commas was expected, not {}", in_quotes(*header)));
    }
    if (parse_time(table_.columns[0])) lines_.fail("a header was expected, not the first row");
    table_.columns.erase(table_.columns.begin());
    std::set<std::string_view> names;
    for (const std::string& name : table_.columns) {
      if (!names.insert(name).second)
        lines_.fail(fmt::format("there are two columns {}", in_quotes(name)));
    }
  }

  void read_row(const std::string& line) {
    const std::vector<std::string_view> fields = fields_of(line);
    if (fields.size() != table_.columns.size() + 1) {
      lines_.fail(fmt::format("{} columns, but the header has {}", fields.size(),
                              table_.columns.size() + 1));
    }
    read_time(fields[0]);
    for (std::size_t i = 1; i < fields.size(); ++i)
      values_.push_back(read_number(fields[i], table_.columns[i - 1]));
    ++rows_;
  }

  void read_time(std::string_view text) {
    const std::optional<Time> time = parse_time(text);
    if (!time) {
      lines_.fail(
          fmt::format("a date such as 2016-07-01 05:00:00 was expected, not {}", in_quotes(text)));
    }
    if (rows_ == 0) table_.first = *time;
    if (rows_ == 1) table_.interval = *time - table_.first;
    if (rows_ == 1 && table_.interval.count() <= 0) {
      lines_.fail(fmt::format("{} is not after the row before", to_string(*time)));
    }
    if (rows_ > 1 && *time != table_.time(rows_)) {
      lines_.fail(fmt::format("{} was expected, in the interval of the first two rows, not {}",
                              to_string(table_.time(rows_)), to_string(*time)));
    }
  }

  double read_number(std::string_view text, const std::string& column) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      lines_.fail(fmt::format("{}: a number was expected, not {}", column, in_quotes(text)));
    }
    return value;
  }

  text::LineReader lines_;
  Table table_{.columns = {}, .first = {}, .interval = std::chrono::seconds(1), .values = {}};
  std::vector<double> values_;
  Index rows_ = 0;
};

}  // namespace

Table read_table(const std::filesystem::path& path) {
  if (path.empty()) fail("--csv", "a file was expected");
  return Reader(path).read();
}

void check_columns(const std::filesystem::path& path, const Table& table,
                   std::span<const std::string> columns) {
  if (std::ranges::equal(table.columns, columns)) return;
  fail(path.string(), fmt::format("its columns are {}, but the model's are {}",
                                  fmt::join(table.columns, ", "), fmt::join(columns, ", ")));
}

std::string to_string(Time time) {  // fmt's own counts nanoseconds, which end in 2262
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

frames::Scaling scaling_of(const Tensor& values, std::span<const std::string> columns) {
  frames::Moments moments;
  moments.add(values);
  const frames::Scaling scaling = moments.scaling();
  const std::vector<double> deviation = scaling.deviation.to_vector<double>();
  for (std::size_t i = 0; i < deviation.size(); ++i) {
    if (deviation[i] == 0)
      fail("forecast", fmt::format("{} is the same in all rows of training", columns[i]));
  }
  frames::check(scaling);
  return scaling;
}

Parts parts_of(const Table& table, Protocol protocol) {
  constexpr Index month = 30 * 24;
  const bool ett = protocol == Protocol::ett;
  const Index rows = table.rows(), train = ett ? 12 * month : rows * 7 / 10,
              validation = ett ? 4 * month : rows / 10,
              test = ett ? 4 * month : rows - train - validation;
  if (ett && table.interval != std::chrono::hours(1)) {
    fail("--protocol", fmt::format("ett takes a row for each hour, not for every {} seconds",
                                   table.interval.count()));
  }
  if (train + validation + test > rows) {
    fail("--protocol",
         fmt::format("ett takes {} rows, and there are {}", train + validation + test, rows));
  }
  return {.train = {0, train},
          .validation = {train, train + validation},
          .test = {train + validation, train + validation + test}};
}

std::vector<Index> windows_of(const Part& part, const WindowSizes& sizes, const char* what) {
  const Index first = std::max(part.begin, sizes.look_back), last = part.end - sizes.horizon;
  if (first > last) {
    fail("forecast", fmt::format("{} has {} rows, but a window reads {} and forecasts {}", what,
                                 part.size(), sizes.look_back, sizes.horizon));
  }
  std::vector<Index> rows(static_cast<std::size_t>(last - first + 1));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

Windows windows_at(const Tensor& values, const WindowSizes& sizes, std::span<const Index> rows) {
  const Index columns = values.dim(1), batch = std::ssize(rows);
  const float* from = values.data<float>();
  const auto cut = [&](Index offset, Index steps) {
    Tensor x = Tensor::uninitialized({steps, batch, columns});
    float* to = x.mutable_data<float>();
    for (Index t = 0; t < steps; ++t) {
      for (const Index row : rows) {
        to = std::copy_n(from + (row + offset + t) * columns, columns, to);
      }
    }
    return x;
  };
  return {cut(-sizes.look_back, sizes.look_back), cut(0, sizes.horizon)};
}

}  // namespace attune::forecast
