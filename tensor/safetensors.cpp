#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/safetensors.hpp>

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_header = std::size_t{100} << 20;  // the format's own limit

const char* format_name(DType dtype) {
  return dtype == DType::f32 ? "F32" : dtype == DType::f64 ? "F64" : "I32";
}

std::string_view bytes_of(const Tensor& x) {
  const auto view = [&](const auto* data) {
    return std::string_view(reinterpret_cast<const char*>(data),
                            static_cast<std::size_t>(x.size()) * size_of(x.dtype()));
  };
  switch (x.dtype()) {
    case DType::f32:
      return view(x.data<float>());
    case DType::f64:
      return view(x.data<double>());
    case DType::i32:
      break;
  }
  return view(x.data<std::int32_t>());
}

/// One tensor's entry of a header, checked.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::size_t begin, end;
};

[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& why) {
  throw Error(fmt::format("{}: not a readable safetensors file: {}", path.string(), why));
}

DType read_dtype(const std::string& name) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32}) {
    if (name == format_name(dtype)) return dtype;
  }
  throw std::runtime_error(fmt::format("dtype {} is not F32, F64 or I32", name));
}

/// Size of a shape in bytes, or an exception where it overflows or exceeds `limit`.
std::size_t checked_bytes(const Shape& shape, DType dtype, std::size_t limit) {
  std::size_t bytes = size_of(dtype);
  for (Index extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes) || bytes > limit) {
      throw std::runtime_error(fmt::format("{} is larger than the file", to_string(shape)));
    }
  }
  return bytes;
}

/// An array of whole numbers from 0; JSON conversions alone would take -1, 2.5 and true.
std::vector<Index> whole_numbers(const Json& json, const char* what) {
  const auto expected = [&](bool holds) {
    if (!holds) throw std::runtime_error(fmt::format("{} are not whole numbers from 0", what));
  };
  expected(json.is_array());
  std::vector<Index> numbers;
  for (const Json& number : json) {
    expected(number.is_number_unsigned() &&
             number.get<std::uint64_t>() <= std::numeric_limits<Index>::max());
    numbers.push_back(number.get<Index>());
  }
  return numbers;
}

Entry read_entry(const std::string& name, const Json& json, std::size_t available) {
  if (!json.is_object())
    throw std::runtime_error(fmt::format("'{}' is not described by an object", name));
  const auto extents = whole_numbers(json.at("shape"), "extents");
  const auto offsets = whole_numbers(json.at("data_offsets"), "offsets");
  Entry entry{name, read_dtype(json.at("dtype").get<std::string>()), Shape(extents), 0, 0};
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<std::size_t>(offsets[1]) > available) {
    throw std::runtime_error(fmt::format("'{}' lies outside the file", name));
  }
  entry.begin = static_cast<std::size_t>(offsets[0]),
  entry.end = static_cast<std::size_t>(offsets[1]);
  if (checked_bytes(entry.shape, entry.dtype, available) != entry.end - entry.begin) {
    throw std::runtime_error(fmt::format("'{}' {} does not take {} bytes", name,
                                         to_string(entry.shape), entry.end - entry.begin));
  }
  return entry;
}

/// Entries must follow one another without gap or overlap, up to the end of the file.
void check_coverage(std::vector<Entry> entries, std::size_t available) {
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      throw std::runtime_error(fmt::format("'{}' leaves a gap or overlaps", entry.name));
    at = entry.end;
  }
  if (at != available)
    throw std::runtime_error(fmt::format("{} bytes are left over", available - at));
}

/// A JSON parser's callback that refuses a name which occurs twice in an object.
class UniqueNames {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start)
      seen_.resize(static_cast<std::size_t>(depth) + 1);
    if (event == Json::parse_event_t::key) {
      auto& names = seen_.at(static_cast<std::size_t>(depth) - 1);
      if (!names.insert(value.get<std::string>()).second) {
        throw std::runtime_error(fmt::format("'{}' occurs twice", value.get<std::string>()));
      }
    }
    if (event == Json::parse_event_t::object_end) seen_.at(static_cast<std::size_t>(depth)).clear();
    return true;
  }

 private:
  std::vector<std::set<std::string>> seen_;
};

Tensor read_tensor(const Entry& entry, std::string_view bytes) {
  Tensor x = Tensor::uninitialized(entry.shape, entry.dtype);
  const auto read = [&](auto* to) {
    std::memcpy(to, bytes.data() + entry.begin, entry.end - entry.begin);
  };
  switch (entry.dtype) {
    case DType::f32:
      read(x.mutable_data<float>());
      break;
    case DType::f64:
      read(x.mutable_data<double>());
      break;
    case DType::i32:
      read(x.mutable_data<std::int32_t>());
      break;
  }
  return x;
}

Safetensors parse(std::string_view file) {
  std::uint64_t header_length = 0;
  if (file.size() < sizeof header_length) throw std::runtime_error("it is shorter than its header");
  std::memcpy(&header_length, file.data(), sizeof header_length);
  file.remove_prefix(sizeof header_length);
  if (header_length > longest_header)
    throw std::runtime_error("its header's length is not plausible");
  if (header_length > file.size()) throw std::runtime_error("it is shorter than its header");
  const std::string_view header_text = file.substr(0, header_length),
                         bytes = file.substr(header_length);

  Safetensors contents;
  std::vector<Entry> entries;
  const Json header = Json::parse(header_text, UniqueNames());
  if (!header.is_object()) throw std::runtime_error("its header is not a JSON object");
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      contents.metadata = value.get<std::map<std::string, std::string>>();
    } else {
      entries.push_back(read_entry(name, value, bytes.size()));
    }
  }
  check_coverage(entries, bytes.size());
  for (const Entry& entry : entries)
    contents.tensors.emplace_back(entry.name, read_tensor(entry, bytes));
  return contents;
}

std::string to_text(const Json& header) {
  try {
    return header.dump();
  } catch (const nlohmann::json::exception&) {
    fail("save_safetensors", "a name or the metadata are not UTF-8");
  }
}

}  // namespace

const Tensor* Safetensors::find(std::string_view name) const {
  const auto at = std::ranges::find(
      tensors, name, [](const auto& entry) -> const std::string& { return entry.first; });
  return at == tensors.end() ? nullptr : &at->second;
}

void save_safetensors(const std::filesystem::path& path, const Safetensors& contents) {
  Json header = Json::object();
  if (!contents.metadata.empty()) header["__metadata__"] = contents.metadata;
  std::vector<std::string_view> parts(2);
  std::size_t at = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    if (name == "__metadata__" || header.contains(name)) {
      fail("save_safetensors",
           fmt::format("the name '{}' {}", name,
                       name == "__metadata__" ? "is reserved" : "occurs twice"));
    }
    const std::string_view bytes = bytes_of(tensor);
    header[name] = {{"dtype", format_name(tensor.dtype())},
                    {"shape", std::vector<Index>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {at, at + bytes.size()}}};
    at += bytes.size();
    parts.push_back(bytes);
  }
  std::string text = to_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the tensors are aligned in the file
  const std::uint64_t length = text.size();
  parts[0] = {reinterpret_cast<const char*>(&length), sizeof length};
  parts[1] = text;
  write_file(path, parts);
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  try {
    return parse(file);
  } catch (const nlohmann::json::exception&) {
    fail_file(path, "its header is not the JSON that was expected");
  } catch (const std::runtime_error& e) {
    fail_file(path, e.what());
  }
}

}  // namespace attune
