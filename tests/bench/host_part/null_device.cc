#include "tests/bench/host_part/null_device.h"

#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/fft.h"
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/optimizer.h"

namespace longwave {

DriverCalls& driver_calls() {
  static DriverCalls calls;
  return calls;
}

namespace {

cudaError_t CountLaunch() {
  ++driver_calls().launches;
  return cudaSuccess;
}
cudaError_t CountEvent() {
  ++driver_calls().events;
  return cudaSuccess;
}

}  // namespace

namespace cuda {

cudaError_t Launch(TileKernel, const EncodeJob&, cudaStream_t) { return CountLaunch(); }
cudaError_t Launch(TileKernel, const DecodeJob&, cudaStream_t) { return CountLaunch(); }
cudaError_t Launch(const RestoreJob&, cudaStream_t) { return CountLaunch(); }
cudaError_t Launch(const HashJob&, cudaStream_t) { return CountLaunch(); }
cudaError_t LaunchAdamW(const AdamWArgs&, cudaStream_t) { return CountLaunch(); }
cudaError_t LaunchScale(const ScaleArgs&, cudaStream_t) { return CountLaunch(); }
cudaError_t LaunchBlend(const BlendArgs&, cudaStream_t) { return CountLaunch(); }
cudaError_t LaunchSquareSums(uint64_t, const float*, double*, cudaStream_t) {
  return CountLaunch();
}
cudaError_t LaunchPairSums(uint64_t, const double*, double*, cudaStream_t) { return CountLaunch(); }
cudaError_t LaunchFftInput(const EncodeJob&, float*, cudaStream_t) { return CountLaunch(); }
absl::Status FftRuns(float*, uint32_t, cudaStream_t) { return absl::OkStatus(); }
absl::Status FftStatus() { return absl::UnavailableError("no device"); }

}  // namespace cuda
}  // namespace longwave

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return ""; }
const char* cudaGetErrorString(cudaError_t) { return ""; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 40;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
// Reports of tiles that no device has written say by these bytes that the tile is finite.
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 1, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
  ++longwave::driver_calls().copies;
  return cudaSuccess;
}
cudaError_t cudaMemset(void*, int, size_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static char made[2];
  static size_t count = 0;
  *stream = reinterpret_cast<cudaStream_t>(&made[count++ % 2]);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return longwave::CountEvent();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static char made;
  *event = reinterpret_cast<cudaEvent_t>(&made);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return longwave::CountEvent(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return longwave::CountEvent(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return longwave::CountEvent(); }
