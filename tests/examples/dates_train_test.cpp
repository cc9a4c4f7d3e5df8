// `dates train`, run as a user runs it.
#include <limits>
#include <tuple>

#include <attune/tensor/products.hpp>

#include "dates/train.hpp"
#include "program.hpp"
#include "support/capture.hpp"

namespace attune::dates::test {
namespace {

/// Steps that take long enough to be interrupted, with many checkpoints on the way.
const Arguments long_run = {"--steps", "800", "--validate-every", "50"};

/// Trains and is sent a signal once a checkpoint was written.
ProcessResult interrupt(const std::string& out, const Arguments& arguments, int signal) {
  const auto has_checkpoint = [&] { return std::filesystem::exists(out + "/last.safetensors"); };
  return run(arguments, {.signal_when = has_checkpoint, .signal = signal});
}

/// The steps of the log with their losses; the steps must increase.
std::map<long, double> losses_of(const std::string& directory) {
  std::map<long, double> losses;
  long before = -1;
  for (const Json& line : log_of(directory)) {
    const long step = line.at("step");
    CHECK(step > before);
    before = step;
    if (step > 0) losses[step] = line.at("loss");
  }
  return losses;
}

/// A run that is killed after a checkpoint and resumed ends as one that was left alone.
void check_killed_and_resumed(const Arguments& more) {
  const Directory directory;
  const std::string whole = directory / "whole", killed = directory / "killed";
  output_of(train_tiny(whole, long_run + more));
  const Arguments arguments = train_tiny(killed, long_run + more);
  REQUIRE(interrupt(killed, arguments, SIGKILL).signal == SIGKILL);
  const long step = step_of(killed + "/last.safetensors");
  REQUIRE(step < 800);
  const std::string resumed = output_of(arguments + Arguments{"--resume"});
  CHECK(contains(resumed, fmt::format("resuming at step {} of 800\n", step)));
  check_same_tensors(whole + "/last.safetensors", killed + "/last.safetensors");
  check_same_tensors(whole + "/best.safetensors", killed + "/best.safetensors");
  CHECK(losses_of(whole) == losses_of(killed));
}

TEST_CASE("dates train: the same seed gives bit-identical weights, another one gives others") {
  const Directory directory;
  const std::string a = directory / "a", b = directory / "b", c = directory / "c";
  output_of(train_tiny(a, forty_steps));
  output_of(train_tiny(b, forty_steps));
  output_of(train_tiny(c, forty_steps + Arguments{"--seed", "2"}));
  check_same_tensors(a + "/best.safetensors", b + "/best.safetensors");
  check_same_tensors(a + "/last.safetensors", b + "/last.safetensors");
  const auto output = [](const std::string& out) {
    return load_safetensors(out + "/last.safetensors").find("output.W")->to_vector<float>();
  };
  CHECK(output(a) != output(c));
}

TEST_CASE("dates train: one thread and two give bit-identical weights") {
  const Directory directory;
  const std::string one = directory / "one", two = directory / "two";
  // Large enough for the work to be divided.
  const Arguments sizes = {"--hidden", "64", "--batch", "64", "--steps", "20", "--held-out", "300"};
  CHECK(contains(output_of(train(one, sizes + Arguments{"--threads", "1"})), " 1 thread,"));
  CHECK(contains(output_of(train(two, sizes + Arguments{"--threads", "2"})), " 2 threads,"));
  check_same_tensors(one + "/last.safetensors", two + "/last.safetensors");
}

TEST_CASE(
    "dates train: killed after a checkpoint and resumed, the weights, moments and losses are those "
    "of an uninterrupted run") {
  check_killed_and_resumed({});
}

TEST_CASE("dates train: killed and resumed with dropout, the weights are the same") {
  check_killed_and_resumed({"--dropout", "0.2"});
}

TEST_CASE("dates train: killed and resumed with LSTM cells, the weights are the same") {
  check_killed_and_resumed({"--encoder-cell", "lstm", "--decoder-cell", "lstm"});
}

TEST_CASE("dates train: killed and resumed across epochs of a file, the weights are the same") {
  const Directory directory;
  write(directory / "train.tsv", example_rows(70));  // an epoch ends within every fifth batch
  write(directory / "valid.tsv", example_rows(20));
  check_killed_and_resumed(
      {"--train", directory / "train.tsv", "--valid", directory / "valid.tsv"});
}

TEST_CASE("dates train: a signal saves the step it came to, has its status, and can be resumed") {
  const Directory directory;
  const std::string whole = directory / "whole";
  output_of(train_tiny(whole, long_run));
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    CAPTURE(signal);
    const std::string stopped = directory / std::to_string(signal);
    const Arguments arguments = train_tiny(stopped, long_run);
    const ProcessResult result = interrupt(stopped, arguments, signal);
    CHECK(result.status == 128 + signal);
    CHECK(result.err.empty());
    const long step = step_of(stopped + "/last.safetensors");
    REQUIRE(step < 800);
    CHECK(contains(result.out, fmt::format("stopped after {} steps", step)));
    CHECK(contains(output_of(arguments + Arguments{"--resume"}), "finished after 800 steps"));
    check_same_tensors(whole + "/last.safetensors", stopped + "/last.safetensors");
    CHECK(learnt_in(whole) == learnt_in(stopped));
  }
}

TEST_CASE("dates train: a signal ends a validation, which then was none") {
  const Directory directory;
  const std::string out = directory / "out";
  const auto begun = [&] { return std::filesystem::exists(out + "/log.jsonl"); };
  // Nearly all dates: the validation before the first step takes seconds.
  const ProcessResult result =
      run(train(out, {"--held-out", "36000"}), {.signal_when = begun, .signal = SIGTERM});
  CHECK(result.status == 143);
  CHECK(contains(result.out, "stopped after 0 steps, "));
  CHECK(read(out + "/log.jsonl").empty());
  CHECK(load_safetensors(out + "/last.safetensors").metadata.at("validated") == "0");
}

TEST_CASE("dates train: signals between and within many validations, the weights are the same") {
  const Directory directory;
  const std::string whole = directory / "whole", stopped = directory / "stopped";
  const Arguments arguments = {"--steps", "30", "--validate-every", "1", "--held-out", "1500"};
  const auto small = [&](const std::string& out) {
    return train(out, arguments + Arguments{"--hidden", "16", "--embedding", "8", "--batch", "8"});
  };
  output_of(small(whole));
  ProcessResult result;
  int lives = 0;
  do {
    const std::string last = stopped + "/last.safetensors";
    const auto before = std::filesystem::exists(last) ? read(last) : "";
    const auto saved = [&] { return std::filesystem::exists(last) && read(last) != before; };
    result = run(small(stopped) + Arguments{"--resume"}, {.signal_when = saved, .signal = SIGTERM});
    ++lives;
  } while (result.status == 143 && lives < 100);
  CHECK(result.status == 0);
  CHECK(lives > 5);
  check_same_tensors(whole + "/last.safetensors", stopped + "/last.safetensors");
  check_same_tensors(whole + "/best.safetensors", stopped + "/best.safetensors");
  CHECK(learnt_in(whole) == learnt_in(stopped));
}

TEST_CASE("dates train: a signal that it was told to ignore does not end it") {
  const Directory directory;
  const std::string last = directory / "last.safetensors";
  const Arguments arguments =
      Arguments{"sh", "-c", "trap '' HUP; exec \"$@\"", "sh", ATTUNE_DATES} +
      train_tiny(directory.path(), long_run);
  CHECK(run_process(arguments, {.signal_when = [&] { return std::filesystem::exists(last); },
                                .signal = SIGHUP})
            .status == 0);
}

TEST_CASE("dates train: nobody who reads the output ends it as a signal does") {
  const Directory directory;
  const ProcessResult result = run_process(
      Arguments{"sh", "-c", "(\"$@\"; echo $? >&2) | head -n 1 >/dev/null", "sh", ATTUNE_DATES} +
      train_tiny(directory.path(), {"--steps", "100000", "--validate-every", "20"}));
  CHECK(result.err == "141\n");
  CHECK(step_of(directory / "last.safetensors") > 0);
}

TEST_CASE("dates train: a log that cannot be written ends it after the checkpoint of that step") {
  // With a validation at 45; with a line at 50 that has none.
  for (int step : {45, 50}) {
    CAPTURE(step);
    const char* const every = step == 45 ? "5" : "40";
    const Directory directory;
    const std::string whole = directory / "whole", full = directory / "full",
                      log = full + "/log.jsonl";
    output_of(train_tiny(full, {"--steps", "40", "--validate-every", every}));
    // As long as a file may be, and longer than a checkpoint.
    write(log, read(log) + fmt::format("{{\"step\": 0, \"note\": \"{}\"}}\n",
                                       std::string(std::size_t{1} << 22, '-')));
    std::filesystem::copy(full, whole);
    output_of(train(whole, {"--resume", "--steps", "60"}));
    const ProcessResult result = run_process(
        Arguments{"prlimit", fmt::format("--fsize={}", read(log).size()), ATTUNE_DATES} +
        train(full, {"--resume", "--steps", "60"}));
    CHECK(error_line(result) == "dates: " + log + ": cannot write the log: File too large");
    CHECK(step_of(full + "/last.safetensors") == step);
    output_of(train(full, {"--resume"}));
    check_same_tensors(whole + "/last.safetensors", full + "/last.safetensors");
    check_same_tensors(whole + "/best.safetensors", full + "/best.safetensors");
    CHECK(learnt_in(full) == learnt_in(whole));
  }
}

TEST_CASE("dates train: --resume with nothing to resume starts and says so") {
  const Directory directory;
  const std::string a = directory / "a", b = directory / "b";
  output_of(train_tiny(a, forty_steps));
  const std::string out = output_of(train_tiny(b, forty_steps + Arguments{"--resume"}));
  CHECK(contains(out, fmt::format("nothing to resume in {}: starting anew\n", b)));
  check_same_tensors(a + "/last.safetensors", b + "/last.safetensors");
}

TEST_CASE("dates train: --resume of a finished run succeeds and changes no file") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps));
  const auto before = contents_of(directory.path());
  const std::string out = output_of(train(directory.path(), {"--resume"}));
  CHECK(contains(out, "finished after 40 steps"));
  CHECK(contents_of(directory.path()) == before);
}

