#include <cstring>
#include <fstream>
#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <attune/tensor/file.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"
#include "support/scratch_directory.hpp"

namespace attune {
namespace {

/// The bytes of a file: header length, header, data.
std::string file_of(const std::string& header, const std::string& data = {}) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

/// One tensor's entry in a header.
std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

/// The bytes of a file with these header entries.
std::string file_with(const std::vector<std::string>& entries, const std::string& data) {
  std::string header;
  for (const std::string& e : entries) header.append(header.empty() ? "{" : ",").append(e);
  return file_of(header + "}", data);
}

/// The error of reading these bytes as a file, without the path that it must begin with. Checks
/// that reading them from memory gives the same error.
std::string rejection(const std::string& bytes) {
  const ScratchDirectory scratch;
  const auto path = scratch / "model.safetensors";
  write_file(path, bytes);
  const std::string error = error_of([&] { load_safetensors(path); });
  const std::string in_memory =
      error_of([&] { load_safetensors(std::as_bytes(std::span(bytes))); });
  const std::string start = path.string() + ": not a readable safetensors file: ";
  if (error == "no error") {
    CHECK(in_memory == error);
    return error;
  }
  CHECK_MESSAGE(error.starts_with(start), error);
  const std::string reason = error.substr(std::min(error.size(), start.size()));
  CHECK(in_memory == "load_safetensors: not a readable safetensors file: " + reason);
  return reason;
}

Safetensors example() {
  Safetensors contents;
  contents.tensors = {
      {"encoder.W_h", Tensor::of<float>({2, 3}, {1, -2.5f, 3e-40f, 4, 5, 6})},
      {"bias", reals({2}, {0.1, -std::numeric_limits<double>::infinity()})},
      {"ids", ints({3, 1}, {-7, 0, 2147483647})},
      {"empty", zeros({0, 4})},
      {"scalar", scalar(2.5)},
  };
  contents.metadata = {{"format", "attune"}, {"words", "Grüße\n\"quoted\""}};
  return contents;
}

}  // namespace

TEST_CASE("Safetensors: a round trip keeps dtypes, shapes, names and metadata") {
  const ScratchDirectory scratch;
  const Safetensors saved = example();
  save_safetensors(scratch / "a", saved);
  const std::string bytes = read_file(scratch / "a");
  for (const Safetensors& loaded :
       {load_safetensors(scratch / "a"), load_safetensors(std::as_bytes(std::span(bytes)))}) {
    REQUIRE(loaded.tensors.size() == saved.tensors.size());
    for (const auto& entry : saved.tensors) {
      CAPTURE(entry.first);
      REQUIRE(loaded.find(entry.first) != nullptr);
      CHECK(identical(*loaded.find(entry.first), entry.second));
    }
    CHECK(loaded.metadata == saved.metadata);
    CHECK(loaded.find("none") == nullptr);
  }
}

TEST_CASE("Safetensors: a round trip keeps NaN and views bit for bit") {
  const ScratchDirectory scratch;
  const Tensor x = reals({3, 1}, {1, std::numeric_limits<double>::quiet_NaN(), -0.0});
  save_safetensors(scratch / "a", {{{"x", x.slice(1, 3)}}, {}});
  const Safetensors file = load_safetensors(scratch / "a");
  CHECK(identical(*file.find("x"), x.slice(1, 3)));
}

TEST_CASE("Safetensors: the bytes follow the format") {
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", example());
  const std::string bytes = read_file(scratch / "a");
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  }
  CHECK((8 + length) % 8 == 0);
  CHECK(bytes[8] == '{');
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  const std::string data = bytes.substr(8 + length);
  CHECK(header["__metadata__"]["format"] == "attune");
  CHECK(header["encoder.W_h"]["dtype"] == "F32");
  CHECK(header["encoder.W_h"]["shape"] == std::vector<int>{2, 3});
  CHECK(header["bias"]["dtype"] == "F64");
  CHECK(header["ids"]["dtype"] == "I32");
  CHECK(header["scalar"]["shape"].empty());
  CHECK(header["scalar"]["shape"].is_array());
  const auto at = [&](const char* name) {
    return header[name]["data_offsets"][0].get<std::size_t>();
  };
  float second;
  std::memcpy(&second, data.data() + at("encoder.W_h") + 4, 4);
  CHECK(second == -2.5f);
  double first;
  std::memcpy(&first, data.data() + at("bias"), 8);
  CHECK(first == 0.1);
  CHECK(data.substr(at("ids"), 4) == std::string("\xf9\xff\xff\xff", 4));
  CHECK(data.size() == 6 * 4 + 2 * 8 + 3 * 4 + 0 + 4);
}

