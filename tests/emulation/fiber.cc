#include "tests/emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

// boost::context::fiber would switch to the new stack and back in its constructor, hidden from the
// sanitizers. These two functions are its basis.
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "tests/emulation/refuse.h"
#include "tests/emulation/sanitizer.h"

namespace longwave::emulation {

namespace context = boost::context::detail;

namespace {

// The source and the target of a switch, passed along with the control.
struct Switch {
  Fiber* from;
  Fiber* to;
};

}  // namespace

Fiber::Fiber(void (*main)())
    : guard_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), main_(main) {
  void* mapping = mmap(nullptr, guard_bytes_ + kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, guard_bytes_, PROT_NONE) != 0) {
    Refuse("no memory for the stack of a thread of a block");
  }
  mapping_ = static_cast<std::byte*>(mapping);
  stack_ = mapping_ + guard_bytes_;
  stack_bytes_ = kStackBytes;
  // Stacks begin at different offsets of their pages. Otherwise hundreds of them would compete for
  // a few sets of the processor's cache.
  constexpr size_t kColourBytes = 320, kColours = 64;
  static size_t made = 0;
  const size_t unused = made++ % kColours * kColourBytes;
  context_ = context::make_fcontext(mapping_ + guard_bytes_ + kStackBytes - unused,
                                    kStackBytes - unused, [](context::transfer_t transfer) {
                                      const Switch arrived = *static_cast<Switch*>(transfer.data);
                                      arrived.to->Arrive(*arrived.from, transfer.fctx);
                                      arrived.to->main_();
                                      Refuse("a fiber's main function returned");
                                    });
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
  Unpoison(stack_, stack_bytes_);
  munmap(mapping_, guard_bytes_ + kStackBytes);
}

void Fiber::SwitchTo(Fiber& other) {
  Switch to_other = {this, &other};
#ifdef LONGWAVE_EMULATION_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.stack_bytes_);
#endif
  const context::transfer_t back = context::jump_fcontext(other.context_, &to_other);
  Arrive(*static_cast<Switch*>(back.data)->from, back.fctx);
}

void Fiber::Arrive(Fiber& from, void* from_context) {
  from.context_ = from_context;
#ifdef LONGWAVE_EMULATION_ASAN
  // Also where the place of a stack that was not made here is learnt.
  __sanitizer_finish_switch_fiber(fake_stack_, &from.stack_, &from.stack_bytes_);
#endif
}

bool Fiber::IsGuard(const void* address) const {
  const std::byte* at = static_cast<const std::byte*>(address);
  return at >= mapping_ && at < mapping_ + guard_bytes_;
}

}  // namespace longwave::emulation