TEST_CASE("dates train: --resume takes options that are not repeated from the checkpoint") {
  const Directory directory;
  const std::string whole = directory / "whole", parts = directory / "parts";
  const Arguments special = {
      "--rate",         "0.004", "--clip",    "0.5", "--encoder-cell", "lstm", "--seed", "7",
      "--readout-kind", "tanh",  "--locales", "fr",  "--dropout",      "0.1"};
  output_of(train_tiny(whole, long_run + special));
  REQUIRE(interrupt(parts, train_tiny(parts, long_run + special), SIGKILL).signal == SIGKILL);
  CHECK(contains(output_of(train(parts, {"--resume"})), "of 800\n"));
  check_same_tensors(whole + "/last.safetensors", parts + "/last.safetensors");
  auto before = load_safetensors(whole + "/last.safetensors").metadata;
  auto after = load_safetensors(parts + "/last.safetensors").metadata;
  before.erase("seconds"), after.erase("seconds");
  CHECK(before == after);
}

TEST_CASE("dates train: --resume with another value of an option is refused and names the option") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps));
  const auto before = contents_of(directory.path());
  const std::vector<std::tuple<std::string, std::string, std::string>> changes = {
      {"--hidden", "17", "hidden = '16'"},
      {"--seed", "2", "seed = '1'"},
      {"--decoder-cell", "lstm", "decoder-cell = 'gru'"},
      {"--batch", "8", "batch = '16'"},
      {"--locales", "de", "locales = 'en'"},
      {"--model", "luong", "model = 'bahdanau'"},
      {"--score", "dot", "score = 'additive'"},
      {"--dropout", "0.5", "dropout = '0'"}};
  for (const auto& [option, value, stored] : changes) {
    CAPTURE_BINDING(option);
    const std::string line = error_of(train(directory.path(), {"--resume", option, value}));
    CHECK(contains(line, "--resume"));
    CHECK(contains(line, directory / "last.safetensors"));
    CHECK(contains(line, stored));
    CHECK(contains(line, fmt::format("not '{}'", value)));
  }
  CHECK(contents_of(directory.path()) == before);
}

