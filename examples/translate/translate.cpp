#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/replace_unknown.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/translate.hpp>

#include "commands.hpp"
#include "line_lengths.hpp"
#include "model.hpp"
#include "support/ensembles.hpp"
#include "support/output.hpp"
#include "support/standard_input.hpp"
#include "support/terminal.hpp"
#include "support/workers.hpp"

namespace attune::translate {
namespace {

/// The lines of a file, of a pipe or of standard input, as tokens with line breaks between them. Of several
/// workers the first one reads them for all.
class Input {
 public:
  Input(const std::string& file, const text::Tokenizer& tokenizer, Index longest)
      : tokenizer_(tokenizer),
        longest_(longest),
        is_file_(std::filesystem::is_regular_file(file)),
        reader_(is_file_ ? text::LineReader(std::filesystem::path(file))
                         : text::LineReader(standard_.stream(),
                                            file.empty() ? "standard input" : file)) {
    if (!is_file_ && !file.empty() && is_first_worker()) read_as_standard_input(file);
  }

  const std::string& name() const { return reader_.name(); }

  /// The next ones: so many, or fewer where the next one is not written yet; none at the end. A
  /// line that cannot be translated is an error after those before it were.
  Texts next(Index most) {
    return each_makes([&] { return is_first_worker() ? read(most) : Texts(); },
                      std::numeric_limits<double>::infinity());  // as long as nothing is typed
  }

 private:
  Texts read(Index most) {
    Texts lines;
    try {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      if (!is_file_) standard_.ask();
      while (std::ssize(lines) < most && (is_file_ || lines.empty() || standard_.line_waits())) {
        auto line = reader_.next();
        if (!line) break;
        const Texts tokens = tokenizer_.encode(*line);
        check_length(std::ssize(tokens), reader_.name(), reader_.number(), longest_);
        lines.push_back(fmt::format("{}", fmt::join(tokens, "\n")));
      }
    } catch (const Error& error) {
      if (lines.empty() && standard_.forgives(error, "translate")) return read(most);
      if (lines.empty()) throw;
      error_ = std::current_exception();
    }
    if (!is_file_ && lines.empty()) standard_.stop_asking();
    return lines;
  }

  const text::Tokenizer& tokenizer_;
  const Index longest_;  // in tokens
  const bool is_file_;
  StandardInput standard_;
  text::LineReader reader_;
  std::exception_ptr error_;
};

/// The log-probability by length^α: of the search without its coverage, or of what was drawn.
double score_of(const models::Hypothesis& h, const TranslateArguments& o) {
  if (!o.sample) return h.score;
  const double words = static_cast<double>(h.word_log_probabilities.size());  // </s> is one
  return h.log_probability / std::pow(words, o.search.length_penalty);
}

/// As in an n-best list of Moses; lines count from 0.
std::string moses_line(Index line, const std::string& text, const models::Hypothesis& h,
                       double score) {
  return fmt::format("{} ||| {} ||| LogProbability= {:.4f} Tokens= {} ||| {:.4f}\n", line, text,
                     h.log_probability, h.word_log_probabilities.size(), score);
}

/// What is written for these lines, the first of which has that number, from 0, and what is to be
/// said of them. `name` is that of the input.
template <models::WordModel M>
Texts translated(const M& model, const TranslateArguments& o, const Codecs& codecs,
                 std::span<const std::string> lines, Index first, const std::string& name) {
  std::vector<Texts> tokens;
  std::vector<text::Sentence> sentences;
  for (const std::string& line : lines) {
    std::istringstream in(line);
    tokens.emplace_back();
    for (std::string token; std::getline(in, token);) tokens.back().push_back(token);
    sentences.push_back(codecs.source.encode(tokens.back()));
  }
  models::TranslateOptions how{.sentences = o.batch, .first = first};
  models::SamplingOptions sampling = o.sampling;
  sampling.max_length = o.search.max_length;
  o.sample ? void(how.how = sampling) : void(how.how = o.search);
  const std::vector<models::Translation> translations = models::translate(model, sentences, how);
  std::string text, warnings;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const Index number = first + static_cast<Index>(i);
    if (!translations[i].front().complete) {
      warnings += fmt::format("warning: {}:{}: the translation is cut at --max-length {}\n", name,
                              number + 1, o.search.max_length);
    }
    if (o.search.best > 1 && number > 0 && !o.moses) text += '\n';
    for (const models::Hypothesis& h : translations[i]) {
      const std::string written =
          for_output(o.replace_unknown ? codecs.target.tokenizer.decode(models::replace_unknown(
                                             h, tokens[i], codecs.target.vocabulary))
                                       : codecs.target.decode(h.words));
      if (o.scores) text += fmt::format("{:.4f}\t", score_of(h, o));
      text += o.moses ? moses_line(number, written, h, score_of(h, o)) : written + "\n";
    }
  }
  return {text, warnings};
}

/// Each worker translates a part of the lines that are read at a time.
template <models::WordModel M>
void run(const M& model, const TranslateArguments& o, const Codecs& codecs, Index longest) {
  Input input(o.file, codecs.source.tokenizer, longest);
  const Index at_once = 20 * o.batch * workers().count();
  Index number = 0;
  for (auto lines = input.next(at_once); !lines.empty(); lines = input.next(at_once)) {
    const Index n = std::ssize(lines);
    const auto [begin, end] = workers().shards_of(workers().rank(), n);
    const std::span own = std::span(lines).subspan(static_cast<std::size_t>(begin),
                                                   static_cast<std::size_t>(end - begin));
    const Index first = number + begin;
    const Texts texts =
        each_makes([&] { return translated(model, o, codecs, own, first, input.name()); });
    for (std::size_t i = 0; i < texts.size(); i += 2)
      say("{}", texts[i]), complain("{}", texts[i + 1]);
    if (is_first_worker()) flush_output();
    number += n;
  }
}

}  // namespace

int translate(const TranslateArguments& given) {
  TranslateArguments o = given;
  o.search.beam = std::max(o.search.beam, o.search.best);
  const std::vector<Model> models = load_alike<Model>(o.models);
  const Index longest = longest_read(models, longest_source);
  with_network(std::span(models),
               [&](const auto& network) { run(network, o, models.front().codecs(), longest); });
  return 0;
}

}  // namespace attune::translate