TEST_CASE("Safetensors: a file without tensors and metadata") {
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", {});
  const Safetensors loaded = load_safetensors(scratch / "a");
  CHECK(loaded.tensors.empty());
  CHECK(loaded.metadata.empty());
}

TEST_CASE("Safetensors: reads files of other writers, with another order and spaces") {
  const ScratchDirectory scratch;
  write_file(scratch / "a", file_of(fmt::format("{{ {} , {} }}  ", entry("b", "[1]", "[4, 8]"),
                                                entry("a", "[1]", "[0,4]", "I32")),
                                    std::string("\x05\0\0\0\0\0\x80\x3f", 8)));
  const Safetensors loaded = load_safetensors(scratch / "a");
  CHECK(loaded.find("b")->item() == 1);
  CHECK(loaded.find("a")->item() == 5);
}

TEST_CASE("Safetensors: a file truncated at any byte is refused") {
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", example());
  const std::string bytes = read_file(scratch / "a");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK(rejection(bytes.substr(0, length)) != "no error");
  }
  CHECK(rejection(bytes) == "no error");
}

/// A file and the expected error; an empty text accepts any error.
struct Refused {
  std::string file, reason = "";
};

void check_refused(const std::vector<Refused>& files) {
  for (const auto& [file, reason] : files) {
    CAPTURE_BINDING(file);
    const std::string found = rejection(file);
    CHECK(found != "no error");
    if (!reason.empty()) CHECK(found == reason);
  }
}

const std::string four(4, '\0'), eight(8, '\0');

TEST_CASE("Safetensors: trailing bytes, gaps and overlaps are refused") {
  const std::string x1 = entry("x", "[1]", "[0,4]"), x2 = entry("x", "[2]", "[0,8]");
  check_refused(
      {{file_with({x1}, eight), "4 bytes follow the last tensor"},
       {file_of("{}", eight), "8 bytes follow the last tensor"},
       {file_with({entry("x", "[1]", "[4,8]")}, eight), "'x' leaves a gap or overlaps"},
       {file_with({x1, entry("y", "[2]", "[0,8]")}, eight), "'y' leaves a gap or overlaps"},
       {file_with({x2, entry("y", "[1]", "[4,8]")}, eight), "'y' leaves a gap or overlaps"},
       {file_with({x1, entry("y", "[1]", "[0,4]")}, eight)}});
}

TEST_CASE("Safetensors: sizes beyond the file are refused before memory is allocated") {
  const std::size_t before = buffer_statistics().peak;
  const auto x = [](const char* shape, const char* offsets) {
    return file_with({entry("x", shape, offsets)}, four);
  };
  check_refused({{x("[1]", "[0,8]"), "'x' lies outside the file"},
                 {x("[4000000000,1000]", "[0,4]"), "(4000000000, 1000) is larger than the file"},
                 {x("[4294967295,4294967295,4294967295,4294967295]", "[0,4]")},
                 {x("[1]", "[0,18446744073709551615]")},
                 {x("[1]", "[4,0]")},
                 {x("[1]", "[0,4,4]")}});
  CHECK(buffer_statistics().peak == before);
}

TEST_CASE("Safetensors: an implausible header length is refused") {
  for (std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 20, std::uint64_t{1} << 40,
                               ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    std::string bytes = file_of("{}");
    std::memcpy(bytes.data(), &length, sizeof length);
    check_refused({{bytes}});
  }
}

