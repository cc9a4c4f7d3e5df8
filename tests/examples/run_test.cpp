// Training runs: directories, locks, and saved state.
#include "attune/run.hpp"

#include <csignal>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/file.hpp>

#include "attune/output.hpp"
#include "attune/processes.hpp"
#include "attune_program.hpp"

namespace attune::pairs::test {
namespace {

std::string host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

TEST_CASE("DirectoryLock: excludes a second lock, and removes its file") {
  const Directory directory;
  for (int time = 0; time < 2; ++time) {
    const DirectoryLock lock(directory.path());
    CHECK_THROWS_WITH_AS(DirectoryLock(directory.path()),
                         fmt::format("--out: {} is in use by process {} on host {}",
                                     directory.path(), getpid(), host())
                             .c_str(),
                         Error);
  }
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("DirectoryLock: takes over the lock file of a killed process") {
  const Directory directory;
  write(directory / "attune.lock", "process 1 on host h, and a longer text than the next one's\n");
  const DirectoryLock lock(directory.path());
  CHECK(read(directory / "attune.lock") ==
        fmt::format("process {} on host {}\n", getpid(), host()));
}

TEST_CASE("DirectoryLock: removes temporary files of dead processes only") {
  const Directory directory;
  const std::string dead = "4194305";  // larger than any process id
  for (const std::string& name :
       {"best.safetensors." + dead + ".0.tmp", "last.safetensors." + dead + ".17.tmp",
        "average.safetensors." + dead + ".0.tmp", fmt::format("log.jsonl.{}.0.tmp", getpid())}) {
    write(directory / name, "half of");
  }
  const pid_t zombie = fork();  // a zombie until waitpid
  if (zombie == 0) _exit(0);
  siginfo_t ended;
  waitid(P_PID, static_cast<id_t>(zombie), &ended, WEXITED | WNOWAIT);
  write(directory / fmt::format("best.safetensors.{}.0.tmp", zombie), "half of");
  const std::vector<std::string> others = {"my.tmp",
                                           fmt::format("best.safetensors.{}.0.tmp", getppid()),
                                           "last.safetensors.old.tmp",
                                           ".tmp",
                                           "a.1.tmp",
                                           "x." + dead + ".0.tmp.txt"};
  for (const std::string& name : others) write(directory / name, "");
  { const DirectoryLock lock(directory.path()); }
  waitpid(zombie, nullptr, 0);
  CHECK(contents_of(directory.path()).size() == others.size());
  for (const std::string& name : others) CHECK(std::filesystem::exists(directory / name));
}

TEST_CASE("attune train: refuses a second run in the same directory, changes nothing") {
  const Words directory;
  const std::string out = directory / "out", last = out + "/last.safetensors";
  int tried = 0;
  const auto try_others = [&] {
    if (tried > 0 || !std::filesystem::exists(last)) return false;
    for (const Arguments& more : {Arguments{}, Arguments{"--resume"}, Arguments{"--steps", "9"}}) {
      const std::string line = error_of(directory.train("out", tiny_words + more));
      CHECK_MESSAGE(line.starts_with(fmt::format("attune: --out: {} is in use by process ", out)),
                    line);
      CHECK_MESSAGE(line.ends_with(" on host " + host()), line);
      ++tried;
    }
    return false;
  };
  CHECK(run(directory.train("out", long_run), {.signal_when = try_others}).status == 0);
  REQUIRE(tried == 3);
  check_same_tensors(Whole::path() + "/last.safetensors", last);
  check_same_tensors(Whole::path() + "/best.safetensors", out + "/best.safetensors");
  CHECK(contents_of(out).size() == 4);  // including report.html
}

TEST_CASE("RunDirectory: if renaming fails, leaves no last.safetensors without its best weights") {
  const Directory directory;
  for (const char* name : {"best.safetensors", "last.safetensors", "log.jsonl"})
    write(directory / name, name);
  std::filesystem::create_directory(directory / "best.previous.safetensors");
  RunDirectory run(directory.path());
  run.make();
  set_silent(true);
  CHECK_THROWS(run.keep_previous());
  set_silent(false);
  CHECK(std::filesystem::exists(directory / "best.safetensors"));
  CHECK_FALSE(std::filesystem::exists(directory / "last.safetensors"));
}

TEST_CASE("RunDirectory: the previous files belong to one run, which saved a checkpoint") {
  const Directory directory;
  RunDirectory run(directory.path());
  run.make();
  set_silent(true);
  for (const char* name : {"best.safetensors", "last.previous.safetensors", "log.jsonl"})
    write(directory / name, "first");
  run.keep_previous();
  CHECK_FALSE(std::filesystem::exists(directory / "last.previous.safetensors"));
  write(directory / "log.jsonl", "second");
  run.keep_previous();
  set_silent(false);
  CHECK(read(directory / "log.previous.jsonl") == "first");
  CHECK_FALSE(std::filesystem::exists(directory / "log.jsonl"));
}

TEST_CASE("Run: a signal abandons a long update or validation; saves the state before it") {
  for (const bool in_validation : {false, true}) {
    const Directory directory;
    const auto work = [&](std::size_t) {
      set_silent(true);
      TrainOptions options;
      options.out = directory.path(), options.validate_every = 1;
      RunDirectory files(options.out);
      nn::Parameters parameters(1);
      const Var w = parameters.add("w", {2}, nn::init::constant(1));
      nn::Adam adam(parameters);
      Epochs epochs([](Index) { return Epochs::Batches{{0}, {1}}; });
      Run run(options, {}, files, parameters,
              [&](Safetensors& file) { nn::save_parameters(parameters, file); },
              {saved(adam), saved(epochs)});
      const auto sum_of = [&](bool endless) {
        Var loss = sum(w * w);
        if (endless) raise(SIGTERM);
        while (endless) loss = tanh(loss);
        return loss;
      };
      while (run.goes_on(10)) {
        epochs.next();
        const auto loss = [&](Index, Index) { return sum_of(!in_validation && run.step() == 1); };
        if (!run.update(adam, run.backward(2, loss), 0.1, 2)) epochs.take_back();
        if (run.validate([&] { return sum_of(in_validation).item(); })) run.save({{"one", 1}}, "1");
      }
      return run.finish();
    };
    CHECK(in_processes(1, 1, work, [](std::size_t) {}) == 143);
    const Metadata left = load_safetensors(directory / "last.safetensors").metadata;
    CHECK(left.at("step") == "1");
    CHECK(left.at("position") == "1");
    CHECK(left.at("validated") == (in_validation ? "0" : "1"));
  }
}

/// Trains one weight for ten steps; a validation fails after step 7.
void train(const Directory& directory, bool resume) {
  TrainOptions options;
  options.out = directory.path(), options.resume = resume, options.validate_every = 7;
  RunDirectory files(options.out);
  nn::Parameters parameters(1);
  const Var w = parameters.add("w", {2}, nn::init::constant(1));
  nn::Adam adam(parameters);
  Best best;
  Run run(options, {}, files, parameters,
          [&](Safetensors& file) { nn::save_parameters(parameters, file); },
          {saved(adam), saved(best)});
  while (run.goes_on(10)) {
    if (run.trains()) {
      run.update(adam, run.backward(2, [&](Index, Index) { return sum(w * w); }), 0.1, 2);
    }
    const auto measured = run.validate([&]() -> double {
      if (!resume) fail("validate", "no");
      return 1;
    });
    if (!measured) continue;
    if (best.improves(run, {*measured})) run.save_best("1");
    run.save({{"one", *measured}}, "1");
  }
  run.finish();
}

TEST_CASE("Run: saves the steps since the last validation if a validation fails") {
  const Directory directory;
  const std::filesystem::path last = directory / "last.safetensors";
  set_silent(true);
  CHECK_THROWS_WITH_AS(train(directory, false), "validate: no", Error);
  CHECK(load_safetensors(last).metadata.at("step") == "7");
  CHECK(load_safetensors(last).metadata.at("validated") == "0");
  train(directory, true);  // begins with the validation
  set_silent(false);
  CHECK(load_safetensors(last).metadata.at("step") == "10");
  const auto log = report::read_log(directory / "log.jsonl");
  REQUIRE(log.size() == 2);
  CHECK(log[0].at("step") == 7);
  CHECK(log[1].at("step") == 10);
}

TEST_CASE("Run: resuming writes a missing line of the log") {
  const Directory directory;
  set_silent(true);
  CHECK_THROWS_AS(train(directory, false), Error);
  train(directory, true);
  const std::string log = directory / "log.jsonl", whole = read_file(log);
  std::filesystem::resize_file(log, whole.rfind('\n', whole.size() - 2) + 1);
  train(directory, true);
  set_silent(false);
  CHECK(read_file(log) == whole);
}

TEST_CASE("Run: resuming refuses files of another training, and of another step") {
  const Directory one, other;
  set_silent(true);
  for (const Directory* directory : {&one, &other}) {
    CHECK_THROWS_AS(train(*directory, false), Error);
    train(*directory, true);  // the same options, data and steps
  }
  const auto foreign = [&](const std::string& name) {
    const std::string message =
        one / name + ": belongs to another training, or to another step, than the checkpoint next";
    CHECK_THROWS_WITH_AS(train(one, true), doctest::Contains(message.c_str()), Error);
  };
  for (const std::string name : {"best.safetensors", "log.jsonl"}) {
    const std::string own = read(one / name);
    write(one / name, read(other / name));
    foreign(name);
    write(one / name, own);
  }
  Safetensors best = load_safetensors(one / "best.safetensors");
  best.metadata["step"] = "3";
  save_safetensors(one / "best.safetensors", best);
  foreign("best.safetensors");
  for (const std::string name : {"best.safetensors", "log.jsonl"}) {  // lost files
    std::filesystem::remove(one / name);
    train(one, true);
    CHECK(std::filesystem::exists(one / name));
  }
  set_silent(false);
  CHECK(load_safetensors(one / "best.safetensors").metadata.at("step") == "10");
}

TEST_CASE("in_processes: processes every item once, for any number of jobs") {
  for (const int jobs : {1, 3, 10}) {
    const Directory directory;
    std::set<std::size_t> seen;
    const auto work = [&](std::size_t i) { return write(directory / std::to_string(i), ""), 0; };
    CHECK(in_processes(7, jobs, work, [&](std::size_t i) {
            CHECK(std::filesystem::exists(directory / std::to_string(i)));
            CHECK(seen.insert(i).second);
          }) == 0);
    CHECK(seen.size() == 7);
  }
}

TEST_CASE("in_processes: returns the status of a child; throws if a child is killed") {
  const auto nothing = [](std::size_t) {};
  CHECK(in_processes(
            3, 2, [](std::size_t i) { return i == 1 ? 7 : 0; }, nothing) == 7);
  const auto dies = [](std::size_t) { return raise(SIGKILL); };
  CHECK_THROWS_WITH_AS(in_processes(1, 1, dies, nothing),
                       "run: a child process was killed by signal 9", Error);
}

TEST_CASE("in_processes: if a child fails, the others may save their state") {
  const Directory directory;
  const auto work = [&](std::size_t i) {
    if (i == 0) return 7;
    try {
      for (;;) stop_if_interrupted(), std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } catch (const Interrupted&) {
      write(directory / "saved", "");
    }
    return 0;
  };
  CHECK(in_processes(2, 2, work, [](std::size_t) {}) == 7);
  CHECK(std::filesystem::exists(directory / "saved"));
}

}  // namespace
}  // namespace attune::pairs::test
