#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <set>
#include <utility>

#include <attune/tensor/file.hpp>
#include <attune/tensor/platform.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "letters.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "report.hpp"

namespace attune::pairs {
namespace {

/// Reads sources from a file, a pipe or standard input. The first worker reads them for all.
class Input {
 public:
  Input(const std::filesystem::path& file, const Model& model, Index longest)
      : model_(model),
        longest_(longest),
        is_typed_(file.empty() && platform::is_terminal(platform::Stream::input) &&
                  platform::is_terminal(platform::Stream::output)),
        stream_(stream_of(file)),
        reader_(stream_, file.empty() ? "standard input" : file.string()) {}

  std::string name() const { return reader_.name(); }
  /// The next lines: at most `most`, fewer if no more are available yet, none at the end. An
  /// invalid line throws once the lines before it were returned.
  Texts next(Index most) {
    return all_gather([&] { return is_first_worker() ? read(most) : Texts(); },
                      std::numeric_limits<double>::infinity());  // waits for input without limit
  }

 private:
  std::istream& stream_of(const std::filesystem::path& file) {
    if (file.empty()) {
      std::ios::sync_with_stdio(false);  // required for in_avail()
      return std::cin;
    }
    if (is_first_worker()) file_.open(file);
    if (!file_) fail(file.string(), "cannot be read: {}", std::strerror(errno));
    return file_;
  }

  /// True if reading does not block.
  bool more_waits() { return stream_.rdbuf()->in_avail() > 0; }

  Texts read(Index most) {
    Texts lines;
    try {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      if (is_typed_ && !more_waits()) complain("> ");
      while (std::ssize(lines) < most && (lines.empty() || more_waits())) {
        auto line = reader_.next();
        if (!line) break;
        lines.push_back(source_of(*line, model_, longest_,
                                  fmt::format("{}:{}", reader_.name(), reader_.number())));
      }
    } catch (const Error& error) {
      if (lines.empty() && !(is_typed_ && stream_)) throw;
      if (lines.empty()) {  // in a terminal, prompts for the next line
        complain("attune: {}\n", error.what());
        return read(most);
      }
      error_ = std::current_exception();
    }
    if (is_typed_ && lines.empty()) complain("\n");
    return lines;
  }

  const Model& model_;
  const Index longest_;  // in tokens
  const bool is_typed_;
  std::ifstream file_;
  std::istream& stream_;
  text::LineReader reader_;
  std::exception_ptr error_;
};

class Predictor {
 public:
  Predictor(const UseOptions& options, Models models)
      : o_(options),
        first_(models.front()),
        network_(network_of(models)),
        search_(search_for(models, options)) {}

  /// Returns two texts: the output for `sources`, and the warnings. `first`: index of the first
  /// source; `draws`: with heat maps; `place(i)`: name of source i in warnings.
  Texts answer(std::span<const std::string> sources, Index first, bool draws,
               const std::function<std::string(Index)>& place) {
    std::vector<Texts> tokens;
    std::vector<text::Sentence> sentences;
    for (const std::string& source : sources) {
      tokens.push_back(first_.source().tokenizer.encode(source));
      sentences.push_back(first_.source().encode(tokens.back()));
    }
    models::SearchOptions search = search_;
    if (o_.sample) search.sampling = o_.sampling;
    if (o_.replace_unknown) search.output_tokens = models::OutputTokens::unknown;
    search.weights = o_.json || o_.replace_unknown || draws || !o_.out.empty();
    models::TranslateOptions how{.how = search, .sentences = o_.batch, .first = first};
    if (search.best > 1) {
      how.text = [&](const models::Hypothesis& h, Index number) {
        return target_of(h, tokens[number - first]);
      };
    }
    const auto written = models::translate(network_, sentences, how);
    std::string text, warnings;
    Index number = first;
    for (std::size_t i = 0; i < written.size(); ++i, ++number) {
      if (!written[i].front().complete) {
        warnings += fmt::format("warning: {}: the prediction was truncated at --max-length {}\n",
                                place(number), search_.max_length);
      }
      // Files of sentences may have many unknown tokens: predict() counts those instead.
      if (!first_.of_sentences() || !o_.sources.empty()) warnings += unknown_tokens(tokens[i]);
      const models::Hypothesis& best = written[i].front();
      const report::Heatmap map = heatmap(tokens[i], tokens_of(first_, best), best);
      text += o_.json ? json(sources[i], tokens[i], written[i], map)
                      : lines(sources[i], tokens[i], written[i], number);
      if (!o_.out.empty() && !map.rows.empty()) {
        maps.push_back(map);
        maps.back().caption = isolated(sources[i]) + " → " + isolated(target_of(best, tokens[i]));
      }
      if (draws && !map.rows.empty())
        text += report::terminal(map, {.colour = obeys_escapes(), .width = drawing_width()}) + "\n";
    }
    return {text, warnings};
  }

  std::vector<report::Heatmap> maps;  // of the predictions, with --out

 private:
  std::string target_of(const models::Hypothesis& h, const Texts& tokens) const {
    const text::Codec& codec = first_.target();
    return o_.replace_unknown
               ? codec.tokenizer.decode(models::replace_unknown(h, tokens, codec.vocabulary))
               : codec.decode(h.words);
  }