TEST_CASE("dates train: --resume of a checkpoint in which options have the older hyphen") {
  const Directory directory;
  const std::string last = directory / "last.safetensors";
  output_of(train_tiny(directory.path(), forty_steps));
  Safetensors file = load_safetensors(last);
  for (auto [name, older] :
       {std::pair{"validate-every", "validate_every"}, {"held-out", "held_out"}}) {
    file.metadata[older] = file.metadata.at(name);
    file.metadata.erase(name);
  }
  save_safetensors(last, file);
  output_of(train(directory.path(), {"--resume", "--steps", "41"}));
  const auto metadata = load_safetensors(last).metadata;
  CHECK(metadata.at("validate-every") == "20");
  CHECK(metadata.at("held-out") == "50");
}

TEST_CASE("dates train: --resume says where another engine made the products until now") {
  const Directory directory;
  const std::string last = directory / "last.safetensors";
  output_of(train_tiny(directory.path(), forty_steps));
  Safetensors file = load_safetensors(last);
  CHECK(file.metadata.at("products") == products());
  file.metadata["products"] = "an abacus";
  save_safetensors(last, file);
  const auto errors = [&](const char* steps) {
    return run(train(directory.path(), {"--resume", "--steps", steps})).err;
  };
  CHECK(errors("40") == "");  // nothing is left to make
  CHECK(contains(errors("41"), "the products were made by an abacus until now"));
}

