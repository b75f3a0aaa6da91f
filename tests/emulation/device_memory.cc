#include "tests/emulation/device_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>

#include "tests/emulation/block.h"
#include "tests/emulation/refuse.h"
#include "tests/emulation/sanitizer.h"

namespace longwave::emulation {
namespace {

constexpr size_t kAlignment = 256;  // cudaMalloc's
constexpr int kUndefined = 0xff;
// Pattern around an allocation, within its pages, which no kernel may overwrite.
constexpr int kMarginPattern = 0xa5;
constexpr size_t kMarginBytes = 64;

struct Allocation {
  MemoryKind kind;
  std::byte* memory;
  size_t bytes;
  std::byte* pages;  // between two guard pages
  size_t page_bytes;
};

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// By the address of `memory`.
std::map<uintptr_t, Allocation>& Allocations() {
  static auto* const allocations = new std::map<uintptr_t, Allocation>;
  return *allocations;
}

size_t device_bytes = 0;

void Protect(const Allocation& allocation, bool accessible) {
  if (allocation.kind != MemoryKind::kDevice) return;
  if (mprotect(allocation.pages, allocation.page_bytes,
               accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    Refuse("the protection of the device's memory could not be changed");
  }
}

std::string Of(const Allocation& allocation) {
  return " of " + std::to_string(allocation.bytes) + " bytes of " +
         (allocation.kind == MemoryKind::kDevice ? "device" : "pinned") + " memory";
}

// Describes an address outside of an allocation.
std::string Beside(const Allocation& allocation, const std::byte* at) {
  const std::byte* const end = allocation.memory + allocation.bytes;
  return (at < end ? std::to_string(allocation.memory - at) + " bytes before the begin"
                   : std::to_string(at - end) + " bytes past the end") +
         Of(allocation);
}

std::byte* MarginBegin(const Allocation& allocation) {
  const size_t before = static_cast<size_t>(allocation.memory - allocation.pages);
  return allocation.memory - std::min(before, kMarginBytes);
}

// After a kernel. The address sanitizer has found such a write when it was made.
void CheckMargins(const Allocation& allocation) {
  if (kAddressSanitizer || allocation.kind != MemoryKind::kDevice) return;
  const std::byte* const end = allocation.pages + allocation.page_bytes;
  for (const std::byte* at = MarginBegin(allocation); at < end; ++at) {
    if (at == allocation.memory) at += allocation.bytes;
    if (at >= end || *at == static_cast<std::byte>(kMarginPattern)) continue;
    Refuse("a kernel wrote " + Beside(allocation, at));
  }
}

const Allocation* Find(const void* address) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const auto after = Allocations().upper_bound(at);
  if (after == Allocations().begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return at - std::prev(after)->first < allocation.bytes ? &allocation : nullptr;
}

// The allocation whose pages or guard pages have the address.
const Allocation* Near(const void* address) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  for (const auto& [begin, allocation] : Allocations()) {
    const uintptr_t pages = reinterpret_cast<uintptr_t>(allocation.pages);
    if (at >= pages - PageBytes() && at < pages + allocation.page_bytes + PageBytes()) {
      return &allocation;
    }
  }
  return nullptr;
}

std::string Describe(const void* address) {
  const std::string in_block = DescribeBlockMemory(address);
  if (!in_block.empty()) return "an address " + in_block + " was touched";
  const Allocation* allocation = Near(address);
  if (allocation == nullptr) return "";
  const std::byte* const at = static_cast<const std::byte*>(address);
  if (at < allocation->memory || at >= allocation->memory + allocation->bytes) {
    return "an address was touched " + Beside(*allocation, at);
  }
  return "the host touched byte " + std::to_string(at - allocation->memory) + Of(*allocation) +
         "; only kernels and copies may";
}

struct sigaction earlier_action;

// Not safe in general in a handler of signals, but the fault is at a known place: in a kernel, or
// in the host's code at an array. It ends the process in any case.
void OnFault(int, siginfo_t* info, void*) {
  sigaction(SIGSEGV, &earlier_action, nullptr);
  const std::string sentence = Describe(info->si_addr);
  if (!sentence.empty()) Refuse(sentence);
  // Returning repeats the access, now to the handler that was here before.
}

// The address sanitizer has a handler of its own, which says more.
void CatchFaults() {
  if (kAddressSanitizer) return;
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return sigaction(SIGSEGV, &action, &earlier_action) == 0;
  }();
  static_cast<void>(installed);
  // A stack that has overflown has no room for the handler.
  thread_local const bool has_stack = [] {
    constexpr size_t kBytes = size_t{64} << 10;
    stack_t stack = {};
    stack.ss_sp = new std::byte[kBytes];
    stack.ss_size = kBytes;
    return sigaltstack(&stack, nullptr) == 0;
  }();
  static_cast<void>(has_stack);
}

}  // namespace

