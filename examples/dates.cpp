// Learns to convert dates to ISO 8601, "3 May 79" to 1979-05-03, and shows the attention weights of
// each output character. The model is that of D. Bahdanau, K. Cho and Y. Bengio, "Neural machine
// translation by jointly learning to align and translate" (2014); equation numbers are the paper's:
//
//   h_j  = [→h_j; ←h_j]                        annotation of character j, bidirectional (eq. 7)
//   e_ij = a(s_{i-1}, h_j)                     alignment score (below eq. 6)
//   α_ij = exp(e_ij) / Σ_k exp(e_ik)           attention weights, shown as heat maps (eq. 6)
//   c_i  = Σ_j α_ij h_j                        context (eq. 5)
//   s_i  = f(s_{i-1}, y_{i-1}, c_i)            decoder state (below eq. 4)
//   p(y_i | ...) = g(y_{i-1}, s_i, c_i)        distribution of the next character (eq. 4)
//
// models/papers.hpp implements them.
//
//     build/examples/dates                    trains; writes best.safetensors and report.html
//     build/examples/dates --steps 200        the same with fewer updates
//     build/examples/dates "3 May 79" ...     converts these dates with the trained weights
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include <attune/attune.hpp>
#include <attune/tensor/platform.hpp>

#include "common.hpp"

using namespace attune;
using std::chrono::sys_days;

constexpr const char* directory = "build/quickstart";
const std::string best_file = std::string(directory) + "/best.safetensors";
const std::string report_file = std::string(directory) + "/report.html";

using Example = text::TextPair;  // "Wed June 27 2001", "2001-06-27"

/// Date formats, with a letter for each field: Y 2001, y 01, M June, m Jun, N 06, n 6, D 04, d 4,
/// O 4th, W Wednesday, w Wed. With slashes, the month precedes the day.
constexpr std::array forms = {
    "Y-N-D",    "Y/N/D",         "N/D/Y", "n/d/Y",     "n/d/y",   "D.N.Y",     "d.n.Y",
    "D.N.y",    "d N y",         "d-m-Y", "M d, Y",    "m d, Y",  "M O, Y",    "M the O, Y",
    "O of M Y", "the O of M, Y", "d M Y", "D m Y",     "d M, Y",  "d m, Y",    "D, m Y",
    "d M y",    "d m y",         "m d y", "W, M d, Y", "W M d Y", "w, m d, Y", "W, d M Y"};
constexpr std::string_view letters = "YyMmNnDdOWw";
const std::array<std::string, 12> months = {"January",   "February", "March",    "April",
                                            "May",       "June",     "July",     "August",
                                            "September", "October",  "November", "December"};
const std::array<std::string, 7> weekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                             "Thursday", "Friday", "Saturday"};

