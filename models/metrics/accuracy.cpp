#include <algorithm>

#include <attune/models/metrics/accuracy.hpp>

namespace attune::metrics {

double position_accuracy(std::span<const std::string> written,
                         std::span<const std::string> expected) {
  const std::size_t longer = std::max(written.size(), expected.size());
  if (longer == 0) return 1;
  std::size_t agree = 0;
  for (std::size_t i = 0; i < std::min(written.size(), expected.size()); ++i)
    agree += written[i] == expected[i];
  return static_cast<double>(agree) / static_cast<double>(longer);
}

}  // namespace attune::metrics
