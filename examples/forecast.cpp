// Time series forecasting: from the last rows of a CSV file (the look-back), predicts the next rows
// (the horizon), separately for each column. Two models:
//   segments  a GRU encodes segments (days); a decoder predicts each segment of the horizon with
//             attention to them; based on SegRNN (Lin et al., 2023), which has no attention
//   linear    one matrix from look-back to horizon: NLinear (Zeng et al., 2023), the baseline
//
//     build/examples/forecast train FILE.csv      trains both; writes weights and a heat map
//     build/examples/forecast evaluate FILE.csv   errors and heat map with these weights
//     build/examples/forecast predict FILE.csv    the rows after the last one, as CSV
#include <charconv>
#include <cstring>
#include <ctime>
#include <numeric>

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <attune/attune.hpp>

#include "common.hpp"

using namespace attune;
using namespace std::chrono;
using std::string, std::vector;

// ---- CSV: a header, equidistant times in the first column, numbers in the others

using Time = sys_time<microseconds>;

/// 2016-07, 2016/7/1, 2016-07-01 05:00:00.25, 2016-07-01T05:00+02:00, ...; in UTC if it has a zone,
/// which sets `zone`.
std::optional<Time> parse_time(string text, string& zone) {
  for (char& c : text) c = c == '/' ? '-' : c == 'T' ? ' ' : c;
  if (text.find('-') != 4) return {};
  const char* rest = text.c_str();
  // The next number of at most two digits (four for the year) after `before`; nullopt without one.
  const auto number = [&](char before, int most = 2) -> std::optional<int> {
    if (before && *rest != before) return {};  // also at the end of the text
    const char* const first = rest + (before ? 1 : 0);
    int value = 0, digits = 0;
    for (; digits < most && std::isdigit(static_cast<unsigned char>(first[digits])); ++digits)
      value = 10 * value + (first[digits] - '0');
    if (digits == 0) return {};
    rest = first + digits;
    return value;
  };
  const int y = number(0, 4).value_or(0), m = number('-').value_or(0), d = number('-').value_or(1);
  const auto hour = number(' '), minute = hour ? number(':') : hour;
  const int second = minute ? number(':').value_or(0) : 0;
  double fraction = 0;
  if (*rest == '.') {
    const string digits(rest, 1 + std::strspn(rest + 1, "0123456789"));  // without an exponent
    fraction = strtod(digits.c_str(), nullptr), rest += digits.size();
  }
  minutes ahead(0);
  if (*rest == ' ' && rest[1]) ++rest;
  if (*rest == 'Z' || *rest == '+' || *rest == '-') zone = "Z";
  if (*rest == 'Z') ++rest;
  if (const char sign = *rest; sign == '+' || sign == '-') {
    ahead = hours(number(sign).value_or(99));
    ahead += minutes(number(*rest == ':' ? ':' : '\0').value_or(0));
    if (sign == '-') ahead = -ahead;
  }
  const year_month_day date(year(y), month(static_cast<unsigned>(m)),
                            day(static_cast<unsigned>(d)));
  if (*rest || !date.ok() || (hour && !minute) || hour.value_or(0) > 23 ||
      minute.value_or(0) > 59 || second > 60 || abs(ahead) > 24h)
    return {};
  return Time(sys_days(date)) + hours(hour.value_or(0)) + minutes(minute.value_or(0)) - ahead +
         seconds(second) + microseconds(std::llround(1e6 * fraction));
}

string to_string(Time time) {
  const auto whole = floor<seconds>(time);
  const string fraction = time == whole ? "" : fmt::format(".{:06}", (time - whole).count());
  return fmt::format("{:%F %T}", fmt::gmtime(whole.time_since_epoch().count())) + fraction;
}

struct Table {
  vector<string> columns;  // header; columns[0] is the time
  Time first = {};
  microseconds interval = {};  // if 28 days or more, `step` defines the times
  enum { months_from_day, ends_of_months, equidistant } step = months_from_day;
  Tensor values = {};  // (rows, C) f64
  string zone = {};    // "Z" if times were converted to UTC