  std::string lines(const std::string& source, const Texts& tokens,
                    const models::Translation& written, Index number) const {
    std::string text;
    if (search_.best > 1 && !o_.sample && o_.format == PredictFormat::text && number > 0)
      text += '\n';
    for (const models::Hypothesis& h : written) {
      const std::string target = for_output(target_of(h, tokens));
      if (o_.format == PredictFormat::text) {
        text += target + "\n";
      } else if (tokens.empty()) {
        return "\n";  // an empty line stays empty
      } else {
        // Four decimals or, if these are all 0, two significant digits: "0.9312", "3.1e-06".
        const double p = std::exp(h.log_probability);
        text += fmt::format("{}\t{}\t{}\n", for_output(source), target,
                            p < 5e-5 ? fmt::format("{:.2g}", p) : fmt::format("{:.4f}", p));
      }
    }
    return text;
  }

  std::string json(const std::string& source, const Texts& tokens,
                   const models::Translation& written, const report::Heatmap& map) const {
    report::Json best = report::Json::array();
    for (const models::Hypothesis& h : written) {
      if (tokens.empty()) break;
      best.push_back({{"target", target_of(h, tokens)},
                      {"probability", std::exp(h.log_probability)},
                      {"log_probability", h.log_probability},
                      {"score", h.score},
                      {"complete", h.complete}});
    }
    report::Json fields = {{"source", source}, {"best", best}};
    if (!map.rows.empty())
      fields.update({{"rows", map.rows}, {"columns", map.columns}, {"attention", rows_of(map)}});
    return report::json_line(fields) + "\n";
  }

  /// Warnings for unknown tokens, once for each.
  std::string unknown_tokens(const Texts& tokens) {
    std::string text;
    for (const std::string& token : tokens)
      if (first_.source().vocabulary.id(token) == text::Vocabulary::unknown &&
          warned_.insert(token).second)
        text += fmt::format("warning: {} was never seen in training and is read as <unk>\n",
                            in_quotes(text::escaped(token)));
    return text;
  }

  const UseOptions& o_;
  const Model& first_;
  const models::Model network_;
  const models::SearchOptions search_;
  std::set<std::string> warned_;
};

/// Predicts for each argument. An invalid argument prints an error and does not stop the others.
int predict_arguments(const UseOptions& o, Predictor& predictor, const Model& first, Index longest,
                      bool draws) {
  const auto place = [](Index number) { return fmt::format("argument {}", number + 1); };
  int status = 0;
  for (Index i = 0; i < std::ssize(o.sources); ++i) {
    try {
      const std::string source = source_of(o.sources[i], first, longest, place(i));
      if (source.empty()) fail(place(i), "is empty, expected a source");
      std::error_code none;
      if (std::filesystem::is_regular_file(o.sources[i], none))
        complain("warning: {} is the name of a file; --file predicts for its lines\n", place(i));
      const Texts texts = predictor.answer(std::span(&source, 1), i, draws, place);
      put(texts[0]), complain("{}", texts[1]);
    } catch (const Error& error) {
      complain("attune: {}\n", error.what());
      status = 1;
    }
  }
  return status;
}

}  // namespace

int predict(const UseOptions& o) {
  const std::string ending = text::folded_case(o.out.extension().string());
  if (!o.out.empty() && ending != ".html" && ending != ".svg")
    fail("--out", "unknown extension '{}', expected .html or .svg", ending);
  const auto files = model_files(o.models);
  require_output(o, files);
  const std::vector<Model> models = load_equal_models(files);
  if ((o.replace_unknown || o.heatmap || !o.out.empty()) &&
      std::ranges::none_of(models, &Model::attends))
    fail(o.replace_unknown ? "--replace-unknown"
         : o.heatmap       ? "--heatmap"
                           : "--out",
         "the model has no attention");
  const Model& first = models.front();
  const Index longest = longest_read(models, longest_source);
  Predictor predictor(o, models);
  const bool draws =
      o.heatmap || (!o.json && o.format == PredictFormat::columns && o.file.empty() &&
                    platform::is_terminal(platform::Stream::output) &&
                    (!o.sources.empty() || platform::is_terminal(platform::Stream::input)));
  const auto write_maps = [&] {
    if (!o.out.empty() && is_first_worker())
      write_file(o.out, drawings(predictor.maps, ending == ".html"));
  };
  if (!o.sources.empty()) {
    if (!o.file.empty()) fail("--file", "conflicts with sources given as arguments");
    const int status = predict_arguments(o, predictor, first, longest, draws);
    return write_maps(), status;
  }
  Input input(o.file, first, longest);
  const auto place = [&](Index n) { return fmt::format("{}:{}", input.name(), n + 1); };
  const Index at_once = 20 * o.batch * workers().count();
  UnknownTokens unknown;
  Index number = 0;
  for (auto lines = input.next(at_once); !lines.empty(); lines = input.next(at_once)) {
    if (first.of_sentences())
      for (const std::string& line : lines)
        unknown.add(first.source(), first.source().tokenizer.encode(line));
    const Index n = std::ssize(lines);
    auto [begin, end] = workers().shards_of(workers().rank(), n);
    if (!o.out.empty()) begin = 0, end = is_first_worker() ? n : 0;  // it writes the heat maps
    const auto own = std::span(lines).subspan(begin, end - begin);
    const Texts texts = all_gather(
        [&, first_own = number + begin] { return predictor.answer(own, first_own, draws, place); });
    for (std::size_t i = 0; i < texts.size(); i += 2) put(texts[i]), complain("{}", texts[i + 1]);
    if (is_first_worker()) flush_output();
    number += n;
  }
  if (first.of_sentences()) unknown.warn(input.name(), "source");
  return write_maps(), 0;
}

}  // namespace attune::pairs
