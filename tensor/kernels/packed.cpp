#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <attune/tensor/kernels/packed.hpp>
#include <attune/tensor/kernels/product_sizes.hpp>

namespace attune::detail {
namespace {

using namespace sizes;

/// Maximum number of packed forms of one buffer: parts of a weight and their transposes.
constexpr std::size_t max_forms = 8;

/// The packed forms of one buffer's contents.
template <class T>
class PackedForms final : public Attachment {
 public:
  /// `modified_at` is the buffer's time of modification, which identifies its contents.
  PackedMatrix<T> get(const MatrixView<const T>& b, std::uint64_t modified_at, Uses uses) {
    {
      std::lock_guard lock(mutex_);
      Form* form = find(b);
      if (!form && forms_.size() == max_forms) return {};
      if (!form) form = &forms_.emplace_back(Form{b, 0, {}});
      if (form->packed.precision() != precision_of<T>()) form->packed = {};
      if (form->modified_at == modified_at && form->packed.defined()) return form->packed;
      // If packing paid for the previous contents, it is assumed to pay again.
      const bool pays =
          uses == Uses::many || form->modified_at == modified_at || form->packed.defined();
      form->modified_at = modified_at;
      observe();          // a later write gets a larger stamp
      form->packed = {};  // releases its memory for the next packed form
      if (!pays) return {};
    }
    // Another thread may pack the same matrix at the same time. Both copies are correct, and one is
    // cached. Writing to the matrix meanwhile is a data race of the caller.
    PackedMatrix<T> packed(b);
    std::lock_guard lock(mutex_);
    Form* form = find(b);
    if (form->modified_at == modified_at) form->packed = packed;
    return packed;
  }

 private:
  struct Form {
    MatrixView<const T> of;
    std::uint64_t modified_at;
    PackedMatrix<T> packed;
  };

  Form* find(const MatrixView<const T>& b) {
    const auto form = std::ranges::find_if(forms_, [&](const Form& f) { return f.of == b; });
    return form == forms_.end() ? nullptr : &*form;
  }

  std::mutex mutex_;
  std::vector<Form> forms_;
};

}  // namespace

template <class T>
PackedMatrix<T> cached_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses) {
  if (uses == Uses::one && b.rows * b.cols < few_elements) return {};
  Buffer& buffer = buffer_of(owner);
  const std::uint64_t modified_at = buffer.modified_at.load(std::memory_order_relaxed);
  // PackedForms is created at the first request. If several threads create one at once, one of them
  // sets the pointer (release), and the others use its object (acquire), which exists until the
  // buffer is freed. The elements of a buffer never change their type T.
  Attachment* forms = buffer.attachment.load(std::memory_order_acquire);
  if (!forms) {
    auto made = std::make_unique<PackedForms<T>>();
    if (buffer.attachment.compare_exchange_strong(forms, made.get(), std::memory_order_acq_rel)) {
      forms = made.release();
    }
  }
  return static_cast<PackedForms<T>&>(*forms).get(b, modified_at, uses);
}
template PackedMatrix<float> cached_packed(const Tensor&, const MatrixView<const float>&, Uses);
template PackedMatrix<double> cached_packed(const Tensor&, const MatrixView<const double>&, Uses);

}  // namespace attune::detail
