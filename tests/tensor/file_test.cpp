#include <filesystem>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <attune/tensor/file.hpp>

#include "support/naive.hpp"
#include "support/scratch_directory.hpp"

namespace attune {

TEST_CASE("write_file: keeps permissions and a symbolic link, replaces the file that it names") {
  using std::filesystem::perms;
  const ScratchDirectory scratch;
  write_file(scratch / "file", "old");
  permissions(scratch / "file", perms::owner_read);
  std::filesystem::create_symlink("file", scratch / "link");
  write_file(scratch / "link", "new");
  CHECK(std::filesystem::is_symlink(scratch / "link"));
  CHECK(read_file(scratch / "file") == "new");
  CHECK(status(scratch / "file").permissions() == perms::owner_read);
  std::filesystem::create_symlink("link to nothing", scratch / "chain");
  std::filesystem::create_symlink("created", scratch / "link to nothing");
  write_file(scratch / "chain", "new");
  CHECK(std::filesystem::is_symlink(scratch / "chain"));
  CHECK(read_file(scratch / "created") == "new");
}

TEST_CASE("write_file, read_file: a round trip keeps bytes of every value") {
  const ScratchDirectory scratch;
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += static_cast<char>(i * 7);
  write_file(scratch / "a", bytes);
  CHECK(read_file(scratch / "a") == bytes);
  write_file(scratch / "a", "");
  CHECK(read_file(scratch / "a").empty());
  const std::vector<std::string_view> parts{"one ", "", "two"};
  write_file(scratch / "a", parts);
  CHECK(read_file(scratch / "a") == "one two");
  CHECK(scratch.count() == 1);
}

TEST_CASE("make_directories: creates missing parents; an error names the path") {
  const ScratchDirectory scratch;
  for (const char* path : {"a/b/c", "a/b/c", "a/d/", "a/./e"}) {
    make_directories(scratch / path);
    CHECK(std::filesystem::is_directory(scratch / path));
  }
  write_file(scratch / "file", "");
  for (const char* path : {"file", "file/a/b"}) {
    CHECK_ERROR((scratch / path).string() + ": cannot be created: Not a directory",
                make_directories(scratch / path));
  }
}

TEST_CASE("read_file: reads a file in several reads; a file above the limit is an error") {
  const ScratchDirectory scratch;
  std::string bytes((3 << 20) + 17, 'x');
  bytes[1 << 20] = 'y';
  write_file(scratch / "a", bytes);
  CHECK(read_file(scratch / "a") == bytes);
  CHECK_ERROR("/dev/zero: cannot be read: there are more than 2097152 bytes",
              read_file("/dev/zero", 1 << 21));
  write_file(scratch / "a", "12345");
  CHECK(read_file(scratch / "a", 5) == "12345");
  CHECK_THROWS_AS(read_file(scratch / "a", 4), Error);
}

TEST_CASE("InputFile: reads at any offset; reading beyond the end is an error") {
  const ScratchDirectory scratch;
  write_file(scratch / "a", "0123456789");
  const InputFile file(scratch / "a");
  CHECK(file.size == 10);
  char bytes[4];
  file.read(6, std::as_writable_bytes(std::span(bytes)));
  CHECK(std::string_view(bytes, 4) == "6789");
  CHECK_ERROR((scratch / "a").string() + ": cannot be read: it became shorter after it was opened",
              file.read(7, std::as_writable_bytes(std::span(bytes))));
}

TEST_CASE("write_file: a failed rename leaves no temporary file") {
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "model");
  CHECK_ERROR((scratch / "model").string() + ": cannot be written: Is a directory",
              write_file(scratch / "model", "x"));
  CHECK(std::filesystem::is_directory(scratch / "model"));
  CHECK(scratch.count() == 1);
}

TEST_CASE("files: errors have the path and the reason") {
  const ScratchDirectory scratch;
  write_file(scratch / "file", "x");
  CHECK_ERROR((scratch / "file" / "model").string() + ": cannot be written: Not a directory",
              write_file(scratch / "file" / "model", "x"));
  CHECK_ERROR(
      (scratch / "none" / "model").string() + ": cannot be written: No such file or directory",
      write_file(scratch / "none" / "model", "x"));
  CHECK_ERROR((scratch / "none").string() + ": cannot be read: No such file or directory",
              read_file(scratch / "none"));
  CHECK_ERROR(scratch.path().string() + ": cannot be read: Is a directory",
              read_file(scratch.path()));
}

TEST_CASE("write_file: a path without directory is relative to the working directory") {
  const ScratchDirectory scratch;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  write_file("here", "x");
  std::filesystem::current_path(before);
  CHECK(read_file(scratch / "here") == "x");
}

}  // namespace attune
