#ifndef LONGWAVE_TESTS_SUPPORT_REPLACED_NEW_H_
#define LONGWAVE_TESTS_SUPPORT_REPLACED_NEW_H_

#include <cstdlib>
#include <new>

// Replaces operator new and delete of a program, one source file of which includes this header and
// defines the counting functions.
void NoteAllocated(void* memory);
void NoteReleased(void* memory);

namespace {

void* Allocated(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  NoteAllocated(memory);
  return memory;
}

void Release(void* memory) {
  NoteReleased(memory);
  std::free(memory);
}

}  // namespace

// If inlined, the compiler would see malloc and delete in one place and warn.
__attribute__((noinline)) void* operator new(size_t bytes) {
  return Allocated(std::malloc(bytes == 0 ? 1 : bytes));
}
__attribute__((noinline)) void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<size_t>(alignment);
  return Allocated(std::aligned_alloc(to, (bytes + to - 1) / to * to));
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { Release(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { Release(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::align_val_t) noexcept {
  Release(memory);
}
__attribute__((noinline)) void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  Release(memory);
}

#endif  // LONGWAVE_TESTS_SUPPORT_REPLACED_NEW_H_
