#ifndef LONGWAVE_TESTS_EMULATION_DEVICE_MEMORY_H_
#define LONGWAVE_TESTS_EMULATION_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace longwave::emulation {

// The device's memory and the host's pinned memory. Each allocation has pages of its own, ends at
// an inaccessible page, and is filled with 0xff (as floats: NaN). The device's pages are accessible
// only while a DeviceAccess lives. One thread at a time, and one DeviceAccess.

enum class MemoryKind { kPageable, kPinned, kDevice };

// Null where there is no such memory. bytes > 0.
void* Allocate(MemoryKind kind, size_t bytes);
// False if no allocation of the kind begins there.
bool Release(MemoryKind kind, void* memory);

// The memory at an address; kPageable if it was not allocated here.
struct Place {
  MemoryKind kind = MemoryKind::kPageable;
  size_t bytes_left = 0;  // to the end of the allocation
};
Place PlaceOf(const void* address);

// Whether the number is an address of the process's other memory: code, stack, heap.
bool IsHostAddress(uintptr_t number);

inline size_t device_bytes_max = size_t{16} << 30;
size_t AllocatedDeviceBytes();

// Opens the device's memory: all of it, or the allocations of one or two addresses. (Changing the
// protection of hundreds of arrays takes longer than most copies.)
class DeviceAccess {
 public:
  DeviceAccess();
  DeviceAccess(const void* first, const void* second);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  void Protect(bool accessible) const;

  const bool all_;
  const void* const first_;
  const void* const second_;
};

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_DEVICE_MEMORY_H_
