#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/safetensors.hpp>

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace attune {
namespace {

// The JSON header

/// An error in a file's contents, without the path.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void malformed(fmt::format_string<Args...> text, Args&&... args) {
  throw Malformed(fmt::format(text, std::forward<Args>(args)...));
}

/// The members of a JSON object; throws if a name occurs twice. The parser inserts members with
/// this operator, and would otherwise overwrite the earlier ones.
template <class Key, class Value, class... Rest>
struct UniqueNames : std::map<Key, Value, Rest...> {
  Value& operator[](const Key& name) {
    const auto [member, added] = this->try_emplace(name);
    if (!added) malformed("{} occurs twice", in_quotes(name));
    return member->second;
  }
};
using Json = nlohmann::basic_json<UniqueNames>;

// Elements

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// f32 from binary16: 1 sign, 5 exponent and 10 significand bits (IEEE 754).
float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, significand = bits & 1023;
  const float finite =
      std::ldexp(static_cast<float>(exponent > 0 ? significand + 1024 : significand),
                 std::max(exponent, 1) - 25);
  const float x = exponent < 31 ? finite : significand == 0 ? INFINITY : NAN;
  return bits >> 15 ? -x : x;
}

template <class From>
std::int32_t narrowed(From x) {
  if (!std::in_range<std::int32_t>(x)) malformed("{} does not fit in i32", x);
  return static_cast<std::int32_t>(x);
}

/// Converts the elements of `bytes`, of type From, with `convert` into those of the tensor.
template <class From, auto convert>
void convert_elements(std::span<const std::byte> bytes, Tensor& to) {
  auto* element = to.mutable_data<decltype(convert(From{}))>();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(From)) {
    From x;
    std::memcpy(&x, bytes.data() + at, sizeof x);
    *element++ = convert(x);
  }
}

/// A dtype of the format, and the DType that it is read as.
struct FileDType {
  std::string_view name;
  std::size_t bytes;
  DType as;
  void (*convert)(std::span<const std::byte> bytes, Tensor& to) = nullptr;  // null: copied
};
template <class From>
constexpr FileDType narrow(std::string_view name) {
  return {name, sizeof(From), DType::i32, convert_elements<From, narrowed<From>>};
}
constexpr FileDType file_dtypes[] = {
    {"F32", 4, DType::f32},
    {"F64", 8, DType::f64},
    {"I32", 4, DType::i32},
    {"BF16", 2, DType::f32, convert_elements<std::uint16_t, from_bf16>},
    {"F16", 2, DType::f32, convert_elements<std::uint16_t, from_f16>},
    narrow<std::int64_t>("I64"),
    narrow<std::int16_t>("I16"),
    narrow<std::int8_t>("I8"),
    narrow<std::uint64_t>("U64"),
    narrow<std::uint32_t>("U32"),
    narrow<std::uint16_t>("U16"),
    narrow<std::uint8_t>("U8"),
};

/// Dtype, shape and byte range of a tensor; offsets are relative to the end of the header.
struct Entry {
  std::string name, dtype;
  Shape shape;
  std::size_t begin, end;

  /// Null if the dtype is not supported.
  const FileDType* read_as() const {
    const auto* found = std::ranges::find(file_dtypes, dtype, &FileDType::name);
    return found == std::end(file_dtypes) ? nullptr : found;
  }
};

constexpr const char* metadata_name = "__metadata__";

/// Name of a DType in the format.
const char* format_name(DType dtype) {
  return dtype == DType::f32 ? "F32" : dtype == DType::f64 ? "F64" : "I32";
}

Shape read_shape(const std::vector<Index>& extents) try {
  return Shape(extents);
} catch (const Error&) {  // the number of elements overflows
  malformed("{} is larger than the file", to_string(extents));
}

/// Throws if the text is nested deeper than {NAME: {"shape": [NUMBER, ...]}}: when parsed, each
/// level would take many times more memory than its byte in the text.
void check_depth(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '}' || c == ']') --depth;
    if ((c == '{' || c == '[') && ++depth > 3)
      malformed("its header has arrays or objects inside of an array");
  }
}

Json parse_json(std::string_view text) try {
  // The parser would take it as the end of the text.
  if (text.find('\0') != text.npos) malformed("there is a NUL in its header");
  check_depth(text);
  return Json::parse(text);
} catch (const Json::parse_error& error) {
  malformed("its header is not JSON from its byte {} on", error.byte);
} catch (const Json::exception&) {
  malformed("its header has a number that is out of range");
}

