#include <algorithm>
#include <bit>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/safetensors.hpp>

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace attune {
namespace {

using Json = nlohmann::json;

// The JSON header

/// What is wrong with a file, without its path.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where a tensor's bytes are, counted from the end of the header.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::size_t begin, end;
};

struct SafetensorsHeader {
  std::vector<Entry> entries;  // in the order of their bytes
  Metadata metadata;
};

constexpr std::string_view metadata_name = "__metadata__";

/// As the format calls it.
const char* format_name(DType dtype) {
  return dtype == DType::f32 ? "F32" : dtype == DType::f64 ? "F64" : "I32";
}

DType read_dtype(const std::string& name) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32}) {
    if (name == format_name(dtype)) return dtype;
  }
  throw Malformed(fmt::format("dtype {} is not F32, F64 or I32", name));
}

/// Size of a shape in bytes, or an exception where it overflows or exceeds `limit`.
std::size_t checked_bytes(const Shape& shape, DType dtype, std::size_t limit) {
  std::size_t bytes = size_of(dtype);
  for (Index extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes) || bytes > limit) {
      throw Malformed(fmt::format("{} is larger than the file", to_string(shape)));
    }
  }
  return bytes;
}

/// A parser's events become entries and metadata; anything else than
///
///     {"__metadata__": {NAME: TEXT, ...},
///      NAME: {"dtype": TEXT, "shape": [NUMBER, ...], "data_offsets": [NUMBER, NUMBER]}, ...}
///
/// is refused where it begins, so that nothing is kept of it.
class HeaderReader {
 public:
  explicit HeaderReader(std::size_t available) : available_(available) {}

  SafetensorsHeader header;

  bool start_object(std::size_t) {
    if (place_ == Place::start) return enter(Place::header);
    if (place_ != Place::header) unexpected();
    if (name_ != metadata_name) return enter(Place::entry);
    if (std::exchange(has_metadata_, true)) twice(name_);
    return enter(Place::metadata);
  }

  bool end_object() {
    if (place_ == Place::header) return enter(Place::end);
    if (place_ == Place::entry) add_entry();
    return enter(Place::header);
  }

  bool key(std::string& key) {
    (place_ == Place::header ? name_ : field_) = std::move(key);
    return true;
  }

  bool string(std::string& text) {
    if (place_ == Place::metadata) {
      if (!header.metadata.try_emplace(field_, std::move(text)).second) twice(field_);
    } else if (place_ == Place::entry && field_ == "dtype") {
      if (std::exchange(dtype_, read_dtype(text))) twice(field_);
    } else {
      unexpected();
    }
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::entry || (field_ != "shape" && field_ != "data_offsets")) unexpected();
    auto& numbers = field_ == "shape" ? shape_ : offsets_;
    if (numbers) twice(field_);
    numbers.emplace();
    return enter(field_ == "shape" ? Place::shape : Place::offsets);
  }

  bool end_array() { return enter(Place::entry); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::shape && place_ != Place::offsets) unexpected();
    if (value > std::numeric_limits<Index>::max()) unexpected();
    auto& numbers = place_ == Place::shape ? *shape_ : *offsets_;
    if (numbers.size() == Shape::max_rank) {
      throw Malformed(fmt::format("'{}' has more than {} axes", name_, Shape::max_rank));
    }
    numbers.push_back(static_cast<Index>(value));
    return true;
  }

  bool null() { unexpected(); }
  bool boolean(bool) { unexpected(); }
  bool number_integer(std::int64_t) { unexpected(); }
  bool number_float(double, const std::string&) { unexpected(); }
  bool binary(std::vector<std::uint8_t>&) { unexpected(); }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception&) {
    throw Malformed(fmt::format("its header is not JSON from its byte {} on", byte));
  }

 private:
  enum class Place { start, header, metadata, entry, shape, offsets, end };

  bool enter(Place place) {
    if (place == Place::entry && place_ == Place::header) {
      dtype_.reset(), shape_.reset(), offsets_.reset();
    }
    place_ = place;
    return true;
  }

  [[noreturn]] void twice(const std::string& name) const {
    throw Malformed(fmt::format("'{}' occurs twice", name));
  }

  [[noreturn]] void unexpected() const {
    switch (place_) {
      case Place::header:
        throw Malformed(fmt::format("the value of '{}' is not a JSON object", name_));
      case Place::metadata:
        throw Malformed(fmt::format("'{}' of its metadata is not text", field_));
      case Place::entry:
        throw Malformed(fmt::format("'{}' of '{}' is unknown or of a wrong type", field_, name_));
      case Place::shape:
        throw Malformed("extents are not whole numbers from 0");
      case Place::offsets:
        throw Malformed("offsets are not whole numbers from 0");
      default:
        throw Malformed("its header is not a JSON object");
    }
  }

  void add_entry() {
    if (!dtype_ || !shape_ || !offsets_) {
      throw Malformed(fmt::format("'{}' lacks a dtype, a shape or offsets", name_));
    }
    if (offsets_->size() != 2 || offsets_->front() > offsets_->back() ||
        static_cast<std::size_t>(offsets_->back()) > available_) {
      throw Malformed(fmt::format("'{}' lies outside the file", name_));
    }
    Entry entry{std::move(name_), *dtype_, Shape(*shape_),
                static_cast<std::size_t>(offsets_->front()),
                static_cast<std::size_t>(offsets_->back())};
    if (checked_bytes(entry.shape, entry.dtype, available_) != entry.end - entry.begin) {
      throw Malformed(fmt::format("'{}' {} does not take {} bytes", entry.name,
                                  to_string(entry.shape), entry.end - entry.begin));
    }
    header.entries.push_back(std::move(entry));
  }

  std::size_t available_;
  Place place_ = Place::start;
  bool has_metadata_ = false;
  std::string name_, field_;  // the last keys: of the header, and of what is in it
  std::optional<DType> dtype_;
  std::optional<std::vector<Index>> shape_, offsets_;
};

