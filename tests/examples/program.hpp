// What the tests of the dates program share: runs of it, and a model that it trained.
#pragma once

#include <fmt/format.h>

#include "tools.hpp"

namespace attune::dates::test {

using namespace attune::test;

/// Runs the program, on one thread unless the test says otherwise.
inline ProcessResult run(const Arguments& arguments, ProcessOptions options = {}) {
  return run_program(ATTUNE_DATES, arguments, std::move(options));
}

/// Runs the program, which must succeed, and returns its standard output.
inline std::string output_of(const Arguments& arguments, ProcessOptions options = {}) {
  const ProcessResult result = run(arguments, std::move(options));
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

inline std::string error_line(const ProcessResult& result) {
  return attune::test::error_line("dates", result);
}

inline std::string error_of(const Arguments& arguments, ProcessOptions options = {}) {
  return error_line(run(arguments, std::move(options)));
}

/// Sizes that train a step in a millisecond.
inline const Arguments tiny = {"--hidden", "16", "--embedding", "8",  "--attention", "8",
                               "--batch",  "16", "--held-out",  "50", "--readout",   "8"};

inline Arguments train(const std::string& out, const Arguments& more = {}) {
  return Arguments{"train", "--out", out} + more;
}
inline Arguments train_tiny(const std::string& out, const Arguments& more = {}) {
  return train(out, tiny + more);
}
inline const Arguments forty_steps = {"--steps", "40", "--validate-every", "20"};

/// `count` lines "27 June 2001 TAB 2001-06-27", each another date.
inline std::string example_rows(int count) {
  static constexpr const char* months[] = {"January",   "February", "March",    "April",
                                           "May",       "June",     "July",     "August",
                                           "September", "October",  "November", "December"};
  std::string rows;
  for (int i = 0; i < count; ++i) {
    const int day = 1 + i % 28, month = i % 12, year = 1970 + i;
    rows +=
        fmt::format("{} {} {}\t{}-{:02}-{:02}\n", day, months[month], year, year, month + 1, day);
  }
  return rows;
}

/// A small model that knows English dates well, trained when a test first asks for it.
class Trained {
 public:
  static const Trained& get() {
    static const Trained trained;
    return trained;
  }

  const std::string& model() const { return model_; }
  std::string directory() const { return directory_.path(); }

 private:
  Trained() : model_(directory_ / "best.safetensors") {
    output_of(train(
        directory_.path(),
        {"--hidden", "32", "--embedding", "16", "--attention", "16", "--readout", "16", "--batch",
         "32", "--rate", "0.01", "--held-out", "50", "--steps", "400", "--validate-every", "100"}));
  }

  Directory directory_;
  std::string model_;
};

inline Arguments predict(const Arguments& more) {
  return Arguments{"predict", "--model", Trained::get().model()} + more;
}

}  // namespace attune::dates::test
