#include "tests/emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

// Not boost::context::fiber: its constructor switches to the new stack and back unseen by the
// sanitizers. These two functions are what it stands on.
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "tests/emulation/refuse.h"
#include "tests/emulation/sanitizer.h"

namespace longwave::emulation {

namespace context = boost::context::detail;

struct Fiber::Context {
  std::byte* mapping = nullptr;  // a guard page, then the stack
  size_t guard_bytes = 0;
  context::fcontext_t fiber = nullptr;
  context::fcontext_t caller = nullptr;
#ifdef LONGWAVE_EMULATION_ASAN
  void* fiber_fake_stack = nullptr;
  void* caller_fake_stack = nullptr;
  const void* caller_stack = nullptr;
  size_t caller_stack_bytes = 0;
#endif

  std::byte* stack() const { return mapping + guard_bytes; }

  // Around a switch, on each of the stacks: the address sanitizer must know which it is on.
  void BeforeResume() {
#ifdef LONGWAVE_EMULATION_ASAN
    __sanitizer_start_switch_fiber(&caller_fake_stack, stack(), kStackBytes);
#endif
  }
  void AfterResume() {
#ifdef LONGWAVE_EMULATION_ASAN
    __sanitizer_finish_switch_fiber(caller_fake_stack, nullptr, nullptr);
#endif
  }
  void BeforeSuspend() {
#ifdef LONGWAVE_EMULATION_ASAN
    __sanitizer_start_switch_fiber(&fiber_fake_stack, caller_stack, caller_stack_bytes);
#endif
  }
  void AfterSuspend() {
#ifdef LONGWAVE_EMULATION_ASAN
    __sanitizer_finish_switch_fiber(fiber_fake_stack, &caller_stack, &caller_stack_bytes);
#endif
  }
};

Fiber::Fiber() : context_(new Context) {
  context_->guard_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapping = mmap(nullptr, context_->guard_bytes + kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, context_->guard_bytes, PROT_NONE) != 0) {
    Refuse("no memory for the stack of a thread of a block");
  }
  context_->mapping = static_cast<std::byte*>(mapping);
  context_->fiber = context::make_fcontext(context_->stack() + kStackBytes, kStackBytes,
                                           [](context::transfer_t from) {
                                             Fiber* self = static_cast<Fiber*>(from.data);
                                             self->context_->caller = from.fctx;
                                             Main(self);
                                           });
}

Fiber::~Fiber() {
  Unpoison(context_->stack(), kStackBytes);
  munmap(context_->mapping, context_->guard_bytes + kStackBytes);
  delete context_;
}

void Fiber::Main(Fiber* self) {
  self->context_->AfterSuspend();
  for (;;) {
    self->function_();
    self->function_ = nullptr;
    self->Suspend();
  }
}

void Fiber::Begin(void (*function)()) { function_ = function; }

void Fiber::Resume() {
  context_->BeforeResume();
  context_->fiber = context::jump_fcontext(context_->fiber, this).fctx;
  context_->AfterResume();
}

void Fiber::Suspend() {
  context_->BeforeSuspend();
  context_->caller = context::jump_fcontext(context_->caller, nullptr).fctx;
  context_->AfterSuspend();
}

bool Fiber::IsGuard(const void* address) const {
  const std::byte* at = static_cast<const std::byte*>(address);
  return at >= context_->mapping && at < context_->stack();
}

}  // namespace longwave::emulation
