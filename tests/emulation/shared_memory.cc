#include "tests/emulation/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "tests/emulation/refuse.h"
#include "tests/emulation/sanitizer.h"

namespace longwave::emulation {
namespace {

constexpr size_t kMarginBytes = 64;
constexpr int kMarginPattern = 0xa5;
constexpr int kUndefined = 0xff;

std::byte* AlignUp(std::byte* at, size_t alignment) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  return at + ((address + alignment - 1) / alignment * alignment - address);
}

}  // namespace

SharedMemory::SharedMemory() : guard_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
  // Twice a block's limit, for the margins.
  const size_t bytes = (2 * kBytesMax + guard_bytes_ - 1) / guard_bytes_ * guard_bytes_;
  mapped_ = bytes + guard_bytes_;
  void* mapping =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED ||
      mprotect(static_cast<std::byte*>(mapping) + bytes, guard_bytes_, PROT_NONE) != 0) {
    Refuse("no memory for the shared memory of a block");
  }
  mapping_ = static_cast<std::byte*>(mapping);
  Poison(mapping_, mapped_);
}

void SharedMemory::AddMargin(std::byte* begin, size_t bytes) {
  if (kAddressSanitizer || bytes == 0) return;
  std::memset(begin, kMarginPattern, bytes);
  margins_.push_back({begin, bytes});
}

std::byte* SharedMemory::Place(std::byte* begin, size_t bytes) {
  Unpoison(begin, bytes);
  std::memset(begin, kUndefined, bytes);
  return begin;
}

void SharedMemory::BeginBlock() {
  entries_.clear();
  margins_.clear();
  AddMargin(mapping_, kMarginBytes);
  next_ = mapping_ + kMarginBytes;
}

void* SharedMemory::Object(const void* key, size_t bytes, size_t alignment) {
  size_t total = bytes;
  for (const Entry& entry : entries_) {
    if (entry.key == key) return entry.begin;
    total += entry.bytes;
  }
  if (total > kBytesMax) {
    Refuse("the declared shared memory of the kernel has " + std::to_string(total) +
           " bytes, at most " + std::to_string(kBytesMax) + " can be declared");
  }
  std::byte* const begin = Place(AlignUp(next_, alignment), bytes);
  entries_.push_back({key, begin, bytes});
  AddMargin(begin + bytes, kMarginBytes);
  next_ = begin + bytes + kMarginBytes;
  return begin;
}

void SharedMemory::EndBlock() {
  for (const Margin& margin : margins_) {
    for (size_t i = 0; i < margin.bytes; ++i) {
      if (margin.begin[i] != static_cast<std::byte>(kMarginPattern)) {
        Refuse("the block has written outside its shared memory, " + Describe(margin.begin + i));
      }
    }
  }
  for (const Entry& entry : entries_) Poison(entry.begin, entry.bytes);
}

std::string SharedMemory::Describe(const void* address) const {
  const std::byte* const at = static_cast<const std::byte*>(address);
  if (at < mapping_ || at >= mapping_ + mapped_) return "";
  const auto off = [](const std::byte* to, const std::byte* from) {
    return std::to_string(static_cast<size_t>(to - from));
  };
  if (entries_.empty() || at < entries_.front().begin) return "before the shared objects";
  for (const Entry& entry : entries_) {
    if (at < entry.begin + entry.bytes + kMarginBytes) {
      return off(at, entry.begin) + " bytes from the begin of a shared object of " +
             std::to_string(entry.bytes) + " bytes";
    }
  }
  return "between the objects";
}

}  // namespace longwave::emulation
