#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <attune/models/report/log.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "program.hpp"
#include "support/output.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

/// An utterance of a list, aligned.
struct Aligned {
  Listed listed;
  std::vector<Timed> tokens;
};

std::string tsv_of(const Aligned& a) {
  std::string text;
  for (const Timed& one : a.tokens) {
    text += fmt::format("{}\t{:.3f}\t{:.3f}\t{}\t{:.4f}\n", a.listed.file.string(), one.begin,
                        one.end, one.token, one.probability);
  }
  return text;
}

std::string json_of(const Aligned& a) {
  return with_field(
             report::log_line({{"file", a.listed.file.string()}, {"seconds", a.tokens.back().end}}),
             "tokens", json_of(a.tokens)) +
         "\n";
}

/// As Praat has it in strings: quotes are doubled.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

/// Praat's long text format: one tier of intervals.
std::string textgrid_of(const Aligned& a) {
  std::string text = fmt::format(
      "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {0}\n"
      "tiers? <exists>\nsize = 1\nitem []:\n    item [1]:\n        class = \"IntervalTier\"\n"
      "        name = \"tokens\"\n        xmin = 0\n        xmax = {0}\n"
      "        intervals: size = {1}\n",
      a.tokens.back().end, a.tokens.size());
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    text += fmt::format(
        "        intervals [{}]:\n            xmin = {}\n            xmax = {}\n"
        "            text = {}\n",
        i + 1, a.tokens[i].begin, a.tokens[i].end, quoted(a.tokens[i].token));
  }
  return text;
}

Aligned align_one(const Model& model, const Listed& listed) {
  const Utterance utterance{.samples = samples_of(listed, model.rate()),
                            .tokens = tokens_of(model.codec(), listed),
                            .ends = {}};
  if (std::ranges::count(utterance.tokens, text::Vocabulary::unknown) > 0) {
    fail(listed.where, fmt::format("'{}' is not all in the model's vocabulary", listed.transcript));
  }
  return {listed, reading(listed.where, [&] { return align(model, utterance); })};
}

/// Each utterance in a file of its own.
void write_textgrids(const Model& model, const AlignArguments& options) {
  if (options.out.empty()) fail("--out", "a directory for the TextGrid files was expected");
  const std::vector<Listed> list = read_list(options.list);
  std::map<std::filesystem::path, const Listed*> files;
  for (const Listed& listed : list) {
    const auto file = options.out / listed.file.filename().replace_extension(".TextGrid");
    const auto [at, is_new] = files.emplace(file, &listed);
    if (!is_new) {
      fail(listed.where,
           fmt::format("{} would be written for {}, too", file.string(), at->second->where));
    }
  }
  make_directories(options.out);
  for (const auto& [file, listed] : files) write_file(file, textgrid_of(align_one(model, *listed)));
}

std::vector<std::filesystem::path> inputs_of(const AlignArguments& options) {
  std::vector<std::filesystem::path> inputs = {options.model, options.list};
  for (const Listed& listed : read_list(options.list)) inputs.push_back(listed.file);
  return inputs;
}

}  // namespace

int align(const AlignArguments& options) {
  if (!options.out.empty() && options.format != AlignFormat::textgrid)
    require_writable(options.out, inputs_of(options));
  const Model model = Model::load(options.model);
  if (model.recogniser().options().attends == Attends::no)
    fail(options.model.string(), "it does not attend: nothing says when a word was heard");
  if (options.format == AlignFormat::textgrid) {
    write_textgrids(model, options);
    return 0;
  }
  const bool tsv = options.format == AlignFormat::tsv;
  std::string text = tsv ? "file\tbegin\tend\ttoken\tprobability\n" : "";
  for (const Listed& listed : read_list(options.list)) {
    const Aligned aligned = align_one(model, listed);
    text += tsv ? tsv_of(aligned) : json_of(aligned);
  }
  if (options.out.empty()) {
    say("{}", text);
  } else {
    write_file(options.out, text);
  }
  return 0;
}

}  // namespace attune::speech
