// What came out of runs: a file that grows with each, means over the seeds, a table, a plot, a page.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run.hpp"
#include "support/log.hpp"

namespace attune::long_sentences {

struct Record {
  std::string setting, variant;
  std::uint64_t seed;
  Result result;
};

/// A line of a log; read_records() reads it.
report::LogFields fields_of(const Record& record, const Budget& budget);

/// Those of a file, none where there is no file. A last line that was cut short does not count.
/// Throws "FILE:LINE: ..." on another line that is no record, and on one of another number of steps
/// or of units: those are not to be mixed.
std::vector<Record> read_records(const std::filesystem::path& file, const Budget& budget);

/// Over seeds: mean and standard deviation (n - 1; 0 of a single one).
struct Mean {
  double mean = 0, deviation = 0;
};

/// A variant in a setting.
struct Row {
  std::string variant;
  std::size_t seeds = 0;
  std::array<Mean, lengths.size()> accuracy = {};
  double seconds = 0;  // of processor time, of a run
  Index parameters = 0;
};

/// Rows of the variants that have records in the setting, in the order of variants().
std::vector<Row> rows_of(const std::vector<Record>& records, const std::string& setting);

/// The share of its accuracy at length 20 that a variant keeps at 60; 0 of none.
double kept(const Row& row);

/// A row a variant and a column a length, aligned, in percent: mean ± standard deviation over the
/// seeds; and the share of its accuracy at 20 that it has at 60.
std::string table(const std::vector<Row>& rows);

/// A line a variant, in which blocks stand for accuracy: an empty one for 0, a full one for all
/// right.
std::string plot(const std::vector<Row>& rows);

/// Writes report.html and a chart as svg for each setting that has results.
void write_report(const std::filesystem::path& directory, const std::vector<Record>& records,
                  const Budget& budget);

}  // namespace attune::long_sentences
