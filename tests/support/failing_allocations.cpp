#include "support/failing_allocations.hpp"

#include <cstdlib>
#include <new>

namespace attune::test {

constinit Budget blocks, objects;

}  // namespace attune::test

using namespace attune::test;

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  void* memory = nullptr;
  return blocks.take() && posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* operator new(std::size_t bytes) {
  void* memory = objects.take() ? std::malloc(bytes) : nullptr;
  return memory ? memory : throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return objects.take() ? std::malloc(bytes) : nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
