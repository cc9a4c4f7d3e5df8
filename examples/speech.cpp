// Speech recognition. The encoder is the listener of "Listen, attend and spell" (Chan et al., 2016)
// on log-mel features; the decoder attends to its annotations with the location-aware score of
// "Attention-based models for speech recognition" (Chorowski et al., 2015, equations 8 and 9);
// training and search add CTC ("Hybrid CTC/attention architecture", Watanabe et al., 2017):
//
//   h_1 .. h_S = listener(x_1 .. x_T)     annotations of a pyramidal BLSTM, S = T / 4
//   f_i  = F ∗ α_{i-1}                    convolution of the previous attention weights
//   e_ij = v_a · tanh(s_{i-1} W_a + h_j U_a + f_ij U_f + b_a),   α_i = softmax(e_i)
//   loss = -(1 - λ) log p_att(y | x) - λ log p_ctc(y | x)
//
//     build/examples/speech train TRAIN.tsv VALID.tsv     saves weights and a heat map of α
//     build/examples/speech evaluate LIST.tsv             token errors by length
//     build/examples/speech recognise FILE ...            transcribes each recording
#include <map>
#include <memory>
#include <numbers>

#include <fmt/format.h>
#include <kiss_fftr.h>
#include <sndfile.h>

#include <attune/attune.hpp>

#include "common.hpp"

using namespace attune;
using models::flag, models::option;

constexpr Index bands = 40;         // mel bands
constexpr Index frames_joined = 4;  // frames per annotation of the listener
constexpr Index batch_size = 32;    // utterances

struct Options {
  std::string model = "speech.safetensors";
  Index beam = 4, join = 1, steps = 2000, hidden = 128, hz = 8000;
  double rate = 2e-3, dropout = 0.2, ctc = 0.3;
  bool characters = false, bf16 = false;
  std::uint64_t seed = 1;
  std::vector<std::string> arguments = {};
  text::Tokenizer tokenizer() const {
    return characters ? text::Tokenizer(text::Characters{}) : text::Tokenizer(text::Words{});
  }
};

models::OptionList fields_of(Options& o) {
  models::OptionList all = {
      option("model", "file of the weights and options; train also writes FILE.svg", o.model,
             "FILE"),
      option("join", "train and evaluate on strings of up to this many recordings of a speaker",
             o.join, 1, 100),
      option("beam", "beam size", o.beam, 1, 100),
      option("ctc", "weight λ of CTC in training and search", o.ctc, 0.001, 0.999),
      option("steps", "number of updates, with 32 utterances each", o.steps, 1, 1e9),
      option("rate", "maximum learning rate", o.rate, 1e-9, 10),
      option("seed", "random seed: initial weights, order, augmentation", o.seed, 0, 0x1p64),
      option("hidden", "hidden size of decoder and encoder directions", o.hidden, 1, 65536),
      option("sampling-rate", "sampling rate of the features, in Hz", o.hz, 8000, 96000),
      flag("characters", "tokens are characters, not words", o.characters),
      flag("bf16", "train with matrix products in bf16, if that is faster", o.bf16)};
  models::only_with(all, {"join"}, "train or evaluate", o, [](const Options& typed) {
    return typed.arguments.empty() || typed.arguments[0] != "recognise";
  });
  return all;
}

// ---- Sound: a waveform is (samples), full scale 1 -----------------------------------------------

