#include "pair_store.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& directory) {
  throw Error(fmt::format("{}: a temporary file cannot be written: {}", directory.string(),
                          std::strerror(errno)));
}

/// A file without a name, or with one that is removed at once.
int open_nameless(const std::filesystem::path& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = (directory / "attune-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

DiskBytes::DiskBytes(std::filesystem::path directory, std::size_t in_memory)
    : directory_(std::move(directory)), in_memory_(in_memory) {}

DiskBytes::~DiskBytes() {
  if (mapping_) ::munmap(mapping_, written_);
  if (file_ >= 0) ::close(file_);
}

void DiskBytes::append(std::span<const std::byte> bytes) {
  if (ended_) fail("DiskBytes", "append after bytes()");
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() > in_memory_) flush();
}

void DiskBytes::flush() {
  if (file_ < 0) file_ = open_nameless(directory_);
  if (file_ < 0) fail_with_errno(directory_);
  for (std::span<const std::byte> rest(buffer_); !rest.empty();) {
    const ssize_t n = ::write(file_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(directory_);
    rest = rest.subspan(static_cast<std::size_t>(n));
  }
  written_ += buffer_.size();
  buffer_.clear();
}

std::span<const std::byte> DiskBytes::bytes() {
  ended_ = true;
  if (file_ < 0) return buffer_;
  if (!mapping_) {
    flush();
    buffer_ = {};
    void* const mapping = ::mmap(nullptr, written_, PROT_READ, MAP_SHARED, file_, 0);
    if (mapping == MAP_FAILED) fail_with_errno(directory_);
    mapping_ = mapping;
  }
  return {static_cast<const std::byte*>(mapping_), written_};
}

void PairStore::add(const Pair& pair) {
  words_.append(pair.source);
  words_.append(pair.target);
  ends_.append(words_.size());
  lengths_.append(lengths_of(pair));
}

Pair PairStore::operator[](std::size_t i) {
  const auto [sources, targets] = lengths_.values()[i];
  const auto words =
      words_.values().subspan(ends_.values()[i] - sources - targets, sources + targets);
  const auto source = words.first(sources), target = words.last(targets);
  return {Sentence(source.begin(), source.end()), Sentence(target.begin(), target.end())};
}

}  // namespace attune::text
