#include <algorithm>
#include <bit>
#include <new>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/safetensors.hpp>
#include <attune/tensor/safetensors_header.hpp>

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace attune {
namespace {

using detail::Malformed;

constexpr std::size_t longest_header = std::size_t{100} << 20;  // the format's own limit

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr const char* checksum_name = "attune.checksum";
constexpr const char* function_name = "attune.checksum_function";
constexpr const char* function = "XXH3-64";

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(std::uint64_t number) { XXH3_64bits_update(&state_, &number, sizeof number); }
  void add(std::string_view bytes) {
    add(std::uint64_t{bytes.size()});
    XXH3_64bits_update(&state_, bytes.data(), bytes.size());
  }
  std::string digits() const { return fmt::format("{:016x}", XXH3_64bits_digest(&state_)); }

 private:
  XXH3_state_t state_;
};

/// Of contents without a checksum among their metadata.
std::string checksum_of(const Safetensors& contents) {
  Hash hash;
  hash.add(std::uint64_t{contents.metadata.size()});
  for (const auto& [name, text] : contents.metadata) hash.add(name), hash.add(text);
  for (const auto& [name, tensor] : contents.tensors) {
    hash.add(name);
    hash.add(detail::format_name(tensor.dtype()));
    hash.add(fmt::format("{}", fmt::join(tensor.shape(), ",")));
    hash.add(text_of(bytes_of(tensor)));
  }
  return hash.digits();
}

/// Takes the checksum out of the metadata, and verifies it where there is one. It has two entries:
/// if the name of one is damaged, the other shows that this is no older file without a checksum.
void verify(Safetensors& contents) {
  const auto sum = contents.metadata.extract(checksum_name),
             by = contents.metadata.extract(function_name);
  if (sum.empty() && by.empty()) return;
  if (sum.empty() || by.empty())
    throw Malformed("its checksum or the name of its checksum function is missing");
  if (by.mapped() != function) {
    throw Malformed(fmt::format("its checksum function is '{}', not {}", by.mapped(), function));
  }
  if (sum.mapped() != checksum_of(contents)) {
    throw Malformed(
        "its contents do not match its checksum: it is damaged, or a program changed it without "
        "updating the checksum");
  }
  contents.checksum = sum.mapped();
}

/// Bytes in memory, which are read as an InputFile is.
class InputBytes {
 public:
  explicit InputBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t size() const { return bytes_.size(); }
  void read(std::size_t at, std::span<std::byte> to) const {
    std::ranges::copy(bytes_.subspan(at, to.size()), to.begin());
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Eight bytes with the length of the header, and the header.
detail::SafetensorsHeader read_header(const auto& file, std::size_t& end) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) throw Malformed("it is shorter than its header");
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > longest_header) throw Malformed("its header is longer than the format allows");
  if (length > file.size() - sizeof length) throw Malformed("it is shorter than its header");
  std::string text(length, '\0');
  file.read(sizeof length, std::as_writable_bytes(std::span(text)));
  end = sizeof length + length;
  return detail::parse_header(text, file.size() - end);
}

/// `name` begins messages.
Safetensors read(const auto& file, const std::string& name) try {
  std::size_t header_end = 0;
  detail::SafetensorsHeader header = read_header(file, header_end);
  Safetensors contents{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const detail::SafetensorsEntry& entry : header.entries) {
    Tensor x = Tensor::uninitialized(entry.shape, entry.dtype);
    file.read(header_end + entry.begin, mutable_bytes_of(x));
    contents.tensors.emplace(entry.name, std::move(x));
  }
  verify(contents);
  return contents;
} catch (const Malformed& error) {
  fail(name, fmt::format("not a readable safetensors file: {}", error.what()));
} catch (const std::bad_alloc&) {
  fail(name, "it does not fit into memory");
}

}  // namespace

void Safetensors::add(const std::string& name, Tensor tensor) {
  if (!tensors.emplace(name, std::move(tensor)).second) {
    fail("safetensors", fmt::format("the name '{}' occurs twice", name));
  }
}

const Tensor* Safetensors::find(std::string_view name) const {
  const auto at = tensors.find(name);
  return at == tensors.end() ? nullptr : &at->second;
}

void save_safetensors(const std::filesystem::path& path, const Safetensors& contents) {
  Safetensors file = contents;  // which shares the tensors
  file.metadata.erase(checksum_name), file.metadata.erase(function_name);
  file.metadata.insert({{checksum_name, checksum_of(file)}, {function_name, function}});
  const std::string header = detail::header_text(file);
  const std::uint64_t length = header.size();
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&length), sizeof length},
                                         header};
  for (const auto& [name, tensor] : contents.tensors) parts.push_back(text_of(bytes_of(tensor)));
  write_file(path, parts);
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  return read(InputFile(path), path.string());
}

Safetensors load_safetensors(std::span<const std::byte> bytes) {
  return read(InputBytes(bytes), "load_safetensors");
}

}  // namespace attune
