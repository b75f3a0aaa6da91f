#ifndef LONGWAVE_TESTS_EMULATION_FIBER_H_
#define LONGWAVE_TESTS_EMULATION_FIBER_H_

#include <cstddef>

namespace longwave::emulation {

// A stack of its own on which functions run until they suspend. Made once, used for many functions.
class Fiber {
 public:
  // The sanitizers' frames are large, and what is never touched costs nothing.
  static constexpr size_t kStackBytes = size_t{256} << 10;

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next Resume begins function(). The one before has returned.
  void Begin(void (*function)());
  // Runs it until it suspends or returns.
  void Resume();
  // Called by the function: back to who resumed it.
  void Suspend();

  bool done() const { return function_ == nullptr; }
  // Whether the address is in the page below the stack: it has overflown.
  bool IsGuard(const void* address) const;

 private:
  struct Context;
  static void Main(Fiber* self);

  Context* context_;
  void (*function_)() = nullptr;
};

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_FIBER_H_