  Time time(Index row) const {
    if (interval < days(28) || step == equidistant) return first + row * interval;
    const year_month_day date(floor<days>(first));
    const year_month month = date.year() / date.month() + row * round<months>(interval);
    const day end = (month / last).day();  // a month after 31 January is 28 February
    const day of_month = step == ends_of_months ? end : std::min(end, date.day());
    return sys_days(month / of_month) + (first - floor<days>(first));
  }

  /// True if `row` has the time `its`. Tries the values of `step` in order, and selects the first
  /// that also gives the times of all rows before.
  bool reaches(Index row, Time its) {
    if (time(row) == its) return true;
    Table other = *this;
    for (const auto next : {ends_of_months, equidistant}) {
      other.step = next;
      Index same = 0;
      while (same < row && other.time(same) == time(same)) ++same;
      if (same == row && other.time(row) == its) return step = next, true;
    }
    return false;
  }
};

/// The fields of a line (RFC 4180), without surrounding blanks. Quotes must end in the same line.
vector<string> fields_of(const string& line, char separator, const text::LineReader& lines) {
  vector<string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == separator && !quoted)
      fields.emplace_back();
    else if (line[i] != '"' || (quoted && i > 0 && line[i - 1] == '"'))  // "" is one quote
      fields.back() += line[i];
  }
  if (quoted) lines.fail("expected a closing quote");
  for (string& field : fields) {
    field.erase(field.find_last_not_of(" \t") + 1);
    field.erase(0, field.find_first_not_of(" \t"));
  }
  return fields;
}

/// The first comma, semicolon or TAB outside quotes in the header is the separator. Throws an Error
/// "FILE:LINE: expected ..., got ...".
Table read_table(const string& path) {
  text::LineReader lines{std::filesystem::path(path)};
  const auto refuse = [&](const string& expected, const string& field) {
    lines.fail("expected " + expected + ", got " + in_quotes(field));
  };
  const string header = lines.next().value_or("");
  std::size_t at = 0;
  for (bool quoted = false; at < header.size(); ++at) {
    quoted ^= header[at] == '"';
    if (!quoted && string(",;\t").find(header[at]) != string::npos) break;
  }
  const char separator = header[at];
  Table table{.columns = fields_of(header, separator, lines)};
  const Index width = std::ssize(table.columns);
  if (width < 2 || parse_time(table.columns[0], table.zone))
    refuse("a header of several columns", header);
  vector<double> values;
  for (Index row = 0; const auto line = lines.next();) {
    const vector<string> fields = fields_of(*line, separator, lines);
    if (fields == vector<string>{""}) continue;
    if (std::ssize(fields) != width) refuse(fmt::format("a row of {} fields", width), *line);
    const auto time = parse_time(fields[0], table.zone);
    if (!time) refuse("a time such as 2016-07-01 05:00:00", fields[0]);
    if (row == 0) table.first = *time;
    if (row == 1) table.interval = *time - table.first;
    if (row > 0 && (table.interval <= 0us || !table.reaches(row, *time)))
      refuse(table.interval <= 0us ? "a later time" : to_string(table.time(row)), fields[0]);
    for (Index i = 1; i < width; ++i) {
      string number = fields[i];
      if (separator != ',') std::ranges::replace(number, ',', '.');
      const char* const end = number.data() + number.size();
      const bool plus = number.starts_with('+') && !number.starts_with("+-");
      double& value = values.emplace_back(NAN);
      const auto [last, error] = std::from_chars(number.data() + plus, end, value);
      if (error != std::errc() || last != end || !std::isfinite(value))
        refuse("a number in column " + in_quotes(table.columns[i]), fields[i]);
    }
    ++row;
  }
  if (table.interval == 0us) lines.fail("expected at least two rows");
  table.values =
      Tensor::of({std::ssize(values) / (width - 1), width - 1}, std::span<const double>(values));
  return table;
}

// ---- Options and models

struct Options {
  Index look_back = 720, horizon = 96, segment = 24, hidden = 128, steps = 300;
  double dropout = 0.3, rate = 1e-3;
  string score = "additive";
  string weights = "forecast.safetensors";
  vector<Index> parts = {};
  std::uint64_t seed = 1;
};

