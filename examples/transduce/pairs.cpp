#include "pairs.hpp"

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::transduce {

std::vector<Row> read_pairs(const std::filesystem::path& path, text::Columns columns) {
  text::ParallelReader reader(path, columns);
  std::vector<Row> rows;
  while (auto pair = reader.next()) {
    if (pair->source.empty() && pair->target.empty()) continue;
    for (const auto& [name, side] :
         {std::pair{"source", &pair->source}, {"target", &pair->target}}) {
      if (!text::words(*side).empty()) continue;
      fail(fmt::format("{}:{}", path.string(), reader.number()),
           fmt::format("the {} is empty, expected {}", name,
                       columns == text::Columns::target_first ? "target TAB source (--swap)"
                                                              : "source TAB target"));
    }
    rows.push_back({std::move(pair->source), std::move(pair->target), reader.number()});
  }
  if (rows.empty()) fail(path.string(), "there is no pair, expected lines of source TAB target");
  return rows;
}

}  // namespace attune::transduce