/// Resamples x to `ratio` times as many samples, by a sinc interpolation with a Hann window of 16
/// zero crossings on each side. Changes the sampling rate, or speed and pitch.
Tensor resampled(const Tensor& x, double ratio) {
  if (ratio == 1) return x;
  constexpr Index crossings = 16, points = 512;  // points: table entries between two crossings
  static const Tensor kernel = map(arange(crossings * points + 2, DType::f64), [](auto i) {
    const double t = std::numbers::pi * i / points;
    return i == 0 ? 1 : std::sin(t) / t * (0.5 + 0.5 * std::cos(t / crossings));
  });
  const double *k = kernel.data<double>(), cutoff = std::min(1.0, ratio);
  Tensor y = zeros({static_cast<Index>(ratio * x.dim(0))});
  const float* const from = x.data<float>();
  float* const to = y.mutable_data<float>();
  for (Index i = 0; i < y.dim(0); ++i) {
    const double at = i / ratio, first = at - crossings / cutoff, last = at + crossings / cutoff;
    double sum = 0;
    for (Index s = std::max(0.0, std::ceil(first)); s <= std::min(last, x.dim(0) - 1.0); ++s) {
      const double distance = std::abs(s - at) * cutoff * points;  // in table entries
      const auto n = static_cast<Index>(distance);
      sum += from[s] * (k[n] + (distance - n) * (k[n + 1] - k[n]));
    }
    to[i] = cutoff * sum;
  }
  return y;
}

/// Reads an audio file with libsndfile, averages its channels, and resamples to `rate` Hz. Errors
/// begin with the path, preceded by "FILE:LINE: " of `list`.
Tensor read_audio(const std::string& path, Index rate, const text::LineReader* list = nullptr) {
  SF_INFO info{};
  std::shared_ptr<SNDFILE> file(sf_open(path.c_str(), SFM_READ, &info), sf_close);
  const std::string where = list ? fmt::format("{}:{}: ", list->name(), list->number()) : "";
  const auto refuse = [&](const std::string& why) { fail(where + path, why); };
  if (!file) refuse(fmt::format("cannot be read as audio: {}", sf_strerror(nullptr)));
  if (info.samplerate < 1000)  // limits the growth by resampling; telephones have 8000 Hz
    refuse(fmt::format("sampling rate {} Hz, expected at least 1000", info.samplerate));
  // libsndfile reads truncated files and only logs "RIFF : 7130 (should be 1992)". The header of a
  // stream of unknown size has a size of 0, or of at least 0x7ffff000.
  std::string log(1 << 14, '\0');
  sf_command(file.get(), SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()) - 1);
  long long size = 0, is = 0;
  const std::size_t at = std::min(log.rfind(" : ", log.find(" (should be ")), log.size());
  const int numbers = std::sscanf(log.c_str() + at, " : %lld (should be %lld)", &size, &is);
  if (numbers == 2 && is + 8 < size && size < 0x7ffff000)
    refuse(fmt::format("truncated: {} of {} bytes", is, size));
  const std::string bytes = log.find("\ndata : 0\n") < log.size() ? read_file(path) : "";
  auto begin = static_cast<sf_count_t>(bytes.find(std::string("data\0\0\0\0", 8)) + 8);
  if (begin < std::ssize(bytes)) {  // size 0: reads all bytes after this field as samples
    info.format = SF_FORMAT_RAW | SF_ENDIAN_LITTLE | (info.format & SF_FORMAT_SUBMASK);
    file.reset(sf_open(path.c_str(), SFM_READ, &info), sf_close);
    sf_command(file.get(), SFC_SET_RAW_START_OFFSET, &begin, sizeof begin);
    info.frames = sf_seek(file.get(), 0, SEEK_SET);
  }
  std::vector<float> all, some(info.channels << 14);
  while (const sf_count_t n = sf_readf_float(file.get(), some.data(), 1 << 14))
    all.insert(all.end(), some.begin(), some.begin() + n * info.channels);
  const Index samples = std::ssize(all) / info.channels;
  if (sf_error(file.get()) || (info.frames > samples && info.frames < 1 << 28))
    refuse(fmt::format("truncated: {} of {} samples", samples, info.frames));
  if (samples == 0) refuse("contains no samples");
  const Tensor x = mean(Tensor::of({samples, info.channels}, std::span<const float>(all)), {1});
  if (!(sum_of_squares(x) < 1e12)) refuse("expected samples from -1 to 1");
  return resampled(x, static_cast<double>(rate) / info.samplerate);
}