models::OptionList fields_of(Options& o) {
  using models::option;
  vector<string> scores = {"none"};
  for (const nn::ScoreKind& kind : nn::score_kinds()) scores.emplace_back(kind.name);
  return {
      option("look-back", "number of rows to read, L", o.look_back, 2, 1 << 16),
      option("horizon", "number of rows to forecast, H", o.horizon, 1, 1 << 16),
      option("segment", "rows per segment, w", o.segment, 1, 1 << 16),
      option("hidden", "hidden size, N", o.hidden, 2, 1 << 16),
      models::choice("score", "attention score; none: no attention", o.score, scores),
      option("dropout", "dropout rate of annotations and outputs", o.dropout, 0, 0.99),
      option("steps", "number of updates; linear: 3 times as many", o.steps, 1, 1e9),
      option("rate", "learning rate of Adam; linear: 5 times this rate", o.rate, 1e-9, 2),
      option("parts", "training, validation, test rows (default: 70, 10, 20 %)", o.parts, 1, 1e9),
      option("seed", "random seed: initial weights, order, dropout", o.seed, 0, 0x1p64),
      option("weights", "file of the weights, written by train; its heat map: .svg", o.weights,
             "FILE")};
}

/// past (L, B, C) -> forecast (H, B, C); appends attention weights (S, B · C) per predicted segment
using Network = std::function<Var(const Tensor& past, vector<Tensor>* weights)>;

/// The last row, x_L: both models predict differences from it.
Tensor last_of(const Tensor& past) { return past.slice(past.dim(0) - 1, past.dim(0)); }

/// y = (x - x_L) W + b + x_L, where x are the last 336 rows
Network linear(const nn::Scope& scope, const Options& o) {
  const Index rows = std::min<Index>(o.look_back, 336);
  const auto uniform = nn::init::uniform(-1 / std::sqrt(rows), 1 / std::sqrt(rows));
  const nn::Linear map(scope, rows, o.horizon, {.weight_init = uniform, .bias_init = uniform});
  return [=](const Tensor& past, vector<Tensor>*) {
    const Tensor x = past.slice(past.dim(0) - rows, past.dim(0)) - last_of(past);
    return transpose(map(transpose(x, 0, 2)), 0, 2) + last_of(past);
  };
}

/// The encoder reads segments of w rows. For each segment i of the horizon, the decoder takes one
/// step from the encoder's final state; its input are embeddings of i and of the column:
///     x_j = relu(segment_j W_x + b_x),   h_j = GRU(x_j, h_{j-1})
///     s_i = GRU([p_i; q_column], h_n),   c_i = a(s_i, h),   y_i = [s_i; c_i] W_y + b_y + x_L
Network segments(const nn::Scope& scope, const Options& o, Index C) {
  const Index w = o.segment, N = o.hidden;
  if (o.look_back % w != 0 || o.horizon % w != 0)
    fail("--segment",
         fmt::format("{} must divide look-back {} and horizon {}", w, o.look_back, o.horizon));
  const nn::Linear input(scope / "input", w, N);
  const nn::Gru encoder(scope / "encoder", N, N), decoder(scope / "decoder", N, N);
  const Var p = scope.add("p", {o.horizon / w, N / 2}, nn::init::normal(1)),
            q = scope.add("q", {C, N - N / 2}, nn::init::normal(1));
  const nn::Linear output(scope / "output", o.score == "none" ? N : 2 * N, w);
  const nn::Dropout dropout(o.dropout);
  std::optional<nn::Attention> attention;
  const nn::Scope a = scope / "attention";
  const nn::ScoreOptions score{.kind = o.score, .attention = N / 2};
  if (o.score != "none")
    attention.emplace(nn::make_score(a, N, N, score), a, N, nn::AttentionOptions());
  return [=](const Tensor& past, vector<Tensor>* weights) {
    const Index B = past.dim(1);
    const Tensor change = (past - last_of(past)).reshape({-1, B * C, 1});
    const auto [h, end] = encoder(relu(input(nn::join_steps({change, {}}, w).x)));
    std::optional<nn::Memory> memory;
    if (attention) memory = attention->precompute(dropout(h), ones({h.dim(0), B * C}));
    vector<Var> y;
    for (Index i = 0; i < p.dim(0); ++i) {
      const Var p_q = concat({zeros({C, N / 2}) + p[i], q}, -1);
      const Var x = reshape(zeros({B, C, 1}) + decoder.input(p_q), {B * C, -1});
      Var s = decoder.step(x, {end.h}).h;
      if (memory) {
        const auto [c, alpha, next] = (*attention)({s, {.steps = i}}, *memory);
        if (weights) weights->push_back(nn::mean_of_heads(alpha).value());
        s = concat({s, c}, -1);
      }
      y.push_back(transpose(output(dropout(s)), 0, 1));  // (w, B · C)
    }
    return reshape(concat(y, 0), {-1, B, C}) + last_of(past);
  };
}

