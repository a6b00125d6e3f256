#include "tests/support/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<bool> g_counting{false};
std::atomic<int> g_allocations{0};
}  // namespace

void* operator new(size_t size) {
  if (g_counting.load(std::memory_order_relaxed)) ++g_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace antiphon {

void BeginCountingAllocations() {
  g_allocations = 0;
  g_counting = true;
}

int EndCountingAllocations() {
  g_counting = false;
  return g_allocations;
}

}  // namespace antiphon
