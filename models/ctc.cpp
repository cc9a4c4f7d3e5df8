#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include <attune/autograd/ops.hpp>
#include <attune/models/ctc.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/ctc.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/shape_check.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::models {
namespace {

void check_symbols(const char* operation, Index kinds,
                   std::initializer_list<std::pair<const char*, std::int32_t>> symbols) {
  for (const auto& [name, symbol] : symbols)
    if (symbol < 0 || symbol >= kinds)
      fail(operation, "the {}, {}, is not in 0 to {}", name, symbol, kinds - 1);
}

/// Labels, and the log-probabilities of their paths: of those that end with a blank, of those that
/// end with the last label, and of all.
struct Prefix {
  text::Sentence labels;
  double blank, label, total;
};

/// Extends the prefixes by one frame with the log-probabilities log_p (V). Returns the best
/// prefixes, at most `most`, best first; ties are in the order of labels.
std::vector<Prefix> advance(const std::vector<Prefix>& before, std::span<const double> log_p,
                            std::int32_t blank, Index most) {
  struct Ends {
    double blank = log_zero, label = log_zero;
  };
  std::map<text::Sentence, Ends> next;
  for (const Prefix& prefix : before) {
    const std::int32_t last = prefix.labels.empty() ? blank : prefix.labels.back();
    Ends& same = next[prefix.labels];
    same.blank = log_add(same.blank, prefix.total + log_p[blank]);
    if (last != blank) same.label = log_add(same.label, prefix.label + log_p[last]);
    text::Sentence longer = prefix.labels;
    longer.push_back(0);
    for (std::int32_t v = 0; v < std::ssize(log_p); ++v) {
      // A repeated label extends the prefix only after a blank.
      const double from = v == last ? prefix.blank : prefix.total;
      if (v == blank || from + log_p[v] == log_zero) continue;
      longer.back() = v;
      Ends& extended = next[longer];
      extended.label = log_add(extended.label, from + log_p[v]);
    }
  }
  std::vector<Prefix> after;
  for (const auto& [labels, ends] : next) {
    const double total = log_add(ends.blank, ends.label);
    if (total != log_zero) after.push_back({labels, ends.blank, ends.label, total});
  }
  std::ranges::stable_sort(after, std::ranges::greater(), &Prefix::total);
  if (std::ssize(after) > most) after.resize(static_cast<std::size_t>(most));
  return after;
}

/// True if a logit of log_softmax's argument was NaN or inf. -inf is allowed.
bool has_nan(std::span<const double> log_p) {
  return std::ranges::any_of(log_p, [](double x) { return std::isnan(x); });
}

}  // namespace

std::vector<std::vector<CtcHypothesis>> ctc_search(const Tensor& logits, const Mask& mask,
                                                   const CtcSearchOptions& o) {
  ShapeCheck check("ctc");
  check("logits", logits, "T B V")("mask", mask, "T B");
  check_symbols("ctc", check['V'], {{"blank", o.blank}});
  if (o.best < 1 || o.best > o.beam)
    fail("ctc", "best = {} is not in 1 to beam = {}", o.best, o.beam);
  const Tensor log_p = log_softmax(logits.to(DType::f64), -1);
  const auto frames = lengths_of(mask);
  std::vector<std::vector<CtcHypothesis>> results(frames.size());
  const Index v = check['V'];
  parallel_for(std::ssize(frames), [&](Index b) {
    std::vector<Prefix> prefixes{{.labels = {}, .blank = 0, .label = log_zero, .total = 0}};
    for (Index t = 0; t < frames[b]; ++t) {
      const std::span row(log_p.data<double>() + (t * std::ssize(frames) + b) * v,
                          static_cast<std::size_t>(v));
      if (has_nan(row)) fail("ctc", "a logit is NaN or inf");
      prefixes = advance(prefixes, row, o.blank, o.beam);
      if (prefixes.empty()) fail("ctc", "all logits of step {} are -inf", t);
    }
    for (const Prefix& prefix : prefixes) {
      if (std::ssize(results[b]) < o.best) results[b].push_back({prefix.labels, prefix.total});
    }
  });
  return results;
}

// ---- Attention and CTC together

CtcPrefix::CtcPrefix(Tensor log_p, const JointCtcOptions& o)
    : log_p_(std::move(log_p)), options_(o), last_(o.begin), ends_blank_{0} {
  ShapeCheck check("CtcPrefix");
  check("log_p", log_p_, "S V");
  check_symbols("CtcPrefix", check['V'], {{"blank", o.blank}, {"begin", o.begin}, {"end", o.end}});
  if (has_nan({log_p_.data<double>(), static_cast<std::size_t>(log_p_.size())}))
    fail("CtcPrefix", "a log-probability is NaN");
  for (Index t = 0; t < log_p_.dim(0); ++t)
    ends_blank_.push_back(ends_blank_.back() + this->log_p(t, o.blank));
  ends_label_.assign(ends_blank_.size(), log_zero);
}

