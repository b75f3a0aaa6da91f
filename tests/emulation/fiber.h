#ifndef LONGWAVE_TESTS_EMULATION_FIBER_H_
#define LONGWAVE_TESTS_EMULATION_FIBER_H_

#include <cstddef>

namespace longwave::emulation {

// A stack on which functions run, and the place where they stopped. Fibers hand control to each
// other directly: one switch costs a few nanoseconds when the two are at the same place of the
// code, as the threads of a block mostly are, and several times that by way of a scheduler's stack.
class Fiber {
 public:
  // The sanitizers' frames are large, and untouched pages cost nothing.
  static constexpr size_t kStackBytes = size_t{256} << 10;

  // The stack that makes it.
  Fiber() = default;
  // A new stack, on which main() begins at the first switch to it. main never returns.
  explicit Fiber(void (*main)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Called on this fiber: goes on with the other. Returns when some fiber switches back.
  void SwitchTo(Fiber& other);

  // Whether the address is in the page below the stack: it has overflown.
  bool IsGuard(const void* address) const;

 private:
  void Arrive(Fiber& from, void* from_context);

  void* context_ = nullptr;       // while it does not run
  std::byte* mapping_ = nullptr;  // a guard page, then the stack; null for a stack of others
  size_t guard_bytes_ = 0;
  void (*main_)() = nullptr;
  // For the address sanitizer.
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_FIBER_H_
