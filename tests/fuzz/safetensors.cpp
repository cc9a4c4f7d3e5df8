// Files of tensors: what is read is written again as it was.
#include <algorithm>
#include <cstring>

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/safetensors.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

void check_tensors(const Safetensors& file, std::size_t size) {
  std::size_t bytes = 0;
  for (const auto& [name, x] : file.tensors) {
    expect(x.defined() && x.size() == x.shape().size(), "a tensor of another size");
    expect(std::ranges::equal(bytes_of(x.clone()), bytes_of(x)), "clone: other elements");
    expect(printable(to_string(x), "\n") == to_string(x), "to_string: not printable");
    bytes += bytes_of(x).size();
  }
  expect(bytes <= 4 * size, "more elements than the file has");  // bytes may become i32
}

void check_same(const Safetensors& a, const Safetensors& b) {
  expect(a.metadata == b.metadata, "other metadata come back");
  expect(a.tensors.size() == b.tensors.size(), "another number of tensors comes back");
  for (const auto& [name, x] : a.tensors) {
    const Tensor* y = b.find(name);
    expect(y && y->shape() == x.shape() && y->dtype() == x.dtype() &&
               std::ranges::equal(bytes_of(*y), bytes_of(x)),
           "another tensor comes back");
  }
}

/// A header in JSON and, behind a line break, the tensors' bytes: as a file, with its length first.
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
    expect(!again.checksum.empty(), "a file without a checksum is written");
  }
  expect(buffer_statistics().in_use == before, "memory is kept");
}
