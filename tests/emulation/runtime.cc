#include "tests/emulation/runtime.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"
#include "tests/emulation/block.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/refuse.h"
#include "tests/emulation/shared_memory.h"
#include "tests/emulation/streams.h"

namespace longwave::emulation {
namespace {

constexpr int kBlockThreadsMax = 1024;

// A single thread at a time is the device and its driver, also while queued work runs.
class Session {
 private:
  static inline std::mutex mutex_;
  const Inside here_;
  const std::lock_guard<std::mutex> lock_{mutex_};
};

thread_local cudaError_t last_error = cudaSuccess;

ResourceCounts resources;  // under the session's mutex

cudaError_t Record(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t CheckShape(dim3 grid, dim3 block) {
  constexpr unsigned kGridMax[3] = {0x7fffffff, 65535, 65535};
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kGridMax[0] || grid.y > kGridMax[1] ||
      grid.z > kGridMax[2]) {
    return cudaErrorInvalidConfiguration;
  }
  if (block.x == 0 || block.y == 0 || block.z == 0 ||
      uint64_t{block.x} * block.y * block.z > kBlockThreadsMax) {
    return cudaErrorInvalidConfiguration;
  }
  return cudaSuccess;
}

// The permissions and the time of a copy.
struct CopyPlan {
  cudaError_t error = cudaErrorInvalidValue;
  bool stage = false;        // the source is read now
  bool synchronous = false;  // returns after the copy
};

CopyPlan PlanCopy(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (to == nullptr || from == nullptr) return {};
  const Place target = PlaceOf(to), source = PlaceOf(from);
  const auto fits = [&](const Place& place) {
    return place.kind == MemoryKind::kPageable || bytes <= place.bytes_left;
  };
  if (!fits(target) || !fits(source)) return {};
  const bool to_device = target.kind == MemoryKind::kDevice;
  const bool from_device = source.kind == MemoryKind::kDevice;
  constexpr cudaMemcpyKind kFromTo[2][2] = {{cudaMemcpyHostToHost, cudaMemcpyHostToDevice},
                                            {cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice}};
  if (kind != cudaMemcpyDefault && kind != kFromTo[from_device][to_device]) return {};
  CopyPlan plan;
  plan.error = cudaSuccess;
  plan.stage = source.kind == MemoryKind::kPageable && to_device;
  plan.synchronous = target.kind == MemoryKind::kPageable || (!to_device && !from_device);
  return plan;
}

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 EmulatedStream* stream) {
  if (!Streams().Has(stream)) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const CopyPlan plan = PlanCopy(to, from, bytes, kind);
  if (plan.error != cudaSuccess) return plan.error;
  if (plan.stage) {
    const std::byte* const begin = static_cast<const std::byte*>(from);
    auto staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    Streams().Enqueue(stream, [=] {
      const DeviceAccess access(to, nullptr);
      std::memcpy(to, staged->data(), bytes);
    });
  } else {
    Streams().Enqueue(stream, [=] {
      const DeviceAccess access(to, from);
      std::memmove(to, from, bytes);
    });
  }
  if (plan.synchronous) Streams().Wait(stream);
  return cudaSuccess;
}

cudaError_t Fill(void* memory, int value, size_t bytes, EmulatedStream* stream) {
  if (!Streams().Has(stream)) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const Place place = PlaceOf(memory);
  if (place.kind == MemoryKind::kPageable || bytes > place.bytes_left) return cudaErrorInvalidValue;
  Streams().Enqueue(stream, [=] {
    const DeviceAccess access(memory, nullptr);
    std::memset(memory, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t NewMemory(MemoryKind kind, void** memory, size_t bytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  *memory = Allocate(kind, bytes);
  ++(kind == MemoryKind::kDevice ? resources.device_arrays : resources.pinned_arrays);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

// Waits for the whole device first, as CUDA's do.
cudaError_t FreeMemory(MemoryKind kind, void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Streams().WaitForAll();
  return Release(kind, memory) ? cudaSuccess : cudaErrorInvalidValue;
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrorTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
};
const ErrorText& TextOf(cudaError_t error) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.error == error) return text;
  }
  static constexpr ErrorText kUnknown = {cudaErrorInvalidValue, "unrecognized error code",
                                         "unrecognized error code"};
  return kUnknown;
}

}  // namespace

cudaError_t EnqueueKernel(dim3 grid, dim3 block, cudaStream_t stream,
                          std::function<void()> thread) {
  const Session session;
  if (!Streams().Has(stream)) return Record(cudaErrorInvalidResourceHandle);
  const cudaError_t error = CheckShape(grid, block);
  if (error != cudaSuccess) return Record(error);
  Streams().Enqueue(stream, [=] {
    const DeviceAccess access;
    Run({grid, block, &thread});
  });
  return cudaSuccess;
}

void CheckKernelArgument(size_t number, const void* argument, size_t bytes) {
  const Session session;
  for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof word);
    if (!IsHostAddress(word)) continue;
    Refuse("argument " + std::to_string(number) +
           " of a kernel has the address of host memory in "
           "its byte " +
           std::to_string(at) + "; a GPU can't read there");
  }
}