std::string write(sys_days day, std::string_view form) {
  const std::chrono::year_month_day date(day);
  const int y = static_cast<int>(date.year());
  const unsigned m = static_cast<unsigned>(date.month()), d = static_cast<unsigned>(date.day());
  const std::string &month = months[m - 1],
                    &weekday = weekdays[std::chrono::weekday(day).c_encoding()];
  const auto two = [](unsigned n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  constexpr std::array endings = {"th", "st", "nd", "rd"};
  const std::array fields = {std::to_string(y),
                             two(y % 100),
                             month,
                             month.substr(0, 3),
                             two(m),
                             std::to_string(m),
                             two(d),
                             std::to_string(d),
                             std::to_string(d) + endings[d % 10 > 3 || d / 10 == 1 ? 0 : d % 10],
                             weekday,
                             weekday.substr(0, 3)};
  std::string text;
  for (const char c : form) {
    const std::size_t field = letters.find(c);
    text += field < letters.size() ? fields[field] : std::string(1, c);
  }
  return text;
}

/// A random date from 1970 to 2069, where two digits determine the year; with a year of four
/// digits, half of the dates are from 1000 to 2999. Every 16th day is held out.
Example draw(Random& random, bool held_out) {
  using namespace std::chrono;
  const std::string_view form = forms[random.below(forms.size())];
  const bool near = form.find('y') != form.npos || random.below(2) == 0;
  const sys_days first = near ? 1970y / January / 1 : 1000y / January / 1;
  const sys_days end = near ? 2070y / January / 1 : 3000y / January / 1;
  sys_days day;
  do {
    day = first + days(random.below((end - first).count()));
  } while ((day.time_since_epoch().count() % 16 == 0) != held_out);
  std::string source = write(day, form);
  if (random.below(3) == 0) std::erase(source, ',');
  const Index letter_case = random.below(3);  // as written, lower, upper
  if (letter_case > 0)
    std::ranges::transform(source, source.begin(), letter_case == 1 ? tolower : toupper);
  return {source, write(day, "Y-N-D")};
}

// ---- The model ----------------------------------------------------------------------------------

/// A character-level codec with this alphabet.
text::Codec characters(std::string_view all) {
  const text::Tokenizer tokenizer{text::Characters{}};
  return {tokenizer, text::Vocabulary(tokenizer.encode(all))};
}

/// Token ids of dates, and predictions.
struct Task {
  text::Codec source = characters(" ,-./0123456789ABCDEFGHIJLMNOPRSTUVWYabcdefghijlmnoprstuvwy");
  text::Codec target = characters("-0123456789");

  text::Pair encode(const Example& example) const {
    return {source.encode(example.source), target.encode(example.target)};
  }
  /// For each example, the hypotheses of a beam search, the best one first.
  auto write(const models::Model& model, const std::vector<Example>& examples) const {
    std::vector<text::Sentence> sources;
    for (const Example& example : examples) sources.push_back(source.encode(example.source));
    return models::translate(model, sources);
  }
  double exact_match(const models::Model& model, const std::vector<Example>& examples) const {
    const auto written = write(model, examples);
    double right = 0;
    for (std::size_t i = 0; i < examples.size(); ++i)
      right += target.decode(written[i].front().words) == examples[i].target;
    return right / static_cast<double>(examples.size());
  }
};

struct Dates : Task {
  models::BahdanauOptions options = {.source_vocabulary = source.vocabulary.size(),
                                     .target_vocabulary = target.vocabulary.size(),
                                     .embedding = 32,
                                     .hidden = 64,
                                     .readout = 64,
                                     .score = {.attention = 64}};
  nn::Parameters parameters{/*seed=*/1};
  models::Bahdanau model{parameters, options};

  /// `attune predict --model` can also read the file.
  void save() const { models::save(best_file, model, parameters, {source, target}); }
  /// Returns the checksum of the file.
  std::string load() {
    if (!std::filesystem::exists(best_file))
      throw Error(best_file + ": no such file; run dates without arguments to train the model");
    const Safetensors file = load_safetensors(best_file);
    nn::load_parameters(file, parameters);
    return file.checksum;
  }
};

// ---- Output -------------------------------------------------------------------------------------

/// Normalises blanks. Throws for a character that is not in the vocabulary.
Example typed(const std::string& text, const text::Codec& source) {
  const text::Tokenizer words;
  const std::string date = words.decode(words.encode(text));
  if (date.empty()) throw Error(in_quotes(text) + ": expected a date");
  for (const std::string& c : source.tokenizer.encode(date))
    if (source.vocabulary.id(c) == text::Vocabulary::unknown)
      throw Error(in_quotes(text) + ": " + in_quotes(c) + " does not occur in the training dates");
  return {date, ""};
}

/// Prints the prediction for each line, with α as a heat map: rows are output characters, columns
/// input characters. Returns the same as HTML. `warns`: of text that may not be a date.
std::string show(const Dates& dates, const std::vector<std::string>& lines, bool warns) {
  std::vector<Example> examples;
  for (const std::string& line : lines) examples.push_back(typed(line, dates.source));
  const auto written = dates.write(dates.model, examples);
  std::string page;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const models::Hypothesis& best = written[i].front();
    const std::string target = dates.target.decode(best.words);
    const std::string title = examples[i].source + " -> " + target;
    // Without the weights of </s>, the last token.
    report::Heatmap map{
        .rows = dates.target.tokenizer.encode(target),
        .columns = dates.source.tokenizer.encode(examples[i].source),
        .weights = best.weights.slice(0, std::ssize(best.words)).to_vector<double>(),
        .caption = ""};
    const double p = std::exp(best.log_probability);
    std::cout << fmt::format(
        "{}  (p = {:.4g})\n{}\n", title, p,
        report::terminal(map, {.colour = platform::is_terminal(platform::Stream::output)}));
    map.caption = examples[i].source + " → " + target;
    page += report::figure(map, fmt::format("probability {:.4g}", p));

    int y = 0, m = 0, d = 0;
    std::sscanf(target.c_str(), "%d-%d-%d", &y, &m, &d);
    if (warns &&
        (p < 0.5 || write(std::chrono::year(y) / m / d, "Y-N-D") != target))  // such as 31 April
      std::cerr << fmt::format("warning: {} may not be a date: {} has p = {:.4g}\n",
                               in_quotes(examples[i].source), target, p);
  }
  return page;
}