/// Normalises the volume: the mean power of loud frames (at least the mean power of all) becomes
/// 0.01, independent of the microphone's distance and of silence.
Tensor levelled(const Tensor& x, Index rate) {
  const Index n = rate / 100, frames = (x.dim(0) + n - 1) / n;
  const Tensor power = mean(pad(x * x, 0, 0, frames * n - x.dim(0)).reshape({frames, n}), {1});
  const Tensor loud = greater_equal(power, mean(power).item());
  const double level = sum(power * loud).item() / sum(loud).item();
  return level > 0 ? x * std::sqrt(0.01 / level) : x;
}

/// Log-mel features, (samples) -> (T, bands): every 10 ms, the spectrum X of 25 ms of
/// x_i - 0.97 x_{i-1} with a Hann window, in triangular bands of mel(f) = 2595 log10(1 + f / 700):
///     (log(max(Σ_f |X(f)|² triangle_b(f), 1e-10)) + 5) / 4
/// For speech, the mean is about 0 and the standard deviation about 1.
Tensor log_mel(const Tensor& waveform, Index rate) {
  const int width = 2 * static_cast<int>(rate / 80), bins = width / 2 + 1;
  const Tensor x = levelled(pad(waveform, 0, 0, std::max<Index>(0, width - waveform.dim(0))), rate);
  const Tensor signal = (x - 0.97 * pad(x.slice(0, x.dim(0) - 1), 0, 1, 0)).reshape({-1, 1, 1});
  const Tensor hann = map(arange(width, DType::f32), [&](auto i) {
    return 0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / (width - 1));
  });
  const Tensor frames = hann * unfold(signal, {.width = width, .stride = rate / 100});
  Tensor power = zeros({frames.dim(0), bins});
  const std::shared_ptr<kiss_fftr_state> fft(kiss_fftr_alloc(width, 0, nullptr, nullptr), free);
  std::vector<kiss_fft_cpx> X(bins);
  for (Index t = 0; t < frames.dim(0); ++t) {
    const Tensor frame = frames[t];
    kiss_fftr(fft.get(), frame.data<float>(), X.data());
    float* const to = power.mutable_data<float>() + t * bins;
    for (Index f = 0; f < bins; ++f) to[f] = X[f].r * X[f].r + X[f].i * X[f].i;
  }
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(20), step = (mel(rate / 2.0) - low) / (bands + 1);
  const Tensor middle = map(arange(bins, DType::f32).reshape({-1, 1}), [&](auto bin) {
    return static_cast<float>((mel(1.0 * bin * rate / width) - low) / step - 1);  // in bands
  });
  const Tensor triangles = maximum(1 - abs(middle - arange(bands, DType::f32)), 0);
  return (log(maximum(matmul(power, triangles), 1e-10)) + 5) / 4;
}

struct Utterance {
  Tensor samples;
  std::string transcript, speaker;
};
using Utterances = std::vector<Utterance>;

/// Reads lines RECORDING TAB TRANSCRIPT [TAB SPEAKER]; paths are relative to the list.
Utterances read_list(const std::filesystem::path& tsv, Index rate) {
  Utterances all;
  text::LineReader lines(tsv);
  while (const auto line = lines.next()) {
    std::vector<std::string> columns(1);
    for (const char c : *line) c == '\t' ? columns.emplace_back() : columns.back() += c;
    if (columns.size() == 1 || columns[0].empty()) lines.fail("expected RECORDING TAB TRANSCRIPT");
    columns.resize(3);
    const std::string path = (tsv.parent_path() / columns[0]).string();
    all.push_back({read_audio(path, rate, &lines), columns[1], columns[2]});
  }
  if (all.empty()) fail(tsv.string(), "has no lines");
  return all;
}