TEST_CASE("dates train: --resume on examples with other characters is refused") {
  const Directory directory;
  const std::string rows = directory / "rows.tsv", out = directory / "out";
  write(rows, example_rows(60));
  output_of(train_tiny(out, forty_steps + Arguments{"--train", rows}));
  std::string others = example_rows(60);
  std::ranges::replace(others, 'J', 'Q');  // of as many kinds
  write(rows, others);
  CHECK(error_of(train(out, {"--resume"})) ==
        "dates: " + out +
            "/last.safetensors: checkpoint: its source_vocabulary is not that of "
            "the examples");
}

TEST_CASE("dates train: --resume with more steps goes further, and the log goes on") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps));
  const std::string earlier_log = read(directory / "log.jsonl");
  const std::string out = output_of(train(directory.path(), {"--resume", "--steps", "70"}));
  CHECK(contains(out, "resuming at step 40 of 70\n"));
  CHECK(step_of(directory / "last.safetensors") == 70);
  CHECK(read(directory / "log.jsonl").starts_with(earlier_log));
  const auto losses = losses_of(directory.path());
  CHECK(losses.contains(60));
  CHECK(losses.rbegin()->first == 70);
  CHECK(contains(output_of(train(directory.path(), {"--resume", "--steps", "5"})),
                 "it is beyond the 5 steps that are asked for already\nfinished after 70 steps"));
}

TEST_CASE("dates train: --resume drops a line of the log that was cut short") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps));
  write(directory / "log.jsonl", read(directory / "log.jsonl") + R"({"step": 50, "lo)");
  output_of(train(directory.path(), {"--resume", "--steps", "60"}));
  const auto losses = losses_of(directory.path());
  CHECK(losses.size() == 4);  // 20, 40, 50, 60
  CHECK(losses.contains(50));
}

