#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include <attune/tensor/packed.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/product_sizes.hpp>

namespace attune::detail {
namespace {

/// Forms of one buffer: of a weight's two parts and of their transposes, and some to spare.
constexpr std::size_t most_forms = 8;

/// The packed forms of one buffer's contents.
template <class T>
class PackedForms final : public Attachment {
 public:
  /// `modified_at` says of which contents.
  PackedMatrix<T> get(const MatrixView<const T>& b, std::uint64_t modified_at, Uses uses) {
    {
      std::lock_guard lock(mutex_);
      Form* form = find(b);
      if (!form && forms_.size() == most_forms) return {};
      if (!form) form = &forms_.emplace_back(Form{b, 0, {}});
      if (form->packed.bf16() != in_bf16<T>()) form->packed = {};
      if (form->modified_at == modified_at && form->packed.defined()) return form->packed;
      // What paid for the contents before will pay again.
      const bool pays =
          uses == Uses::many || form->modified_at == modified_at || form->packed.defined();
      form->modified_at = modified_at;
      observe();          // a later write gets another number
      form->packed = {};  // its memory serves the next one
      if (!pays) return {};
    }
    // Another thread may be packing the same matrix: both copies are right, and one is kept. The
    // matrix does not change meanwhile: writing to it during a product is a data race of the
    // caller.
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

/// The packed forms of a buffer, made when they are first asked for. If several threads make them
/// at once, one of them sets the pointer (release), and the others use its object (acquire), which
/// exists until the buffer is freed. The elements of a buffer never change their type T, so the
/// attachment is always a PackedForms<T>.
template <class T>
PackedForms<T>& forms_of(Buffer& buffer) {
  Attachment* forms = buffer.attachment.load(std::memory_order_acquire);
  if (!forms) {
    auto made = std::make_unique<PackedForms<T>>();
    if (buffer.attachment.compare_exchange_strong(forms, made.get(), std::memory_order_acq_rel)) {
      forms = made.release();
    }
  }
  return static_cast<PackedForms<T>&>(*forms);
}

}  // namespace

template <class T>
PackedMatrix<T> kept_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses) {
  if (uses == Uses::one && b.rows * b.cols < sizes::few_elements) return {};
  Buffer& buffer = buffer_of(owner);
  const std::uint64_t modified_at = buffer.modified_at.load(std::memory_order_relaxed);
  return forms_of<T>(buffer).get(b, modified_at, uses);
}
template PackedMatrix<float> kept_packed(const Tensor&, const MatrixView<const float>&, Uses);
template PackedMatrix<double> kept_packed(const Tensor&, const MatrixView<const double>&, Uses);

}  // namespace attune::detail