/// Draws `count` utterances, each of 1 to `join` recordings of one speaker. If count is 0: all
/// recordings or, if join > 1, 30 utterances per number of recordings. Sorted by length.
Utterances draw(const Utterances& all, Index count, Index join, Random random) {
  Utterances drawn;
  if (count == 0) count = join == 1 ? std::ssize(all) : 30 * join;
  const std::vector<std::uint32_t> order = shuffled(all.size(), Random(random.bits()));
  for (Index i = 0; i < count; ++i) {
    Utterance& one = drawn.emplace_back(all[order[i % order.size()]]);
    std::vector<Tensor> parts = {one.samples};
    while (std::ssize(parts) < 1 + i % join) {
      const Utterance& next = all[random.below(std::ssize(all))];
      if (next.speaker != one.speaker) continue;
      parts.push_back(next.samples), one.transcript += " " + next.transcript;
    }
    one.samples = concat(parts, 0);
  }
  std::ranges::stable_sort(drawn, {}, [](const Utterance& one) { return one.samples.dim(0); });
  return drawn;
}

// ---- The model ----------------------------------------------------------------------------------

struct Speech {
  Options o;
  text::Codec codec;
  nn::Parameters parameters{o.seed};
  models::Listener listener{
      parameters / "listener",
      {.features = bands, .hidden = o.hidden, .join = {1, 2, 2}, .dropout = o.dropout}};
  models::BahdanauDecoder decoder{
      parameters,
      {.target_vocabulary = codec.vocabulary.size(),
       .embedding = 32,
       .hidden = o.hidden,
       .readout = 64,
       .cell = nn::Cell::lstm,
       .dropout = o.dropout},
      listener.sizes(),
      nn::Attention(nn::LocationAwareScore(parameters / "attention", o.hidden, 2 * o.hidden,
                                           {.attention = 64}))};
  nn::Linear ctc{parameters / "ctc", 2 * o.hidden, codec.vocabulary.size()};

  /// Features (T, bands) of several utterances, padded with zeros -> annotations (S, B, 2H)
  models::Encoded listen(const std::vector<Tensor>& x) const {
    std::vector<Index> T;
    for (const Tensor& one : x) T.push_back(one.dim(0));
    std::vector<Tensor> all;
    for (const Tensor& one : x) all.push_back(pad(one, 0, 0, std::ranges::max(T) - one.dim(0)));
    return listener(transpose(stack(all), 0, 1), mask_of(T));
  }

  /// -(1 - λ) log p_att(y | x) - λ log p_ctc(y | x), mean over tokens
  Var loss(const std::vector<Tensor>& x, const std::vector<text::Sentence>& y) const {
    const models::Encoded h = listen(x);
    const text::TargetBatch target = text::make_target_batch(y);
    const Index n = target.next.dim(0) - 1;  // without </s>, which CTC does not predict
    const Tensor labels = target.next.slice(0, n), mask = target.mask.slice(1, n + 1);
    const Var said = ctc_loss(ctc(h.h), h.mask, labels, mask, {.reduction = Reduction::sum});
    return (1 - o.ctc) * models::loss(decoder, h, target) +
           o.ctc / std::max(1.0, sum(mask).item()) * said;
  }

  /// The best hypothesis per utterance, with α; at most one token per annotation.
  std::vector<models::Hypothesis> recognise(std::span<const Utterance> some, Index beam) const {
    const NoGrad no_grad;
    const nn::Training no_dropout(nullptr);
    std::vector<Tensor> x;
    for (const Utterance& one : some) x.push_back(log_mel(one.samples, o.hz));
    const models::Encoded h = listen(x);
    const models::CtcEncoded both{h, ctc(h.h).value()};
    const models::JointCtc joint(decoder, {.weight = o.ctc});
    models::SearchOptions how{.beam = beam, .max_length = h.mask.dim(0), .within_source = true};
    std::vector<models::Hypothesis> best;
    for (const auto& found : models::search(joint, both, how)) best.push_back(found.front());
    return best;
  }
};