TEST_CASE("Safetensors: malformed shapes, and shapes that do not match their bytes, are refused") {
  check_refused({{file_with({entry("x", "[1]", "[0,8]")}, eight), "'x' (1) does not take 8 bytes"},
                 {file_with({entry("x", "[2]", "[0,8]", "F64")}, eight)}});
  // 2^32 + 2 has the same low 32 bits as 2.
  for (const std::string shape :
       {"[1,1,1,1,1,1,2]", "[-2]", "[-1,-2]", "[2.0]", "[2.5]", "[true,2]", "[\"2\"]", "[null]",
        "2", "\"2\"", "null", "{}", "[[2]]", "[4294967298]"}) {
    check_refused({{file_with({entry("x", shape, "[0,8]")}, eight)}});
  }
}

TEST_CASE("Safetensors: unsupported offsets, dtypes and ranks are refused") {
  for (const std::string offsets : {"[0.5,8.5]", "[-1,7]", "[false,8]", "[0]", "[]", "8", "null"}) {
    check_refused({{file_with({entry("x", "[2]", offsets)}, eight)}});
  }
  check_refused({{file_with({entry("x", "[3]", "[0,4]", "BF16")}, four)},
                 {file_with({entry("x", "[2]", "[0,8]", "U8")}, eight)},
                 {file_with({entry("x", "[2]", "[0,9]", "BOOL")}, eight)}});
  CHECK(rejection(file_with({entry("x", "[1,1,1,1,1,1]", "[0,4]")}, four)) == "no error");
  check_refused(
      {{file_with({entry("x", "[1,1,1,1,1,1,1]", "[0,4]")}, four), "'x' has more than 6 axes"}});
}

TEST_CASE(
    "Safetensors: other floating dtypes are widened; other integers are narrowed or refused") {
  const auto load = [](const std::string& dtype, const auto& values) {
    const auto n = static_cast<Index>(values.size());
    const std::string bytes(reinterpret_cast<const char*>(values.data()), sizeof values);
    const std::string file = file_with(
        {entry("other", "[]", "[0,4]"),
         entry("x", fmt::format("[{}]", n), fmt::format("[4,{}]", 4 + bytes.size()), dtype)},
        four + bytes);
    return load_safetensors(std::as_bytes(std::span(file)));
  };
  const auto same = [](const Safetensors& file, const Tensor& x) {
    return file.find("x") && identical(*file.find("x"), x);
  };
  constexpr auto inf = std::numeric_limits<float>::infinity();
  CHECK(same(load("BF16", std::array<std::uint16_t, 4>{0x3F80, 0xC049, 0xFF80, 0x7FC1}),
             Tensor::of<float>({4}, {1, -3.140625f, -inf, NAN})));
  // The largest number, the smallest normal and subnormal ones, -0.
  CHECK(
      same(load("F16", std::array<std::uint16_t, 8>{0x3C00, 0xC248, 0x7BFF, 0x0400, 0x8001, 0x8000,
                                                    0xFC00, 0x7E00}),
           Tensor::of<float>({8}, {1, -3.140625f, 65504, 0x1p-14f, -0x1p-24f, -0.0f, -inf, NAN})));
  CHECK(same(load("I64", std::array<std::int64_t, 2>{INT32_MIN, INT32_MAX}),
             Tensor::of<std::int32_t>({2}, {INT32_MIN, INT32_MAX})));
  CHECK(same(load("U8", std::array<std::uint8_t, 2>{0, 255}), ints({2}, {0, 255})));
  CHECK(same(load("I8", std::array<std::int8_t, 2>{-128, 127}), ints({2}, {-128, 127})));
  CHECK(same(load("I16", std::array<std::int16_t, 1>{-7}), ints({1}, {-7})));
  CHECK(same(load("U16", std::array<std::uint16_t, 1>{65535}), ints({1}, {65535})));

  const std::pair<Safetensors, std::string> refused[] = {
      {load("I64", std::array<std::int64_t, 2>{0, std::int64_t{1} << 31}),
       "2147483648 does not fit in i32"},
      {load("U32", std::array<std::uint32_t, 1>{UINT32_MAX}), "4294967295 does not fit in i32"},
      {load("U64", std::array<std::uint64_t, 1>{UINT64_MAX}),
       "18446744073709551615 does not fit in i32"},
      {load("BOOL", std::array<std::uint8_t, 2>{0, 1}), "dtype 'BOOL' is unknown"},
      {load("f32", std::array<float, 1>{1}), "dtype 'f32' is unknown"}};
  for (const auto& one : refused) {
    CHECK(one.first.tensors.size() == 1);
    CHECK(one.first.find("other"));
    CHECK_ERROR("load_safetensors: 'x' cannot be read: " + one.second, one.first.find("x"));
    CHECK_ERROR(
        "save_safetensors: the file would lack a tensor: load_safetensors: 'x' cannot be "
        "read: " +
            one.second,
        save_safetensors(ScratchDirectory() / "x.safetensors", one.first));
  }
}