/// `log`: validations, which the page draws.
void save_report(const std::string& figures, double exact, const std::string& log) {
  write_file(  // atomic
      report_file,
      report::page("Dates, converted to ISO 8601",
                   fmt::format("<p>{:g} % of 2000 held-out dates are exactly right. Each row is an "
                               "output character, each column an input character.</p>\n"
                               "{}<div class=\"figures\">\n{}</div>\n<h2>Training</h2>\n<details>"
                               "<summary>Values</summary><pre class=\"log\">{}</pre></details>\n",
                               100 * exact, report::legend, figures, log)));
}

void train(Index steps) {
  Dates dates;
  nn::Adam adam(dates.parameters, {.rate = 4e-3});
  const nn::LinearDecay schedule{.rate = 4e-3, .last = 1e-4, .steps = steps, .after = steps / 2};
  Random random(/*seed=*/1), held_out(/*seed=*/2);
  std::vector<Example> validation(2000);
  for (Example& example : validation) example = draw(held_out, true);
  std::filesystem::create_directories(directory);
  remove_unfinished(directory);
  examples::require_writable(report_file);
  std::cout << dates.parameters.count() << " parameters, " << threads() << " threads\n";

  double best = -1;
  std::string log;
  const auto start = std::chrono::steady_clock::now();
  for (Index step = 1; step <= steps; ++step) {
    std::vector<text::Pair> pairs(64);
    for (text::Pair& pair : pairs) pair = dates.encode(draw(random, false));
    const Var loss = models::loss(dates.model, text::make_batch(pairs));  // -1/N Σ log p(y_i | ...)
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(schedule(step - 1));
    adam.step(gradients);

    if (step % 200 != 0 && step != steps) continue;
    const double exact = dates.exact_match(dates.model, validation);
    if (exact >= best) best = exact, dates.save();
    log += fmt::format("{{\"step\": {}, \"exact_match\": {}, \"loss\": {}}}\n", step, exact,
                       loss.item());
    const double left = examples::seconds_since(start) / step * (steps - step);
    std::cout << fmt::format("step {:4} of {}  loss {:.4f}  exact match {:6.2f} %", step, steps,
                             loss.item(), 100 * exact)
              << (step < steps ? fmt::format("  {:.0f} s left", left) : "") << std::endl;
  }
  const std::string checksum = dates.load();
  std::cout << "\nAttention weights (rows: output characters, columns: input characters)\n\n";
  save_report(show(dates, {"Wednesday June 27 2001", "16.01.75", "May the 4th, 2005"}, false), best,
              log);
  std::cout << best_file << ", " << report_file << "\nchecksum of the weights: " << checksum
            << " (matrix products: " << matmul_backends_used()
            << ")\nTry it: " << examples::program_in_shell() << " \"3 May 79\" \"05/03/2001\"\n";
}

struct Options {
  Index steps = 1200;
  std::vector<std::string> arguments = {};
};

models::OptionList fields_of(Options& o) {
  models::OptionList all = {models::option("steps", "number of updates", o.steps, 1, 1e9)};
  return models::only_with(all, {"steps"}, "training, which DATE replaces", o,
                           [](const Options& typed) { return typed.arguments.empty(); });
}

int main(int argc, char** argv) {
  return examples::run_program("dates", [&] {
    Options o;
    const auto dates = examples::parse_command_line(
        argc, argv, "usage: dates [--steps NUMBER] trains; dates DATE ... converts to ISO 8601", o);
    if (dates.empty()) return train(o.steps), 0;
    Dates trained;
    trained.load();
    show(trained, dates, true);
    return 0;
  });
}