TEST_CASE("dates train: the log has an object per line, with accuracies where it validated") {
  const Directory directory;
  output_of(train_tiny(directory.path(), {"--steps", "130", "--validate-every", "60"}));
  std::vector<long> steps;
  for (const Json& line : log_of(directory.path())) {
    CAPTURE(line.dump());
    REQUIRE(line.is_object());
    const long step = line.at("step");
    steps.push_back(step);
    CHECK(line.contains("loss") == (step > 0));
    if (step > 0) CHECK(line.at("loss").get<double>() > 0);
    CHECK(line.at("rss_mib").get<double>() > 1);
    CHECK(line.at("seconds").get<double>() >= 0);
    CHECK(line.at("rate").get<double>() > 0);
    const bool validated = step % 60 == 0 || step == 130;
    for (const std::string share : {"exact_match", "character_accuracy"}) {
      REQUIRE(line.contains(share) == validated);
      if (validated) {
        CHECK(line.at(share).get<double>() >= 0);
        CHECK(line.at(share).get<double>() <= 1);
      }
    }
  }
  CHECK(steps == std::vector<long>{0, 50, 60, 100, 120, 130});
}

TEST_CASE("dates train: a second run keeps the files of the first beside its own") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps));
  const auto first = contents_of(directory.path());
  CHECK(first.size() == 3);
  const std::string out =
      output_of(train_tiny(directory.path(), forty_steps + Arguments{"--seed", "2"}));
  CHECK(contains(out, "is kept as last.previous.safetensors"));
  auto both = contents_of(directory.path());
  CHECK(both.size() == 6);
  CHECK(both[directory / "best.previous.safetensors"] == first.at(directory / "best.safetensors"));
  CHECK(both[directory / "last.previous.safetensors"] == first.at(directory / "last.safetensors"));
  CHECK(both[directory / "log.previous.jsonl"] == first.at(directory / "log.jsonl"));
  CHECK(load_safetensors(directory / "last.safetensors").metadata.at("seed") == "2");
}

TEST_CASE("dates train: 400 steps of a small model learn most held-out dates") {
  const std::string directory = Trained::get().directory();
  const Json first = log_of(directory).at(1), last = log_of(directory).back();
  CHECK(last.at("loss").get<double>() < first.at("loss").get<double>() / 5);
  const auto metadata = load_safetensors(Trained::get().model()).metadata;
  CHECK(std::stod(metadata.at("exact_match")) > 0.8);
  CHECK(std::stod(metadata.at("character_accuracy")) > 0.95);
}

TEST_CASE("dates train: best.safetensors is the last of the checkpoints with the best accuracy") {
  const Directory directory;
  output_of(
      train_tiny(directory.path(), {"--steps", "400", "--validate-every", "10", "--rate", "0.01"}));
  std::pair best(-1.0, -1.0);
  long best_step = 0;
  for (const Json& line : log_of(directory.path())) {
    if (!line.contains("exact_match")) continue;
    const std::pair now(line.at("exact_match").get<double>(),
                        line.at("character_accuracy").get<double>());
    if (now >= best) best = now, best_step = line.at("step");
  }
  CHECK(step_of(directory / "best.safetensors") == best_step);
  CHECK(step_of(directory / "last.safetensors") == 400);
}

TEST_CASE("dates train: every cell, readout and start trains, and its model predicts") {
  for (const Arguments& kind : {Arguments{"--encoder-cell", "lstm", "--decoder-cell", "lstm"},
                                {"--encoder-cell", "gru-reset-before"},
                                {"--decoder-cell", "gru-reset-before", "--start", "zero"},
                                {"--encoder-cell", "lstm", "--decoder-cell", "gru"},
                                {"--readout-kind", "tanh"},
                                {"--readout-state", "previous"},
                                {"--start", "zero"}}) {
    CAPTURE(kind[0]);
    CAPTURE(kind[1]);
    const Directory directory;
    output_of(
        train_tiny(directory.path(),
                   Arguments{"--steps", "80", "--validate-every", "20", "--rate", "0.01"} + kind));
    const auto log = log_of(directory.path());
    CHECK(log.back().at("loss").get<double>() < 0.9 * log.at(1).at("loss").get<double>());
    const std::string name = kind[0].substr(2), model = directory / "best.safetensors";
    CHECK(load_safetensors(model).metadata.at(name) == kind[1]);
    CHECK(lines_of(output_of({"predict", "--model", model, "3 May 1979"})).size() == 1);
  }
}