TEST_CASE("Safetensors: duplicate names are refused, also in entries and metadata") {
  check_refused(
      {{file_with({entry("x", "[1]", "[0,4]"), entry("x", "[1]", "[4,8]")}, eight),
        "'x' occurs twice"},
       {file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "'a' occurs twice"},
       {file_of(R"({"x":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,8]}})", eight),
        "'shape' occurs twice"},
       {file_of(R"({"x":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,8]}})", eight),
        "'dtype' occurs twice"},
       {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__' occurs twice"}});
}

TEST_CASE("Safetensors: a header with unexpected JSON is refused") {
  check_refused({{file_of(R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"y":[]}})"),
                  "'y' of 'x' is unknown or of a wrong type"},
                 {file_with({entry("x", "[1e999]", "[0,4]")}, four),
                  "its header has a number that is out of range"},
                 {file_of(R"({"__metadata__":{"a":["b"]}})"), "'a' of its metadata is not text"},
                 {file_of(std::string("{} \0{", 5)), "there is a NUL in its header"},
                 {file_of("{} {}"), "its header is not JSON from its byte 4 on"}});
  for (const std::string header :
       {"", "{", "}", "nonsense", "{\"x\":1}", "{\"x\":{}}", "{\"x\":null}", "[]", "null", "7",
        "\"text\"", "{\"__metadata__\":{\"a\":1}}", "{\"__metadata__\":[]}", "{\"a\":\"\xff\"}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[0]}}"}) {
    check_refused({{file_of(header)}});
  }
}

TEST_CASE(
    "Safetensors: a deeply nested or long header takes time and memory linear in its length") {
  const std::string deep = std::string(1 << 20, '[');
  for (const std::string start : {"", "{\"x\":{\"shape\":"}) {
    CHECK(rejection(file_of(start + deep)) ==
          "its header has arrays or objects inside of an array");
  }
  Safetensors contents;
  contents.metadata["text"] = std::string(1 << 22, '\"');
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", contents);
  CHECK(load_safetensors(scratch / "a").metadata == contents.metadata);
}

TEST_CASE("Safetensors: time is linear in the number of tensors") {
  Safetensors contents;  // quadratic time would take minutes
  for (int i = 0; i < 100'000; ++i) contents.add(fmt::format("layer{}.W", i), zeros({0}));
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", contents);
  const Safetensors loaded = load_safetensors(scratch / "a");
  CHECK(loaded.tensors.size() == 100'000);
  CHECK(loaded.find("layer99999.W") != nullptr);
}

TEST_CASE("Safetensors: a flipped bit anywhere in a file is detected") {
  const ScratchDirectory scratch;
  const auto path = scratch / "a";
  save_safetensors(path, {.tensors = {{"ids", ints({2}, {7, 0})}, {"w", full({2, 1}, 1.5)}},
                          .metadata = {{"note", "N"}}});
  const std::string bytes = read_file(path);
  REQUIRE(load_safetensors(path).checksum.size() == 16);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, int byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(i);
      CAPTURE(bit);
      put(i, bytes[i] ^ (1 << bit));
      CHECK_THROWS_AS(load_safetensors(path), Error);
    }
    put(i, bytes[i]);
  }
  CHECK_NOTHROW(load_safetensors(path));
}

TEST_CASE("Safetensors: the checksum is as documented") {
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", {.tensors = {{"ids", ints({3, 1}, {-7, 0, 258})},
                                               {"scalar", scalar(1, DType::f64)}},
                                   .metadata = {{"b", "two"}, {"a", "Grüße"}}});
  std::string described;
  const auto number = [&](std::uint64_t n) {
    for (int i = 0; i < 8; ++i) described += static_cast<char>(n >> 8 * i);
  };
  number(2);
  using namespace std::string_literals;
  for (const std::string& text :
       {"a"s, "Grüße"s, "b"s, "two"s, "ids"s, "I32"s, "3,1"s,
        "\xf9\xff\xff\xff\0\0\0\0\x02\x01\0\0"s, "scalar"s, "F64"s, ""s, "\0\0\0\0\0\0\xf0\x3f"s}) {
    number(text.size());
    described += text;
  }
  CHECK(XXH3_64bits("", 0) == 0x2d06800538d394c2u);  // value of the reference implementation
  CHECK(load_safetensors(scratch / "a").checksum ==
        fmt::format("{:016x}", XXH3_64bits(described.data(), described.size())));
}