double CtcPrefix::log_p(Index t, std::int32_t v) const {
  return log_p_.data<double>()[t * log_p_.dim(1) + v];
}

double CtcPrefix::before(Index t, std::int32_t label) const {
  return label == last_ ? ends_blank_[t] : log_add(ends_blank_[t], ends_label_[t]);
}

CtcPrefix CtcPrefix::extended(Integer label) const {
  CtcPrefix longer = *this;
  if (label == options_.begin) return longer;
  if (label < 0 || label >= log_p_.dim(1))
    fail("CtcPrefix", "label {} is not one of the {} symbols, from 0", label, log_p_.dim(1));
  longer.last_ = label;
  longer.ends_blank_[0] = longer.ends_label_[0] = log_zero;
  for (Index t = 0; t < log_p_.dim(0); ++t) {
    const double blank = longer.ends_blank_[t], own = longer.ends_label_[t];
    longer.ends_label_[t + 1] = log_add(own, before(t, label)) + log_p(t, label);
    longer.ends_blank_[t + 1] = log_add(blank, own) + log_p(t, options_.blank);
  }
  return longer;
}

std::vector<double> CtcPrefix::next() const {
  const Index frames = log_p_.dim(0);
  const auto symbols = static_cast<std::int32_t>(log_p_.dim(1));
  std::vector<double> log_next(static_cast<std::size_t>(symbols), log_zero);
  for (Index t = 0; t < frames; ++t) {
    const double any = before(t, options_.begin), last = before(t, last_);
    for (std::int32_t v = 0; v < symbols; ++v)
      log_next[v] = log_add(log_next[v], (v == last_ ? last : any) + log_p(t, v));
  }
  log_next[options_.blank] = log_next[options_.begin] = log_zero;
  log_next[options_.end] = log_add(ends_blank_[frames], ends_label_[frames]);
  double total = log_zero;
  for (const double next : log_next) total = log_add(total, next);
  for (double& next : log_next) next = total == log_zero ? log_zero : next - total;
  return log_next;
}

JointCtc::JointCtc(Model decoder, const JointCtcOptions& options)
    : decoder_(std::move(decoder)), options_(options) {
  if (!(options.weight > 0 && options.weight <= 1)) fail("JointCtc", "the weight is not in (0, 1]");
}

JointCtc::State JointCtc::start(const CtcEncoded& source) const {
  ShapeCheck("JointCtc")("logits", source.logits, "T B V")("mask", source.mask, "T B");
  // (B, S, V), so that each sentence is a slice.
  const Tensor log_p = transpose(log_softmax(source.logits.to(DType::f64), -1), 0, 1);
  State state{decoder_.start(source.source), {}};
  for (const Index frames : lengths_of(source.mask))
    state.prefixes.emplace_back(log_p[std::ssize(state.prefixes)].slice(0, frames), options_);
  return state;
}

DecoderStep<Var, JointCtc::State> JointCtc::step(const Tensor& labels, const State& state) const {
  Model::Step own = decoder_.step(labels, state.own);
  const auto ids = labels.to_vector<std::int32_t>();
  State next{std::move(own.state), state.prefixes};
  std::vector<Tensor> rows(ids.size());  // CtcPrefix::next of each prefix
  parallel_for(std::ssize(ids), [&](Index row) {
    next.prefixes[row] = state.prefixes[row].extended(ids[row]);
    const std::vector<double> log_next = next.prefixes[row].next();
    rows[row] = Tensor::of<double>({std::ssize(log_next)}, log_next);
  });
  const Tensor ctc = stack(rows);
  if (options_.weight == 1) return {ctc, own.weights, std::move(next)};  // 0 · log 0 is NaN
  const Var attention = log_softmax(own.logits, -1);
  ShapeCheck("JointCtc")("attention's logits", attention, "B V")("CTC's", ctc, "B V");
  return {(1 - options_.weight) * attention + options_.weight * ctc.to(attention.dtype()),
          own.weights, std::move(next)};
}

JointCtc::State JointCtc::select(const State& state, const Tensor& rows) const {
  State selected{decoder_.select(state.own, rows), {}};
  for (const auto row : rows.to_vector<std::int32_t>())
    selected.prefixes.push_back(state.prefixes[static_cast<std::size_t>(row)]);
  return selected;
}

}  // namespace attune::models
