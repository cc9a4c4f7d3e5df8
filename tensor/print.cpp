#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/print.hpp>

namespace attune {
namespace {

constexpr Index shown_whole = 1000, shown_of_edges = 3;  // elements; of a long axis at each end

/// Text with brackets around rows. Above `shown_whole` elements, only the ends of long axes.
class Picture {
 public:
  Picture(const Tensor& x, int digits)
      : shape_(x.shape()), elements_(x.reshape({-1})), digits_(digits) {}

  std::string draw() {
    rows(0, 0);  // finds the widest element
    return rows(0, 0);
  }

 private:
  /// Calls f(i), and f(-1) for what is left out.
  template <class F>
  void for_shown(Index n, F f) const {
    const bool whole = std::max(shape_.size(), n) <= shown_whole || n <= 2 * shown_of_edges + 1;
    const Index left_out = whole ? 0 : n - 2 * shown_of_edges;
    for (Index i = 0; i < n; ++i) {
      f(left_out > 0 && i == shown_of_edges ? -1 : i);
      if (left_out > 0 && i == shown_of_edges) i += left_out - 1;
    }
  }

  std::string rows(int axis, Index at) {
    if (axis == shape_.rank()) {
      const std::string element =
          fmt::format("{:.{}g}", detail::shown(elements_[at].item()), digits_);
      width_ = std::max(width_, element.size());
      return fmt::format("{:>{}}", element, width_);
    }
    const bool is_last = axis == shape_.rank() - 1;
    const auto axes_below = static_cast<std::size_t>(shape_.rank() - 1 - axis);
    const std::string between =
        is_last ? ", " : fmt::format(",{:\n>{}}{:>{}}", "", axes_below, "", axis + 1);
    std::string text;
    for_shown(shape_[axis], [&](Index i) {
      if (!text.empty()) text += between;
      text += i < 0 ? "..." : rows(axis + 1, at * shape_[axis] + i);
    });
    return "[" + text + "]";
  }

  Shape shape_;
  Tensor elements_;
  int digits_;
  std::size_t width_ = 0;
};

}  // namespace

std::string to_string(const Tensor& x, Integer digits) {
  if (!x.defined()) return "undefined tensor";
  if (x.dtype() == DType::i32) digits = 10;  // all, as ids and counts are not rounded
  if (digits < 0) digits = 6;                // as for numbers in a stream
  return fmt::format("{}{}{}", describe(x), x.rank() > 1 ? '\n' : ' ', Picture(x, digits).draw());
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  return out << to_string(x, static_cast<int>(out.precision()));
}

}  // namespace attune