/// Names must differ, and entries follow one another without gap or overlap up to the end of the
/// file. Sorts them.
void check_entries(std::vector<Entry>& entries, std::size_t available) {
  std::ranges::sort(entries, {}, &Entry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &Entry::name);
  if (twice != entries.end()) throw Malformed(fmt::format("'{}' occurs twice", twice->name));
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      throw Malformed(fmt::format("'{}' leaves a gap or overlaps", entry.name));
    }
    at = entry.end;
  }
  if (at != available) throw Malformed(fmt::format("{} bytes are left over", available - at));
}

/// Reads the header of a file in which `available` bytes follow it. Throws Malformed unless the
/// entries take them up one after another, without gap, overlap or rest. Time and memory grow with
/// the text's length and no faster.
SafetensorsHeader parse_header(std::string_view text, std::size_t available) {
  // The parser would take it for the end of the text.
  if (text.find('\0') != text.npos) throw Malformed("there is a NUL in its header");
  HeaderReader reader(available);
  Json::sax_parse(text, &reader);
  check_entries(reader.header.entries, available);
  return std::move(reader.header);
}

/// The header of a file with these contents, tensors in the order of the map.
std::string header_text(const Safetensors& contents) try {
  std::string text = "{";
  if (!contents.metadata.empty()) {
    text += fmt::format("\"{}\":{}", metadata_name, Json(contents.metadata).dump());
  }
  std::size_t at = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    if (name == metadata_name) {
      fail("save_safetensors", fmt::format("the name '{}' is reserved", name));
    }
    const std::size_t end = at + static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype());
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        text.size() > 1 ? "," : "", Json(name).dump(), format_name(tensor.dtype()),
                        fmt::join(tensor.shape(), ","), at, end);
    at = end;
  }
  text += '}';
  // Spaces, so that the tensors are aligned in the file.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
} catch (const Json::exception&) {
  fail("save_safetensors", "a name or the metadata are not UTF-8");
}

// The file

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
    hash.add(format_name(tensor.dtype()));
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

/// A file of `size` bytes, of which read(at, to) reads some: eight bytes with the length of the
/// header, the header, and the tensors. `name` begins messages.
Safetensors load(std::size_t size, const auto& read, const std::string& name) try {
  std::uint64_t length = 0;
  if (size < sizeof length) throw Malformed("it is shorter than its header");
  read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > longest_header) throw Malformed("its header is longer than the format allows");
  if (length > size - sizeof length) throw Malformed("it is shorter than its header");
  std::string text(length, '\0');
  read(sizeof length, std::as_writable_bytes(std::span(text)));
  const std::size_t header_end = sizeof length + length;
  SafetensorsHeader header = parse_header(text, size - header_end);
  Safetensors contents{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const Entry& entry : header.entries) {
    Tensor x = Tensor::uninitialized(entry.shape, entry.dtype);
    read(header_end + entry.begin, mutable_bytes_of(x));
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
  const std::string header = header_text(file);
  const std::uint64_t length = header.size();
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&length), sizeof length},
                                         header};
  for (const auto& [name, tensor] : contents.tensors) parts.push_back(text_of(bytes_of(tensor)));
  write_file(path, parts);
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  const auto read = [&](std::size_t at, std::span<std::byte> to) { file.read(at, to); };
  return load(file.size(), read, path.string());
}

Safetensors load_safetensors(std::span<const std::byte> bytes) {
  const auto read = [&](std::size_t at, std::span<std::byte> to) {
    std::ranges::copy(bytes.subspan(at, to.size()), to.begin());
  };
  return load(bytes.size(), read, "load_safetensors");
}

}  // namespace attune