TEST_CASE("Safetensors: a checksum is optional; a partial or unknown one is refused") {
  const ScratchDirectory scratch;
  write_file(scratch / "a", file_of(R"({"__metadata__":{"checksum":"their own"}})"));
  const Safetensors loaded = load_safetensors(scratch / "a");
  CHECK(loaded.checksum.empty());
  CHECK(loaded.metadata.at("checksum") == "their own");
  const std::string sum = R"("attune.checksum":"0123456789abcdef")",
                    by = R"("attune.checksum_function":)";
  const auto with = [](const std::string& entries) {
    return rejection(file_of("{\"__metadata__\":{" + entries + "}}"));
  };
  CHECK(with(sum) == "its checksum or the name of its checksum function is missing");
  CHECK(with(by + "\"XXH3-64\"") == "its checksum or the name of its checksum function is missing");
  CHECK(with(sum + "," + by + "\"CRC-32\"") == "its checksum function is 'CRC-32', not XXH3-64");
  CHECK(with(sum + "," + by + "\"XXH3-64\"").starts_with("its contents do not match its checksum"));
}

TEST_CASE("Safetensors: a changed and saved file has a new checksum") {
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", example());
  Safetensors contents = load_safetensors(scratch / "a");
  contents.metadata["attune.checksum"] = "of long ago";
  contents.tensors.erase("bias");
  save_safetensors(scratch / "b", contents);
  const Safetensors again = load_safetensors(scratch / "b");
  CHECK(again.checksum != contents.checksum);
  CHECK(again.metadata == example().metadata);
}

TEST_CASE("Safetensors: adding a name twice is an error") {
  Safetensors contents;
  contents.add("x", zeros({2}));
  CHECK_ERROR("safetensors: the name 'x' occurs twice", contents.add("x", zeros({3})));
  CHECK(contents.find("x")->shape() == Shape{2});
}

TEST_CASE("Safetensors: invalid names are an error, and the old file is kept") {
  const ScratchDirectory scratch;
  save_safetensors(scratch / "a", example());
  const std::string before = read_file(scratch / "a");
  const Tensor x = zeros({1});
  CHECK_THROWS_AS(save_safetensors(scratch / "a", {{{"__metadata__", x}}, {}}), Error);
  CHECK_THROWS_AS(save_safetensors(scratch / "a", {{{"no \xff UTF-8", x}}, {}}), Error);
  CHECK_THROWS_AS(save_safetensors(scratch / "a", {{{"undefined", Tensor()}}, {}}), Error);
  CHECK(read_file(scratch / "a") == before);
  CHECK(scratch.count() == 1);
}

}  // namespace attune
