// The directory of a run, and who may use it.
#include "support/run_directory.hpp"

#include <unistd.h>

#include "attune_program.hpp"

namespace attune::pairs::test {
namespace {

std::string host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

TEST_CASE("DirectoryLock: there is one of a directory at a time, and nothing is left of it") {
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

TEST_CASE("DirectoryLock: one that a killed process has left is taken over") {
  const Directory directory;
  write(directory / "attune.lock", "process 1 on host h, and a longer text than the next one's\n");
  const DirectoryLock lock(directory.path());
  CHECK(read(directory / "attune.lock") ==
        fmt::format("process {} on host {}\n", getpid(), host()));
}

TEST_CASE("DirectoryLock: where the file cannot be made it is named") {
  const Directory directory;
  std::filesystem::create_directory(directory / "attune.lock");
  CHECK_THROWS_WITH_AS(
      DirectoryLock(directory.path()),
      fmt::format("--out: {}/attune.lock cannot be written: Is a directory", directory.path())
          .c_str(),
      Error);
}

TEST_CASE("RunDirectory: what dead processes were writing is removed, and nothing else") {
  const Directory directory;
  const std::string dead = "4194305";  // no process has so large a number
  for (const std::string& name :
       {"best.safetensors." + dead + ".0.tmp", "last.safetensors." + dead + ".17.tmp",
        fmt::format("log.jsonl.{}.0.tmp", getpid())}) {
    write(directory / name, "half of");
  }
  const std::vector<std::string> others = {
      "my.tmp", fmt::format("best.safetensors.{}.0.tmp", getppid()), "last.safetensors.old.tmp",
      "other.safetensors." + dead + ".0.tmp"};
  for (const std::string& name : others) write(directory / name, "");
  {
    RunDirectory run(directory.path());
    run.make();
  }
  CHECK(contents_of(directory.path()).size() == others.size());
  for (const std::string& name : others) CHECK(std::filesystem::exists(directory / name));
}

TEST_CASE("attune train: another run in the same directory is refused, and changes nothing") {
  const Words directory;
  const std::string out = directory / "out", last = out + "/last.safetensors";
  const Arguments long_run = tiny_words + Arguments{"--steps", "400", "--validate-every", "20"};
  output_of(directory.train("alone", long_run));
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
  check_same_tensors(directory / "alone/last.safetensors", last);
  check_same_tensors(directory / "alone/best.safetensors", out + "/best.safetensors");
  CHECK(contents_of(out).size() == 4);  // with report.html
}

}  // namespace
}  // namespace attune::pairs::test