/// Token errors of all utterances. `prints`: prints them by transcript length.
metrics::Edits evaluate(const Speech& speech, const Utterances& all, Index beam, bool prints) {
  std::map<std::string, metrics::Edits> errors;
  for (Index begin = 0, n = 0; begin < std::ssize(all); begin += n) {
    n = std::min<Index>(batch_size, std::ssize(all) - begin);  // and at most 5 minutes of audio
    while (n > 1 && n * all[begin + n - 1].samples.dim(0) > 300 * speech.o.hz) n /= 2;
    const auto found = speech.recognise(std::span(all).subspan(begin, n), beam);
    for (Index i = 0; i < n; ++i) {
      const text::Sentence said = speech.codec.encode(all[begin + i].transcript);
      const metrics::Edits edits = metrics::edits(found[i].words, said);
      errors[fmt::format("{:>6}", said.size())] += edits, errors["   all"] += edits;
    }
  }
  if (prints) fmt::print("length   tokens  substitutions  deletions  insertions  token error\n");
  for (const auto& [length, e] : errors)
    if (prints)
      fmt::print("{} {:>8} {:>14} {:>10} {:>11} {:>10.2f} %\n", length, e.expected, e.substitutions,
                 e.deletions, e.insertions, 100 * e.rate());
  return errors["   all"];
}

/// Heat map of α: rows are tokens, columns annotations.
void draw_attention(const Speech& speech, const Utterance& utterance, const std::string& path) {
  const models::Hypothesis best = speech.recognise({&utterance, 1}, /*beam=*/4).front();
  report::Heatmap map;
  map.weights = best.weights.to_vector<double>();
  for (const auto token : best.words) map.rows.push_back(speech.codec.vocabulary.token(token));
  if (best.complete) map.rows.push_back("end");
  for (Index s = 0; s < best.weights.dim(1); ++s)
    map.columns.push_back(s % 5 == 0 ? fmt::format("{:.2f} s", s * frames_joined / 100.0) : "");
  write_file(path, report::svg(map, {.cell = 12}));
}

/// Augmentation: another speed, silence before and after, white noise 20 to 40 dB below the sound.
Tensor varied(const Tensor& x, Index rate, Random& random) {
  const auto silence = static_cast<Index>(0.1 * random.uniform() * rate);
  Tensor y = pad(resampled(x, random.uniform(0.85, 1.15)), 0, silence, silence);
  const double power = mean(y * y).item() * std::pow(10, -(20 + 20 * random.uniform()) / 10);
  for (float& sample : std::span(y.mutable_data<float>(), y.size()))
    sample += std::sqrt(power) * random.normal();
  return y;
}

/// Sets two random spans of rows to 0 (the mean), each of at most `widest` rows and 30 % of all,
/// and transposes. Twice (frames, then bands) it is SpecAugment (Park et al., 2019, section 2).
Tensor masked(Tensor x, Index widest, Random& random) {
  for (int i = 0; i < 2; ++i) {
    const Index width = random.below(std::min(widest, x.dim(0) * 3 / 10) + 1);
    const Index begin = random.below(x.dim(0) - width + 1);
    Tensor rows = x.slice(begin, begin + width);
    fill(rows, 0);
  }
  return transpose(x, 0, 1);
}

