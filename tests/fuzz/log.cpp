// Training logs: reading and writing.
#include <cmath>

#include "attune/run_directory.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using report::Log;

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool same(const Log& a, const Log& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, [](const auto& p, const auto& q) {
      return p.first == q.first && same(p.second, q.second);
    });
  });
}

/// Writes the log and reads it again. Its names are UTF-8, because they were read from JSON.
void check_written(const Log& log) {
  const fuzz::MemoryFile file;
  report::LogWriter writer(file.path(), false);
  for (const auto& line : log) {
    report::Json fields = report::Json::object();
    for (const auto& [name, value] : line) fields[name] = value;
    writer.write(fields);
  }
  expect(same(report::read_log(file.path()), log), "read_log: the log differs after writing");
}

}  // namespace

void fuzz_one(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const auto log = fuzz::accepted([&] { return report::read_log(file.path()); });
  if (log) check_written(*log);
}