void* Allocate(MemoryKind kind, size_t bytes) {
  CatchFaults();
  const size_t page = PageBytes();
  if (bytes > device_bytes_max ||
      (kind == MemoryKind::kDevice && bytes > device_bytes_max - device_bytes)) {
    return nullptr;
  }
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t page_bytes = (rounded + page - 1) / page * page;
  void* mapping = mmap(nullptr, page_bytes + 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  std::byte* const pages = static_cast<std::byte*>(mapping) + page;
  mprotect(mapping, page, PROT_NONE);
  mprotect(pages + page_bytes, page, PROT_NONE);
  std::byte* const memory = pages + page_bytes - rounded;
  const Allocation allocation = {kind, memory, bytes, pages, page_bytes};
  std::memset(MarginBegin(allocation), kMarginPattern,
              static_cast<size_t>(pages + page_bytes - MarginBegin(allocation)));
  std::memset(memory, kUndefined, bytes);
  Poison(mapping, page_bytes + 2 * page);
  Unpoison(memory, bytes);
  Allocations()[reinterpret_cast<uintptr_t>(memory)] = allocation;
  if (kind == MemoryKind::kDevice) device_bytes += bytes;
  Protect(allocation, false);
  return memory;
}

bool Release(MemoryKind kind, void* memory) {
  const auto found = Allocations().find(reinterpret_cast<uintptr_t>(memory));
  if (found == Allocations().end() || found->second.kind != kind) return false;
  const Allocation allocation = found->second;
  Allocations().erase(found);
  if (kind == MemoryKind::kDevice) device_bytes -= allocation.bytes;
  std::byte* const mapping = allocation.pages - PageBytes();
  const size_t mapped = allocation.page_bytes + 2 * PageBytes();
  Unpoison(mapping, mapped);
  munmap(mapping, mapped);
  return true;
}

Place PlaceOf(const void* address) {
  const Allocation* allocation = Find(address);
  if (allocation == nullptr) return {};
  const size_t offset =
      static_cast<size_t>(static_cast<const std::byte*>(address) - allocation->memory);
  return {allocation->kind, allocation->bytes - offset};
}

bool IsHostAddress(uintptr_t number) {
  // The range of a 64-bit process's code, heap and stacks. Below are counts, sizes and pairs of
  // them, and the address sanitizer's shadow, which would make most numbers an address.
  constexpr uintptr_t kLeast = uintptr_t{1} << 45, kMost = uintptr_t{1} << 48;
  if (number < kLeast || number >= kMost) return false;
  const uintptr_t page = number / PageBytes() * PageBytes();
  // The kernel knows; one past the end of an array of ours is in a guard page of ours.
  return msync(reinterpret_cast<void*>(page), PageBytes(), MS_ASYNC) == 0 &&
         Near(reinterpret_cast<const void*>(number)) == nullptr;
}

size_t AllocatedDeviceBytes() { return device_bytes; }

DeviceAccess::DeviceAccess() : all_(true), first_(nullptr), second_(nullptr) { Protect(true); }
DeviceAccess::DeviceAccess(const void* first, const void* second)
    : all_(false), first_(first), second_(second) {
  Protect(true);
}
DeviceAccess::~DeviceAccess() { Protect(false); }

void DeviceAccess::Protect(bool accessible) const {
  CatchFaults();
  if (!all_) {
    for (const void* address : {first_, second_}) {
      const Allocation* allocation = Find(address);
      if (allocation != nullptr) emulation::Protect(*allocation, accessible);
    }
    return;
  }
  for (const auto& [begin, allocation] : Allocations()) {
    if (!accessible) CheckMargins(allocation);
    emulation::Protect(allocation, accessible);
  }
}

}  // namespace longwave::emulation
