#include "pair_store.hpp"

#include <cerrno>
#include <cstring>

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

/// A file without a name, or with one that is removed at once; null where there can be none.
std::FILE* open_nameless(const std::filesystem::path& directory) {
  int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = (directory / "attune-XXXXXX").string();
    file = ::mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) ::unlink(name.c_str());
  }
  return file < 0 ? nullptr : ::fdopen(file, "w+");
}

}  // namespace

DiskBytes::~DiskBytes() {
  if (mapping_) ::munmap(mapping_, size_);
  if (file_) std::fclose(file_);
}

void DiskBytes::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (!file_) file_ = open_nameless(directory_);
  if (!file_ || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    fail_with_errno(directory_);
  size_ += bytes.size();
}

std::span<const std::byte> DiskBytes::bytes() {
  if (file_ && !mapping_) {
    if (std::fflush(file_) != 0) fail_with_errno(directory_);
    void* const mapping = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, ::fileno(file_), 0);
    if (mapping == MAP_FAILED) fail_with_errno(directory_);
    mapping_ = mapping;
  }
  return {static_cast<const std::byte*>(mapping_), size_};
}

void PairStore::add(const Pair& pair) {
  Sentence words = pair.source;
  words.insert(words.end(), pair.target.begin(), pair.target.end());
  words_.add(words);
  lengths_.append(lengths_of(pair));
}

Pair PairStore::operator[](std::size_t i) {
  const auto [sources, targets] = lengths_.values()[i];
  const auto source = words_[i].first(sources), target = words_[i].last(targets);
  return {Sentence(source.begin(), source.end()), Sentence(target.begin(), target.end())};
}

}  // namespace attune::text