ResourceCounts ResourcesMade() {
  const Session session;
  return resources;
}

}  // namespace longwave::emulation

using longwave::emulation::Record;
using longwave::emulation::Session;
using longwave::emulation::Streams;
namespace emulation = longwave::emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = emulation::last_error;
  emulation::last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) { return emulation::TextOf(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return emulation::TextOf(error).text; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = emulation::device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  emulation::device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? emulation::capability / 10
                                                          : emulation::capability % 10;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Session session;
  Streams().WaitForAll();
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Session session;
  *total = emulation::device_bytes_max;
  *free = emulation::device_bytes_max - emulation::AllocatedDeviceBytes();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Session session;
  return Record(emulation::NewMemory(emulation::MemoryKind::kDevice, memory, bytes));
}
cudaError_t cudaFree(void* memory) {
  const Session session;
  return Record(emulation::FreeMemory(emulation::MemoryKind::kDevice, memory));
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const Session session;
  return Record(emulation::NewMemory(emulation::MemoryKind::kPinned, memory, bytes));
}
cudaError_t cudaFreeHost(void* memory) {
  const Session session;
  return Record(emulation::FreeMemory(emulation::MemoryKind::kPinned, memory));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const Session session;
  const cudaError_t error = emulation::Copy(to, from, bytes, kind, nullptr);
  if (error != cudaSuccess) return Record(error);
  // Copies within the device are the exception: they don't hold up the host.
  const auto on_device = [](const void* memory) {
    return emulation::PlaceOf(memory).kind == emulation::MemoryKind::kDevice;
  };
  if (!on_device(to) || !on_device(from)) Streams().WaitForDefault();
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Session session;
  return Record(emulation::Copy(to, from, bytes, kind, stream));
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Session session;
  return Record(emulation::Fill(memory, value, bytes, stream));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Session session;
  if (flags != cudaStreamNonBlocking) return Record(cudaErrorInvalidValue);
  *stream = Streams().Create();
  ++emulation::resources.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Session session;
  if (stream == nullptr || !Streams().Has(stream)) return Record(cudaErrorInvalidResourceHandle);
  Streams().Destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Session session;
  if (!Streams().Has(stream)) return Record(cudaErrorInvalidResourceHandle);
  Streams().Wait(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Session session;
  if (!Streams().Has(stream) || event == nullptr) return Record(cudaErrorInvalidResourceHandle);
  Streams().EnqueueWait(stream, event);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Session session;
  ++emulation::resources.events;
  *event = new EmulatedEvent{std::make_shared<emulation::EventState>()};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return Record(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Session session;
  if (!Streams().Has(stream) || event == nullptr) return Record(cudaErrorInvalidResourceHandle);
  Streams().EnqueueRecord(stream, event);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Session session;
  if (event == nullptr) return Record(cudaErrorInvalidResourceHandle);
  return event->state->done() ? cudaSuccess : Record(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Session session;
  if (event == nullptr) return Record(cudaErrorInvalidResourceHandle);
  Streams().Wait(event);
  return cudaSuccess;
}
