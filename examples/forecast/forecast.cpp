#include "forecast.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/run_directory.hpp"

namespace attune::forecast {

// ---- Options

using Options = TrainOptions;
using models::choice_field, models::number_field;

Fields<Options> training_fields() {
  return joined<Options>(
      {{models::text_field<Options>(
            "csv", "file: a date in the first column, numbers in the others", &Options::csv),
        choice_field<Options, Protocol>(
            "protocol",
            "which rows to train, validate and test on: 70, 10 and 20 % (shares), or 12, 4 and 4 "
            "months of 30 days of hours (ett)",
            &Options::protocol, {{Protocol::shares, "shares"}, {Protocol::ett, "ett"}}),
        choice_field<Options, Loss>("loss", "what training minimises: squared or absolute errors",
                                    &Options::loss,
                                    {{Loss::squared, "squared"}, {Loss::absolute, "absolute"}})},
       step_fields<Options>("windows", "constant for half of the steps, then down to 2 % of it",
                            "order and dropout"),
       common_training_fields<Options>()});
}

Fields<Options> network_fields() {
  constexpr double largest = 1 << 16;
  Fields<Options> all = {
      choice_field<Options, Kind>(
          "model",
          "linear (NLinear), lstm (an encoder-decoder with attention, row by row) or segments (a "
          "GRU over segments, with attention)",
          &Options::kind,
          {{Kind::linear, "linear"}, {Kind::lstm, "lstm"}, {Kind::segments, "segments"}}),
      number_field<Options>("look-back", "rows to read", &Options::look_back, 1, largest),
      number_field<Options>("horizon", "rows to forecast", &Options::horizon, 1, largest),
      number_field<Options>("segment", "rows of a segment", &Options::segment, 1, largest),
      number_field<Options>("hidden", "size of states", &Options::hidden, 2, largest),
      number_field<Options>("dropout", "rate on annotations and outputs", &Options::dropout, 0,
                            0.99),
      choice_field<Options, bool>("attends", "whether the decoder over segments attends",
                                  &Options::attends, {{false, "no"}, {true, "yes"}})};
  for (auto& field : models::attention_fields<Options>())
    if (field.name != "longest") all.push_back(std::move(field));  // which the look-back says
  return all;
}

const Fields<Options>& all_fields() {
  static const auto all = joined<Options>({training_fields(), network_fields()});
  return all;
}

// ---- Data

namespace {

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == line.npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

/// 2016-07-01, 2016-07-01 05:00 or 2016-07-01 05:00:00, or with a T before the time.
std::optional<Time> parse_time(std::string text) {
  if (text.size() != 10 && text.size() != 16 && text.size() != 19) return {};
  if (text.size() > 10 && text[10] == 'T') text[10] = ' ';
  text += std::string_view("0000-00-00 00:00:00").substr(text.size());
  std::tm date{};
  if (!strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &date)) return {};
  const Time time{std::chrono::seconds(timegm(&date))};
  if (to_string(time) != text) return {};  // no such day, or digits left out
  return time;
}

std::vector<std::string> columns_of(text::LineReader& lines) {
  const auto header = lines.next();
  if (!header) lines.fail("a header was expected, but the file is empty");
  const std::vector<std::string_view> fields = fields_of(*header);
  if (fields.size() < 2)
    lines.fail(fmt::format("a header with commas was expected, not {}", in_quotes(*header)));
  if (parse_time(std::string(fields[0]))) lines.fail("a header was expected, not the first row");
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
    const std::optional<Time> time = parse_time(std::string(fields[0]));
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
        lines.fail(fmt::format("{}: a number was expected, not {}", in_quotes(table.columns[i - 1]),
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
  const auto list = [](const auto& names) {
    return in_quotes(fmt::format("{}", fmt::join(names, ", ")));
  };
  fail(path.string(), fmt::format("its columns are {}, but the model's are {}", list(table.columns),
                                  list(columns)));
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
  // In units of a power of two, near the column's largest number, no square overflows, and none that
  // counts underflows.
  const Tensor unit = map(max_forward(abs(values), 0).values, [](auto largest) {
                        return largest > 0 ? std::ldexp(1.0, std::ilogb(largest)) : 1.0;
                      }).reshape({-1});
  frames::Moments moments;
  moments.add(values / unit);
  frames::Scaling scaling = moments.scaling(DType::f64);
  const std::vector<double> deviation = scaling.deviation.to_vector<double>();
  for (std::size_t i = 0; i < deviation.size(); ++i)
    if (deviation[i] == 0)
      fail("forecast", in_quotes(columns[i]) + " is the same in all rows of training");
  scaling = {scaling.mean * unit, scaling.deviation * unit};
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

// ---- Model

namespace {

constexpr const char* checkpoint_format = "attune forecast 2";

/// The last row of each window: (1, B, C)
Tensor last_of(const Tensor& past) { return past.slice(past.dim(0) - 1, past.dim(0)); }

/// A score over so many places.
std::shared_ptr<const nn::Score> score(const nn::Scope& scope, const NetworkOptions& o,
                                       Index places) {
  nn::ScoreOptions options = o.score;
  options.longest = places;
  return nn::make_score(scope, o.hidden, o.hidden, options);
}

/// y = (x - x_L) W + b + x_L for each column by itself.
class Linear {
 public:
  Linear(const nn::Scope& scope, const NetworkOptions& o) {
    const double bound = 1 / std::sqrt(static_cast<double>(o.look_back));
    W_ = scope.add("W", {o.look_back, o.horizon}, nn::init::uniform(-bound, bound));
    b_ = scope.add("b", {o.horizon, 1}, nn::init::uniform(-bound, bound));
  }

  Var operator()(const Tensor& past, std::vector<Tensor>*) const {
    const Tensor last = last_of(past);
    const Var change = matmul(W_, (past - last).reshape({past.dim(0), -1}), {.a = true}) + b_;
    return reshape(change, {-1, past.dim(1), past.dim(2)}) + last;
  }

 private:
  Var W_;  // (L, H)
  Var b_;  // (H, 1)
};

/// An encoder reads all columns row by row; a decoder writes them row by row, and reads what it has
/// written:
///     c_i = a(s_{i-1}),   s_i = LSTM([y_{i-1}; c_i], s_{i-1}),   y_i = [s_i; c_i] W + b
class LstmAttention {
 public:
  LstmAttention(const nn::Scope& scope, const NetworkOptions& o, Index columns)
      : horizon_(o.horizon),
        encoder_(scope / "encoder", columns, o.hidden),
        attention_(score(scope / "attention", o, o.look_back), scope / "attention", o.hidden,
                   o.attention),
        decoder_(scope / "decoder", columns + o.hidden, o.hidden),
        output_(scope / "output", 2 * o.hidden, columns),
        dropout_(o.dropout) {}

  Var operator()(const Tensor& past, std::vector<Tensor>* weights) const {
    const auto [h, last] = encoder_(past);
    const nn::Memory memory =
        attention_.remember(dropout_(h), ones({past.dim(0), past.dim(1)}, past.dtype()));
    nn::RecurrentState s = last;
    nn::Past so_far;
    std::vector<Var> rows{past[past.dim(0) - 1]};
    for (Index i = 0; i < horizon_; ++i) {
      const auto [c, alpha] = attention_({s.h, so_far}, memory);
      s = decoder_.step(decoder_.input(concat({rows.back(), c}, -1)), s);
      so_far = attention_.next(so_far, alpha);
      rows.push_back(output_(concat({s.h, c}, -1)));
      if (weights) weights->push_back(nn::mean_of_heads(alpha).value());
    }
    rows.erase(rows.begin());
    return stack(rows);
  }

 private:
  Index horizon_;
  nn::Lstm encoder_;
  nn::Attention attention_;
  nn::Lstm decoder_;
  nn::Linear output_;
  nn::Dropout dropout_;
};

/// Each column by itself, after its last value is subtracted, in segments of w rows. An encoder
/// reads them; for each segment to come the decoder makes one step from the encoder's last state,
/// reading the numbers of that segment and of the column, and attends:
///     x_j = relu(segment_j W_x + b_x),   h_j = GRU(x_j, h_{j-1})
///     s_i = GRU([p_i; q_column], h_n),   c_i = a(s_i),   y_i = [s_i; c_i] W_y + b_y + last value
class Segments {
 public:
  Segments(const nn::Scope& scope, const NetworkOptions& o, Index columns)
      : o_(o),
        input_(scope / "input", o.segment, o.hidden),
        encoder_(scope / "encoder", o.hidden, o.hidden),
        p_(scope.add("p", {o.horizon / o.segment, o.hidden / 2}, nn::init::normal(1))),
        q_(scope.add("q", {columns, o.hidden - o.hidden / 2}, nn::init::normal(1))),
        decoder_(scope / "decoder", o.hidden, o.hidden),
        output_(scope / "output", (o.attends ? 2 : 1) * o.hidden, o.segment),
        dropout_(o.dropout) {
    if (!o.attends) return;
    const nn::Scope place = scope / "attention";
    attention_.emplace(score(place, o, o.look_back / o.segment), place, o.hidden, o.attention);
  }

  Var operator()(const Tensor& past, std::vector<Tensor>* weights) const {
    const Index batch = past.dim(1), columns = past.dim(2), n = batch * columns;
    const Tensor last = last_of(past);
    const Var x =
        relu(input_(nn::join_steps({(past - last).reshape({-1, n, 1}), {}}, o_.segment).x));
    const auto [h, end] = encoder_(x);
    std::optional<nn::Memory> memory;
    if (attention_) memory = attention_->remember(dropout_(h), ones({h.dim(0), n}, past.dtype()));
    nn::Past so_far;
    std::vector<Var> segments;
    const Var nothing = zeros({batch, columns, 1}, past.dtype());
    for (Index i = 0; i < p_.dim(0); ++i) {
      // [p_i; q_column], the same for every window
      const Var place = concat({zeros({columns, p_.dim(1)}, past.dtype()) + p_[i], q_}, -1);
      const Var share = reshape(nothing + decoder_.input(place), {n, -1});
      Var s = decoder_.step(share, {end.h}).h;
      if (memory) {
        const auto [c, alpha] = (*attention_)({s, so_far}, *memory);
        so_far = attention_->next(so_far, alpha);
        s = concat({s, c}, -1);
        if (weights) weights->push_back(nn::mean_of_heads(alpha).value());
      }
      segments.push_back(transpose(output_(dropout_(s)), 0, 1));  // (w, B · C)
    }
    return reshape(concat(segments, 0), {o_.horizon, batch, columns}) + last;
  }

 private:
  NetworkOptions o_;
  nn::Linear input_;
  nn::Gru encoder_;
  Var p_;  // (H / w, N / 2)
  Var q_;  // (C, N / 2)
  nn::Gru decoder_;
  nn::Linear output_;
  std::optional<nn::Attention> attention_;
  nn::Dropout dropout_;
};

/// A name of a column has no comma.
std::vector<std::string> columns_in(const Metadata& metadata) {
  std::istringstream names(nn::load_text(metadata, "columns"));
  std::vector<std::string> columns;
  for (std::string name; std::getline(names, name, ',');) columns.push_back(name);
  if (columns.empty()) fail("checkpoint", "'columns' names none");
  return columns;
}

}  // namespace

void check(const NetworkOptions& o) {
  if (o.kind != Kind::segments) return;
  if (o.look_back % o.segment == 0 && o.horizon % o.segment == 0) return;
  fail("--segment", fmt::format("{} does not divide both the look-back, {}, and the horizon, {}",
                                o.segment, o.look_back, o.horizon));
}

Network make_network(const nn::Scope& scope, const NetworkOptions& o, Index columns) {
  check(o);
  if (o.kind == Kind::linear) return Linear(scope, o);
  if (o.kind == Kind::lstm) return LstmAttention(scope, o, columns);
  return Segments(scope, o, columns);
}

Model::Model(const TrainOptions& o, std::vector<std::string> own_columns,
             frames::Scaling own_scaling, std::unique_ptr<nn::Parameters> own_parameters)
    : options(o),
      columns(std::move(own_columns)),
      scaling(std::move(own_scaling)),
      parameters(std::move(own_parameters)),
      network(make_network(*parameters, options, std::ssize(columns))) {}

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format, [](const Safetensors& file) {
    std::vector<std::string> columns = columns_in(file.metadata);
    const Shape shape{std::ssize(columns)};
    if (const Tensor* mean = file.find("scaling.mean"); mean && mean->shape() != shape)
      fail("checkpoint", fmt::format("'columns' names {}, but scaling.mean has {}", columns.size(),
                                     mean->size()));
    const Tensor* stored = file.find("scaling.deviation");
    const DType dtype = stored ? stored->dtype() : DType::f64;  // f32 in older files
    frames::Scaling scaling{zeros(shape, dtype), zeros(shape, dtype)};
    nn::load_tensors(file, frames::scaling_tensors(scaling));
    frames::check(scaling);
    Model model(options_from(all_fields(), file.metadata), std::move(columns), scaling,
                std::make_unique<nn::Parameters>(file));
    model.metadata = file.metadata;
    return model;
  });
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters, file);
  nn::save_tensors(frames::scaling_tensors(scaling), file);
  file.metadata.merge(to_metadata(all_fields(), options));
  file.metadata["format"] = checkpoint_format;
  file.metadata["columns"] = fmt::format("{}", fmt::join(columns, ","));
}

}  // namespace attune::forecast