std::vector<Index> whole_numbers(const Json& array, const char* what) {
  const auto is_one = [](const Json& x) {
    return x.is_number_unsigned() && std::in_range<Index>(x.get<std::uint64_t>());
  };
  if (!std::ranges::all_of(array, is_one)) malformed("{} must be non-negative integers", what);
  return array;
}

Entry read_entry(const std::string& name, const Json& value, std::size_t available) {
  const std::array<std::string_view, 3> fields = {"data_offsets", "dtype", "shape"};
  for (const auto& [field, x] : value.items()) {
    const bool known = std::ranges::find(fields, field) != fields.end();
    if (!known || (field == "dtype" ? !x.is_string() : !x.is_array()))
      malformed("{} of {} is unknown or of a wrong type", in_quotes(field), in_quotes(name));
  }
  if (value.size() != fields.size())
    malformed("{} lacks a dtype, a shape or offsets", in_quotes(name));
  const std::vector<Index> extents = whole_numbers(value.at("shape"), "extents"),
                           offsets = whole_numbers(value.at("data_offsets"), "offsets");
  if (extents.size() > Shape::max_rank)
    malformed("{} has more than {} axes", in_quotes(name), Shape::max_rank);
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<std::uint64_t>(offsets[1]) > available) {
    malformed("{} lies outside the file", in_quotes(name));
  }
  const Entry entry{name, value.at("dtype"), read_shape(extents),
                    static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(offsets[1])};
  if (!entry.read_as()) return entry;
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(entry.shape.size()) * entry.read_as()->bytes;
  if (bytes > available) malformed("{} is larger than the file", to_string(entry.shape));
  if (bytes != entry.end - entry.begin) {
    malformed("{} {} does not take {} bytes", in_quotes(name), to_string(entry.shape),
              entry.end - entry.begin);
  }
  return entry;
}

/// Reads the header of a file in which `available` bytes follow it:
///
///     {"__metadata__": {NAME: TEXT, ...},
///      NAME: {"dtype": TEXT, "shape": [NUMBER, ...], "data_offsets": [NUMBER, NUMBER]}, ...}
///
/// Returns the entries in the order of their bytes. Throws Malformed unless they cover all bytes
/// without gap or overlap. Time and memory are linear in the length of the text.
std::vector<Entry> read_header(std::string_view text, std::size_t available, Metadata& metadata) {
  const Json json = parse_json(text);
  if (!json.is_object()) malformed("its header is not a JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) malformed("the value of {} is not a JSON object", in_quotes(name));
    if (name != metadata_name) {
      entries.push_back(read_entry(name, value, available));
      continue;
    }
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) malformed("{} of its metadata is not text", in_quotes(key));
      metadata[key] = text;
    }
  }
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) malformed("{} leaves a gap or overlaps", in_quotes(entry.name));
    at = entry.end;
  }
  if (at != available) malformed("{} bytes follow the last tensor", available - at);
  return entries;
}

/// The JSON header of a file with these contents; tensors in the order of the map.
std::string header_text(const Safetensors& contents) try {
  std::string text = "{";
  if (!contents.metadata.empty())
    text += fmt::format("\"{}\":{}", metadata_name, nlohmann::json(contents.metadata).dump());
  std::size_t at = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    if (name == metadata_name) fail("save_safetensors", "the name '{}' is reserved", name);
    const std::size_t end = at + static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype());
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        text.size() > 1 ? "," : "", nlohmann::json(name).dump(),
                        format_name(tensor.dtype()), fmt::join(tensor.shape(), ","), at, end);
    at = end;
  }
  text += '}';
  // spaces align the tensors in the file
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
} catch (const nlohmann::json::exception&) {
  fail("save_safetensors", "a name or the metadata are not UTF-8");
}

// The file

constexpr std::size_t longest_header = std::size_t{100} << 20;  // limit of the format

std::string_view chars_of(const Tensor& x) {
  const std::span bytes = bytes_of(x);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr const char* checksum_name = "attune.checksum";
constexpr const char* function_name = "attune.checksum_function";
constexpr const char* function = "XXH3-64";

/// The checksum of contents whose metadata have no checksum.
std::string checksum_of(const Safetensors& contents) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const auto add_number = [&](std::uint64_t x) { XXH3_64bits_update(&state, &x, sizeof x); };
  const auto add = [&](std::string_view bytes) {
    add_number(bytes.size());
    XXH3_64bits_update(&state, bytes.data(), bytes.size());
  };
  add_number(contents.metadata.size());
  for (const auto& [name, text] : contents.metadata) add(name), add(text);
  for (const auto& [name, tensor] : contents.tensors) {
    add(name);
    add(format_name(tensor.dtype()));
    add(fmt::format("{}", fmt::join(tensor.shape(), ",")));
    add(chars_of(tensor));
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(&state));
}

