#include "compare.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/seq2seq_options.hpp>
#include <attune/nn/checkpoint.hpp>

#include "evaluation.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"

namespace attune::dates {
namespace {

/// A preset, and what is changed of it.
struct Variant {
  std::string name;
  const char* preset;
  std::vector<std::pair<const char*, const char*>> changes = {};  // of options, by name
  const char* note = "";  // what keeps it from doing as well as the others
};

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> all = {
      {"bahdanau", "bahdanau"},
      {"conditional", "conditional"},
      {"luong-dot", "luong", {{"score", "dot"}}},
      {"luong-general", "luong"},
      {"luong-concat", "luong", {{"score", "concat"}}},
      {"luong-local-m", "luong", {{"window", "local-m"}}},
      {"luong-local-p", "luong", {{"window", "local-p"}}},
      {"luong-cosine", "luong", {{"score", "cosine"}}},
      {"luong-scaled-dot", "luong", {{"score", "scaled-dot"}}},
      {"luong-multi-head", "luong", {{"score", "multi-head"}}},
      {"luong-location",
       "luong",
       {{"score", "location"}},
       "its score does not see the source; where to look is guessed from the decoder's state"},
      {"encoder-decoder", "encoder-decoder", {}, "no attention: one vector is every context"},
      {"sutskever", "sutskever", {}, "no attention: all passes through the decoder's first state"}};
  return all;
}

TrainOptions train_options(const Variant& variant, const CompareArguments& options) {
  TrainOptions o = with_steps(options.train);
  o.out /= variant.name;
  o.model = model_options(variant.preset);
  models::Seq2SeqOptions& network = o.model.network;
  network.embedding = options.embedding;
  network.hidden = network.score.attention = network.readout = options.hidden;
  network.attention.half_width = options.half_width;
  network.dropout = options.dropout;
  for (const auto& [name, value] : variant.changes) models::set(network, name, value);
  return o;
}

/// Trains what is not finished yet. Returns train's status.
int train_variant(TrainOptions options, const std::string& heading) {
  const std::filesystem::path last = options.out / "last.safetensors";
  options.resume = std::filesystem::exists(last);
  if (options.resume) {
    const TrainOptions stored = stored_options(last);
    check_same(stored, options, "--out");
    if (stored.steps != options.steps) {
      fail("--out", fmt::format("{} was trained for {} steps, not {}", last.string(), stored.steps,
                                options.steps));
    }
    const Index done =
        reading(last, [&] { return nn::load_count(load_safetensors(last).metadata, "step"); });
    if (done >= options.steps) return 0;
  }
  say("{}\n", heading);
  const int status = train(options);
  say("\n");
  return status;
}

using Line = std::vector<std::string>;
const Line header = {"variant",        "exact match", "characters",
                     "gold attention", "parameters",  "seconds"};

/// What the best weights of a run are worth.
Line measure(const std::string& name, const TrainOptions& options, std::span<const Row> rows) {
  const Model model = Model::load(options.out / "best.safetensors");
  const Evaluation e = evaluate(model, rows, 1, true);
  const std::filesystem::path last = options.out / "last.safetensors";
  const double seconds = reading(last, [&] { return seconds_in(load_safetensors(last).metadata); });
  return {name,
          fmt::format("{:.2f} %", 100 * e.exact_match),
          fmt::format("{:.2f} %", 100 * e.character_accuracy),
          e.gold_attention ? fmt::format("{:.2f}", *e.gold_attention) : "-",
          std::to_string(model.parameters().count()),
          fmt::format("{:.0f}", seconds)};
}

/// Aligned: names to the left, numbers to the right.
void print_table(const std::vector<Line>& lines, bool markdown) {
  std::vector<std::size_t> widths(header.size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string rule = "|---|";
  for (std::size_t i = 1; i < header.size(); ++i) rule += "---:|";
  for (const Line& line : lines) {
    std::string text = fmt::format("{:<{}}", line[0], widths[0]);
    for (std::size_t i = 1; i < line.size(); ++i)
      text += fmt::format("{}{:>{}}", markdown ? " | " : "  ", line[i], widths[i]);
    fmt::print("{}\n", markdown ? "| " + text + " |" : text);
    if (markdown && &line == &lines.front()) fmt::print("{}\n", rule);
  }
}

}  // namespace

std::vector<std::string> variant_names() { return names_of(all_variants()); }

std::span<const models::OptionField<CompareArguments>> compare_fields() {
  using Options = CompareArguments;
  constexpr double largest = 1 << 16;
  static const std::vector<models::OptionField<Options>> fields = {
      models::number_field<Options>("embedding", "size of a character's vector",
                                    &Options::embedding, 1, largest),
      models::number_field<Options>("hidden", "size of states, scores and readouts",
                                    &Options::hidden, 1, largest),
      models::number_field<Options>("half-width", "half width of a local window",
                                    &Options::half_width, 1, largest),
      models::number_field<Options>("dropout", "rate on embeddings, annotations and readouts",
                                    &Options::dropout, 0, 0.99)};
  return fields;
}

int compare(const CompareArguments& options) {
  std::vector<const Variant*> chosen;
  for (const std::string& name : options.variants)
    chosen.push_back(&variant_named(all_variants(), name));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::string heading = fmt::format("{} ({} of {})", chosen[i]->name, i + 1, chosen.size());
    if (int status = train_variant(train_options(*chosen[i], options), heading)) return status;
  }
  const Data data(options.train.data);
  std::vector<Line> table = {header};
  std::string notes =
      "\ngold attention: on the source's year, month and day while the target's are written\n";
  for (const Variant* one : chosen) {
    table.push_back(measure(one->name, train_options(*one, options), data.validation()));
    if (*one->note)
      notes += fmt::format("{}{}: {}\n", options.markdown ? "\n" : "", one->name, one->note);
  }
  print_table(table, options.markdown);
  fmt::print("{}", notes);
  return 0;
}

}  // namespace attune::dates