TEST_CASE("dates train: steps that are not finite are skipped, named and counted, until too many") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps));
  const std::string last = directory / "last.safetensors";
  Safetensors file = load_safetensors(last);
  Tensor& w = file.tensors.at("readout.U_o");
  w = full(w.shape(), std::numeric_limits<double>::infinity());
  save_safetensors(last, file);
  const ProcessResult result =
      run(train_tiny(directory.path(), {"--resume", "--steps", "60", "--validate-every", "20",
                                        "--max-skipped", "3"}));
  CHECK(result.status == 1);
  const std::vector<std::string> lines = lines_of(result.err);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("step 41: the update is skipped: the loss is "));
  CHECK(lines[3] == "dates: train: 3 updates in a row were skipped, the last one of step 43");
  const Safetensors left = load_safetensors(last);
  CHECK(left.metadata.at("divergence.skipped") == "3");
  for (const auto& [name, tensor] : file.tensors) {  // no update was made
    CHECK(tensor.to_vector<float>() == left.tensors.at(name).to_vector<float>());
  }
}

TEST_CASE("dates train: divergence is told, and its weights do not replace better ones") {
  const Directory directory;
  const ProcessResult result =
      run(train_tiny(directory.path(), {"--steps", "400", "--validate-every", "100", "--rate", "10",
                                        "--clip", "1e9"}));
  CHECK(result.status == 0);
  CHECK(contains(result.err, ": training diverges: the loss, "));
  CHECK(step_of(directory / "best.safetensors") == 100);
}

TEST_CASE("dates train: --locales de,ja reads German and Japanese without a warning") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps + Arguments{"--locales", "de,ja"}));
  const ProcessResult result = run({"predict", "--model", directory / "best.safetensors",
                                    "Donnerstag, 3. März 1979", "1979年5月3日木曜日"});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(lines_of(result.out).size() == 2);
}

TEST_CASE("dates train: where no steps are given, there are more for many locales") {
  dates::TrainOptions options;
  CHECK(dates::with_steps(options).steps == 2000);
  options.data.locales = "all";
  CHECK(dates::with_steps(options).steps == 150 * std::ssize(dates::parse_locales("all")));
  CHECK(dates::with_steps(options).steps > 20000);
  options.data.train_file = "pairs.tsv";
  CHECK(dates::with_steps(options).steps == 2000);
  options.steps = 7;
  CHECK(dates::with_steps(options).steps == 7);
}

TEST_CASE("dates train: a file without --valid has a tenth of its rows held out") {
  const Directory directory;
  write(directory / "rows.tsv", example_rows(60));
  const std::string out = output_of(
      train_tiny(directory / "out", forty_steps + Arguments{"--train", directory / "rows.tsv"}));
  CHECK(contains(out, fmt::format("54 examples of {}; validation on 6 held-out examples",
                                  directory / "rows.tsv")));
}

TEST_CASE(
    "dates train: a file too small to hold rows out is refused, or its last weights are best") {
  const Directory directory;
  write(directory / "rows.tsv", example_rows(9));
  const std::string out = directory / "out";
  const ProcessResult result =
      run(train_tiny(out, forty_steps + Arguments{"--train", directory / "rows.tsv"}));
  if (result.status != 0) {
    CHECK(contains(error_line(result), "--valid"));
  } else {
    CHECK(step_of(out + "/best.safetensors") == 40);
  }
}

}  // namespace
}  // namespace attune::dates::test