/// Removes the checksum from the metadata, and verifies it if there is one. It has two entries, so
/// that a file with one damaged entry is not mistaken for an older file without a checksum.
void verify(Safetensors& contents) {
  const auto sum = contents.metadata.extract(checksum_name),
             by = contents.metadata.extract(function_name);
  if (sum.empty() && by.empty()) return;
  if (sum.empty() || by.empty())
    malformed("its checksum or the name of its checksum function is missing");
  if (by.mapped() != function)
    malformed("its checksum function is {}, not {}", in_quotes(by.mapped()), function);
  if (sum.mapped() != checksum_of(contents)) {
    malformed(
        "its contents do not match its checksum: it is damaged, or a program changed it without "
        "updating the checksum");
  }
  contents.checksum = sum.mapped();
}

/// Throws Malformed if the dtype is not supported or an element cannot be converted.
Tensor read_tensor(const Entry& entry, const auto& read) {
  const FileDType* dtype = entry.read_as();
  if (!dtype) malformed("dtype {} is unknown", in_quotes(entry.dtype));
  Tensor x = Tensor::uninitialized(entry.shape, dtype->as);
  if (!dtype->convert) {
    read(entry.begin, mutable_bytes_of(x));
    return x;
  }
  std::vector<std::byte> bytes(entry.end - entry.begin);
  read(entry.begin, std::span(bytes));
  dtype->convert(bytes, x);
  return x;
}

/// Reads a file of `size` bytes by read(at, to): eight bytes with the length of the header, the
/// header, and the tensors. `name` is the first word of messages.
Safetensors read_contents(std::size_t size, const auto& read, const std::string& name) try {
  std::uint64_t length = 0;
  if (size < sizeof length) malformed("it is shorter than its header");
  read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > longest_header) malformed("its header is longer than the format allows");
  if (length > size - sizeof length) malformed("it is shorter than its header");
  std::string text(length, '\0');
  read(sizeof length, std::as_writable_bytes(std::span(text)));
  const std::size_t header_end = sizeof length + length;
  const auto read_data = [&](std::size_t at, auto to) { read(header_end + at, to); };
  Safetensors contents;
  for (const Entry& entry : read_header(text, size - header_end, contents.metadata)) {
    try {
      contents.tensors.emplace(entry.name, read_tensor(entry, read_data));
    } catch (const Malformed& error) {
      contents.refused.emplace(entry.name, fmt::format("{}: {} cannot be read: {}", name,
                                                       in_quotes(entry.name), error.what()));
    }
  }
  verify(contents);
  return contents;
} catch (const Malformed& error) {
  fail(name, "not a readable safetensors file: {}", error.what());
} catch (const OutOfMemory& error) {
  error.throw_as(name);
} catch (const std::bad_alloc&) {
  fail(name, "it does not fit into memory");
}

}  // namespace

void Safetensors::add(const std::string& name, Tensor tensor) {
  if (!tensors.emplace(name, std::move(tensor)).second)
    fail("safetensors", "the name '{}' occurs twice", name);
}

const Tensor* Safetensors::find(std::string_view name) const& {
  if (const auto reason = refused.find(name); reason != refused.end()) throw Error(reason->second);
  const auto at = tensors.find(name);
  return at == tensors.end() ? nullptr : &at->second;
}

void save_safetensors(const std::filesystem::path& path, const Safetensors& contents) {
  if (!contents.refused.empty())
    fail("save_safetensors", "the file would lack a tensor: {}", contents.refused.begin()->second);
  Safetensors file = contents;  // shares the tensors with `contents`
  file.metadata.erase(checksum_name), file.metadata.erase(function_name);
  file.metadata.insert({{checksum_name, checksum_of(file)}, {function_name, function}});
  const std::string header = header_text(file);
  const std::uint64_t length = header.size();
  if (length > longest_header)
    fail("save_safetensors", "the header has {} bytes, more than {}", length, longest_header);
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&length), sizeof length},
                                         header};
  for (const auto& [name, tensor] : contents.tensors) parts.push_back(chars_of(tensor));
  write_file(path, parts);
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  return read_contents(file.size, file.read, utf8_path(path));
}

Safetensors load_safetensors(std::span<const std::byte> bytes) {
  const auto read = [&](std::size_t at, std::span<std::byte> to) {
    std::ranges::copy(bytes.subspan(at, to.size()), to.begin());
  };
  return read_contents(bytes.size(), read, "load_safetensors");
}

}  // namespace attune
