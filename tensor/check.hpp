// Errors, text that is safe to print, and the check of shapes against the letters of a signature.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <attune/tensor/shape.hpp>

namespace attune {

inline constexpr char32_t not_utf8 = 0xFFFFFFFF;

/// The code point at `at`, which moves behind it; not_utf8 for bytes that are none, of which each
/// sequence that could have begun one counts once.
char32_t next_point(std::string_view text, std::size_t& at);

/// The text with escapes such as `\n`, `\x1b` and `\u202e` for what would do something to a
/// terminal, a log or the line it stands in: control characters (C0, DEL, C1) but for those in
/// `kept`, line and paragraph separators, what changes the direction of writing (U+061C, U+200E,
/// U+200F, U+202A to U+202E, U+2066 to U+2069), and bytes that are not UTF-8. Everything else stays
/// as it is, backslashes too: what was printable once is not changed again, and JSON remains JSON.
std::string printable(std::string_view text, std::string_view kept = {});

/// A text of any length for a message: printable, in quotes, and "…" for what 80 bytes do not hold.
std::string in_quotes(std::string_view text);

/// What every function of the library throws: one line, "operation: what is wrong: the shapes".
class Error : public std::runtime_error {
 public:
  /// What the message quotes may come from a file of unknown origin: it is made `printable`.
  explicit Error(std::string_view message);
};

/// Allocation failed; the program may continue: "matmul: there is no memory for (100000, 100000)
/// f32, 40 GB".
class OutOfMemory : public Error {
 public:
  /// `what` is what the bytes are for, "(2, 3) f32", or empty. The operation may be empty too, and
  /// be added by a caller that knows it (throw_as).
  OutOfMemory(std::string_view operation, std::string what, std::size_t bytes);
  /// For its catch block: throws it again, with this operation if it names none yet.
  [[noreturn]] void throw_as(std::string_view operation) const;

 private:
  std::string what_;
  std::size_t bytes_;
  bool named_;
};

namespace detail {
/// The path of the layer that this thread computes, or null: what `fail` adds to a message.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit const std::string* layer_path =
    nullptr;
}  // namespace detail

/// Throws Error("operation: message"); in a layer or parameter with a path it ends with
/// ", in encoder.forward".
[[noreturn]] void fail(std::string_view operation, std::string_view message);

/// Checks shapes against the letters of a signature; a letter means the same extent everywhere.
///
///     ShapeCheck check("additive_scores");
///     check("q", q, "B A")("k", k, "S B A");
///
/// throws "additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q". A letter may carry a
/// factor ("4H"); a number stands for itself; "..." first stands for any leading axes, unchecked.
/// One space stands between two axes.
class ShapeCheck {
 public:
  explicit ShapeCheck(const char* operation) : operation_(operation) {}

  ShapeCheck& operator()(const char* name, const Shape& shape, std::string_view letters);
  /// Of a Tensor or Var, which must be defined.
  template <class X>
  requires requires(const X& x) { x.defined(); }
  ShapeCheck& operator()(const char* name, const X& x, std::string_view letters) {
    if (!x.defined()) [[unlikely]]
      fail_undefined(name);
    return (*this)(name, x.shape(), letters);
  }

  /// The extent that a letter was found to have.
  Index operator[](char letter) const;

 private:
  struct Binding {
    char letter;
    Index extent;
    const char* found_in;
  };
  [[noreturn]] void fail_undefined(const char* name) const;
  const Binding* find(char letter) const {
    for (const Binding& binding : std::span(bindings_).first(bound_))
      if (binding.letter == letter) return &binding;
    return nullptr;
  }

  const char* operation_;
  std::array<Binding, 12> bindings_;
  std::size_t bound_ = 0;
};

}  // namespace attune