void train(Options o, const std::string& train_tsv, const std::string& valid_tsv) {
  examples::require_writable(o.model, {train_tsv, valid_tsv});
  examples::require_writable(o.model + ".svg", {train_tsv, valid_tsv});
  const Utterances all = read_list(train_tsv, o.hz);
  const Utterances held_out = draw(read_list(valid_tsv, o.hz), 0, o.join, Random(1));
  text::TokenCounts counts;
  for (const Utterance& one : all) text::count_tokens(counts, o.tokenizer().encode(one.transcript));
  Speech speech{o, {o.tokenizer(), text::make_vocabulary(counts)}};
  nn::Adam adam(speech.parameters);
  nn::MovingAverage average(speech.parameters, 0.998);
  const nn::WarmUp schedule{200, nn::LinearDecay{o.rate, o.rate / 50, o.steps, o.steps / 2}};
  Random random(o.seed);
  Utterances pool;  // for 16 batches, sorted by length
  double best = std::numeric_limits<double>::infinity();
  examples::Progress progress(0, o.steps);
  for (Index step = 0; step < o.steps; ++step) {
    if (step % 16 == 0) pool = draw(all, 16 * batch_size, o.join, Random(random.bits()));
    const auto batch = std::span(pool).subspan(batch_size * random.below(16), batch_size);
    std::vector<Tensor> x(batch_size);
    std::vector<text::Sentence> y(batch_size);
    parallel_for(batch_size, [&](Index i) {
      Random own(o.seed, fmt::format("utterance {}", step * batch_size + i));
      y[i] = speech.codec.encode(batch[i].transcript);
      const Tensor heard = log_mel(varied(batch[i].samples, o.hz, own), o.hz);
      // CTC needs one annotation per token, and one more between equal tokens.
      const Index missing = 2 * std::ssize(y[i]) * frames_joined - heard.dim(0);
      x[i] = masked(masked(pad(heard, 0, 0, std::max<Index>(0, missing)), 10, own), 8, own);
    });
    const nn::Training training(random);  // dropout is active
    const InPrecision precision(fastest_precision(o.bf16 ? Precision::bf16 : Precision::f32));
    const Var loss = speech.loss(x, y);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(schedule(step));
    adam.step(gradients);
    average.update();
    progress.show(step + 1, fmt::format("loss {:.3f}", loss.item()));
    if ((step + 1) % 200 != 0 && step + 1 != o.steps) continue;
    const nn::ScopedAverage averaged(average);
    const double error = evaluate(speech, held_out, /*beam=*/1, false).rate();
    if (error <= best) {
      best = error;
      auto file = examples::checkpoint_of(speech.parameters, models::to_map(o), "model");
      file.metadata["vocabulary"] = text::to_json(speech.codec.vocabulary);
      save_safetensors(o.model, file);
    }
    progress.show(step + 1, fmt::format("token error {:.2f} %", 100 * error), true);
  }
  nn::load_parameters(load_safetensors(o.model), speech.parameters);
  evaluate(speech, held_out, o.beam, true);
  draw_attention(speech, held_out[held_out.size() / 2], o.model + ".svg");
  fmt::print("{0}, {0}.svg\nTry it: {1} recognise FILE.wav --model {2}\n", printable(o.model),
             examples::program_in_shell(), examples::in_shell(o.model));
}

int main(int argc, char** argv) {
  return examples::run_program("speech", [&] {
    Options o;
    const std::string usage =
        "usage: speech train TRAIN.tsv VALID.tsv | evaluate LIST.tsv ... | recognise FILE ... "
        "[OPTIONS]; lines of a list: RECORDING TAB TRANSCRIPT [TAB SPEAKER], relative to the "
        "directory of the list";
    const auto typed = examples::parse_command_line(argc, argv, usage, o);
    if (typed.size() == 3 && typed[0] == "train") return train(o, typed[1], typed[2]), 0;
    const bool evaluates = !typed.empty() && typed[0] == "evaluate";
    if (typed.size() < 2 || !(evaluates || typed[0] == "recognise")) throw Error(usage);
    const Safetensors file = load_safetensors(o.model);
    if (!file.metadata.contains("sampling-rate")) fail(o.model, "is not a checkpoint of speech");
    Metadata trained = file.metadata;
    trained["join"] = "1";  // a list is evaluated as it is, unless --join is given
    examples::parse_for_model(argc, argv, o, std::string(o.model), trained,
                              {"model", "join", "beam", "ctc"});
    const std::string& vocabulary = nn::load_text(file.metadata, "vocabulary");
    Speech speech{o, {o.tokenizer(), text::vocabulary_from_json(vocabulary)}};
    nn::load_parameters(file, speech.parameters);
    for (const std::string& path : std::span(typed).subspan(1)) {
      if (evaluates) {
        evaluate(speech, draw(read_list(path, o.hz), 0, o.join, Random(1)), o.beam, true);
      } else {
        const auto found = speech.recognise(Utterances{{read_audio(path, o.hz), "", ""}}, o.beam);
        fmt::print("{}\t{}\n", printable(path), printable(speech.codec.decode(found[0].words)));
      }
    }
    return 0;
  });
}
