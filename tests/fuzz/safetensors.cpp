// Safetensors files: writing and reading again gives the same contents.
#include <algorithm>
#include <cstring>

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/print.hpp>
#include <attune/tensor/safetensors.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

void check_tensors(const Safetensors& file, std::size_t size) {
  std::size_t bytes = 0;
  for (const auto& [name, x] : file.tensors) {
    expect(x.defined() && x.size() == x.shape().size(), "a tensor's size is wrong");
    const Tensor copied = x.clone();
    expect(std::ranges::equal(bytes_of(copied), bytes_of(x)), "clone: elements differ");
    expect(printable(to_string(x), "\n") == to_string(x), "to_string: not printable");
    bytes += bytes_of(x).size();
  }
  expect(bytes <= 4 * size, "more elements than in the file");  // bytes are converted to i32
}

void check_same(const Safetensors& a, const Safetensors& b) {
  expect(a.metadata == b.metadata, "metadata differ after writing and reading");
  expect(a.tensors.size() == b.tensors.size(), "the number of tensors differs");
  for (const auto& [name, x] : a.tensors) {
    const Tensor* y = b.find(name);
    expect(y && y->shape() == x.shape() && y->dtype() == x.dtype() &&
               std::ranges::equal(bytes_of(*y), bytes_of(x)),
           "a tensor differs after writing and reading");
  }
}

/// Converts a JSON header, a line break and the tensors' bytes to a safetensors file.
std::string with_length(std::string_view input) {
  const std::string_view header = fuzz::take(input, "\n");
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(header).append(input);
}

}  // namespace

void fuzz_one(std::string_view input) {
  const std::string bytes = input.starts_with('{') ? with_length(input) : std::string(input);
  const fuzz::MemoryFile file(bytes);
  const std::size_t before = buffer_statistics().in_use;
  if (const auto contents = fuzz::accepted([&] { return load_safetensors(file.path()); })) {
    check_tensors(*contents, bytes.size());
    save_safetensors(fuzz::scratch_file("again"), *contents);
    const Safetensors again = load_safetensors(fuzz::scratch_file("again"));
    check_same(*contents, again);
    expect(!again.checksum.empty(), "a written file has no checksum");
  }
  expect(buffer_statistics().in_use == before, "memory is not freed");
}