/// Values (n) as bars of eight heights from `low` to `high`: at most 64 bars, means of neighbours.
string bars(const Tensor& values, double low, double high) {
  const Index n = values.size(), count = std::min<Index>(n, 64);
  string line;
  for (Index i = 0; i < count; ++i) {
    const double x = mean(values.slice(i * n / count, (i + 1) * n / count)).item();
    const auto height = static_cast<std::size_t>(7.99 * (x - low) / std::max(high - low, 1e-300));
    line += string("▁▂▃▄▅▆▇█").substr(3 * height, 3);
  }
  return line;
}

// ---- The commands train, evaluate and predict

int run(int argc, char** argv) {
  Options o;
  const char* const usage =
      "usage: forecast train|evaluate|predict FILE.csv [--OPTION VALUE ...]; the first column has "
      "times, the others numbers; predict prints the next rows";
  const auto typed = examples::parse_command_line(argc, argv, usage, o);
  const string command = typed.size() == 2 ? typed[0] : "", weights = o.weights;
  const bool trains = command == "train";
  if (!trains && command != "evaluate" && command != "predict") throw Error(usage);
  const string picture = std::filesystem::path(weights).replace_extension(".svg").string();
  if (trains) examples::require_writable(weights, {typed[1]});
  if (command != "predict") examples::require_writable(picture, {typed[1], weights});
  Table table = read_table(typed[1]);
  const string columns = fmt::format("{}", fmt::join(table.columns, ", "));
  const Safetensors file = trains ? Safetensors() : load_safetensors(weights);
  if (!trains) examples::parse_for_model(argc, argv, o, weights, file.metadata, {"weights"});
  if (!trains && nn::load_text(file.metadata, "columns") != columns)
    fail(typed[1], "its columns differ from those of " + weights);
  const Index L = o.look_back, H = o.horizon, rows = table.values.dim(0), C = table.values.dim(1);
  nn::Parameters parameters = trains ? nn::Parameters(o.seed) : nn::Parameters(file);
  const Network network = segments(parameters, o, C), baseline = linear(parameters / "linear", o);
  for (const auto& [name, w] : parameters)
    if (const string bad = first_non_finite(w.value()); !bad.empty())
      fail(weights, name + " is not finite: " + bad);

  // Each column is scaled to mean 0 and standard deviation 1 over the training rows.
  if (!o.parts.empty() && o.parts.size() != 3) fail("--parts", "expected three numbers");
  if (o.parts.empty()) o.parts = {rows * 7 / 10, rows / 10, rows - rows * 7 / 10 - rows / 10};
  const Tensor seen = table.values.slice(0, std::min(rows, o.parts[0]));
  const double n = static_cast<double>(seen.dim(0));
  const Tensor centre = sum(seen / n, {0});
  const Tensor spread = norm(seen - centre, 0) / std::sqrt(n);
  // A constant column (up to the rounding error of its mean) is not scaled.
  const Tensor deviation = where(greater(spread, 1e-13 * abs(centre)), spread, 1);
  const nn::NamedTensors scaling{{"scaling.mean", centre}, {"scaling.deviation", deviation}};
  if (!trains) nn::load_tensors(file, scaling);
  const Tensor values = ((table.values - centre) / deviation).to(DType::f32);
  if (const string bad = first_non_finite(values); !bad.empty())
    fail(typed[1], "a value is too far from the mean of its column: " + bad);
  const auto snapshot = [&] {
    auto now = examples::checkpoint_of(parameters, models::to_map(o), "weights");
    now.metadata["columns"] = columns;
    nn::save_tensors(scaling, now);
    return now;
  };

  // windows (B): first rows to forecast. Rows windows + offset, ..., + steps - 1: (steps, B, C)
  const auto cut = [&](const Tensor& windows, double offset, Index steps) {
    const Tensor steps_on = (arange(steps, DType::f64) + offset).reshape({-1, 1});
    return gather(values, (windows + steps_on).to(DType::i32));
  };
  // All windows whose horizon lies in a part (0: training, 1: validation, 2: test).
  const auto windows_of = [&](std::size_t part) {
    const Index begin = std::reduce(&o.parts[0], &o.parts[part]), first = std::max(begin, L),
                n = std::clamp<Index>(rows - begin, 0, o.parts[part]), end = begin + n - H + 1;
    if (first >= end)
      fail(typed[1],
           fmt::format("{} {} rows, from row {} on, are too few for look-back {} and horizon {}", n,
                       vector{"training", "validation", "test"}[part], begin, L, H));
    return arange(end - first, DType::f64) + static_cast<double>(first);
  };
  const auto require_windows = [&] {  // in each part
    for (const std::size_t part : {0, 1, 2}) windows_of(part);
  };
  // Mean squared and mean absolute error of each row of the horizon: (2, H)
  const auto errors = [&](const Network& forecast, const Tensor& windows) {
    const NoGrad no_grad;
    const Index n = windows.size();
    Tensor sums = zeros({2, H}, DType::f64);
    for (Index i = 0; i < n; i += 256) {
      const Tensor some = windows.slice(i, std::min(n, i + 256));
      const Tensor error =
          (forecast(cut(some, -L, L), nullptr).value() - cut(some, 0, H)).to(DType::f64);
      sums = sums + stack(vector{sum(error * error, {1, 2}), sum(abs(error), {1, 2})});
    }
    return sums / static_cast<double>(n * C);
  };

  const auto train = [&](const string& name, const Network& forecast, Index steps, Index batch,
                         double rate, Var (*penalty)(const Var& error), bool saves) {
    const Tensor windows = windows_of(0), validation = windows_of(1);
    nn::Adam adam(parameters, {.rate = rate});
    const nn::LinearDecay schedule{
        .rate = rate, .last = rate / 50, .steps = steps, .after = steps / 2};
    examples::Progress progress(0, steps);
    double least = INFINITY;
    Safetensors best;
    Tensor order;
    for (Index step = 0, epoch = 0, n = windows.size(), next = n; step < steps;
         ++step, next += batch) {
      if (next >= n) {
        const auto numbers = shuffled(n, Random(o.seed, ++epoch));
        const vector<double> shuffled_numbers(numbers.begin(), numbers.end());
        order = Tensor::of({n}, std::span(shuffled_numbers)) + windows.at<double>({0}), next = 0;
      }
      const Tensor some = order.slice(next, std::min(next + batch, n));
      Random random(o.seed, "dropout " + std::to_string(step));
      std::optional<nn::Training> training(random);  // dropout is active
      const Var loss = mean(penalty(forecast(cut(some, -L, L), nullptr) - cut(some, 0, H)));
      Gradients gradients = backward(loss);
      training.reset();
      nn::clip_by_global_norm(gradients, 1.0);
      adam.set_rate(schedule(step));
      adam.step(gradients);
      string status = fmt::format("{}  loss {:.4f}", name, loss.item());
      const bool validates = (step + 1) % 100 == 0 || step + 1 == steps;
      if (validates) {
        const double mse = mean(errors(forecast, validation)[0]).item();
        status += fmt::format("  validation MSE {:.4f}", mse);
        if (mse < least) {
          least = mse, best = snapshot();
          if (saves) save_safetensors(weights, best);
        }
      }
      progress.show(step + 1, status, validates);
    }
    if (!std::isfinite(least)) fail(typed[1], name + ": the validation error is not finite");
    nn::load_parameters(best, parameters);
  };
  if (trains) {  // segments last: the file is written only with both
    if (const Index all = std::reduce(o.parts.begin(), o.parts.end()); all > rows)
      fail("--parts", fmt::format("{} rows in total, but {} has {}", all, typed[1], rows));
    require_windows();
    train("linear", baseline, 3 * o.steps, 32, 5 * o.rate, square, false);
    train("segments", network, o.steps, 64, o.rate, abs, true);
  }

  const NoGrad no_grad;
  const auto unscaled = [&](const Tensor& y) {  // (H, C) f64
    return y.reshape({H, C}).to(DType::f64) * deviation + centre;
  };
  if (command == "predict") {
    if (rows < L) fail(typed[1], fmt::format("has {} rows, expected the look-back {}", rows, L));
    const Tensor y = unscaled(network(cut(full({1}, rows, DType::f64), -L, L), nullptr).value());
    for (string& name : table.columns)
      for (std::size_t i = name.size(); i-- > 0;)
        if (name[i] == '"') name.insert(i, 1, '"');
    fmt::print("\"{}\"\n", printable(fmt::format("{}", fmt::join(table.columns, "\",\""))));
    for (Index row = 0; row < H; ++row) {
      fmt::print("{}{}", to_string(table.time(rows + row)), table.zone);
      for (Index c = 0; c < C; ++c) {  // more digits if the deviation is a small part of the number
        const double number = y.at<double>({row, c});
        const double part = std::max(1.0, std::abs(number) / deviation.at<double>({c}));
        fmt::print(",{:.{}g}", number, std::clamp(8 + static_cast<int>(std::log10(part)), 9, 17));
      }
      fmt::print("\n");
    }
    return 0;
  }
  const Tensor tests = windows_of(2);
  const Tensor of_segments = errors(network, tests), of_linear = errors(baseline, tests);
  fmt::print("{} windows\nrows ahead    segments: MSE   MAE    linear: MSE   MAE\n", tests.size());
  for (Index part = 0, parts = std::min<Index>(H, 6); part <= parts; ++part) {  // last: all rows
    const Index begin = part % parts * H / parts, end = part < parts ? (part + 1) * H / parts : H;
    const auto of = [&](const Tensor& errors) { return mean(errors.slice(begin, end)).item(); };
    fmt::print("{:>4} to {:>4} {:>15.3f} {:.3f} {:>14.3f} {:.3f}\n", begin + 1, end,
               of(of_segments[0]), of(of_segments[1]), of(of_linear[0]), of(of_linear[1]));
  }
  const Tensor last = tests.slice(tests.size() - 1, tests.size()), past = cut(last, -L, L);
  const vector<Tensor> series = {transpose(unscaled(cut(last, 0, H)), 0, 1),
                                 transpose(unscaled(network(past, nullptr).value()), 0, 1),
                                 transpose(unscaled(baseline(past, nullptr).value()), 0, 1)};
  fmt::print("\nThe last {} rows, and their forecasts\n", H);
  for (Index c = 0; c < std::min<Index>(C, 8); ++c) {
    const vector<double> all =
        concat(vector{series[0][c], series[1][c], series[2][c]}, 0).to_vector<double>();
    const auto [low, high] = std::ranges::minmax(all);
    fmt::print("{}: {:.4g} to {:.4g}\n", printable(table.columns[c + 1]), low, high);
    for (const std::size_t i : {0, 1, 2})
      fmt::print("  {:10}{}\n", vector{"true", "segments", "linear"}[i],
                 bars(series[i][c], low, high));
  }
  // Attention weights α: rows are predicted segments, columns input segments; mean over the columns
  // of up to 256 windows.
  vector<Tensor> alphas;
  network(cut(tests.slice(0, std::min<Index>(256, tests.size())), -L, L), &alphas);
  report::Heatmap map{.rows = {}, .columns = {}, .weights = {}, .caption = ""};
  for (const Tensor& alpha : alphas) {
    map.rows.push_back(fmt::format("+{}", (std::ssize(map.rows) + 1) * o.segment));
    std::ranges::copy(mean(alpha, {1}).to_vector<double>(), std::back_inserter(map.weights));
  }
  for (Index row = -L; row < 0; row += o.segment) map.columns.push_back(std::to_string(row));
  if (!alphas.empty()) {
    write_file(picture, report::svg(map, {.darkest = std::ranges::max(map.weights)}));
    fmt::print("attention heat map: {}\n", printable(picture));
  }
  if (trains)
    fmt::print("weights: {}\nTry it: {} predict {} --weights {}\n", printable(weights),
               examples::program_in_shell(), examples::in_shell(typed[1]),
               examples::in_shell(weights));
  return 0;
}

int main(int argc, char** argv) {
  return examples::run_program("forecast", [&] { return run(argc, argv); });
}
