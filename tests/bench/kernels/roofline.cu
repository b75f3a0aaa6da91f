#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/launch.cuh"
#include "tests/bench/kernels/roofline.h"

namespace longwave::bench {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kVector = 4;  // floats that a thread takes at once; arrays hold whole tiles

__global__ void PassKernel(float4* m, const float4* g, float b, uint64_t n) {
  const uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 x = m[i], y = g[i];
  m[i] = make_float4(b * x.x + y.x, b * x.y + y.y, b * x.z + y.z, b * x.w + y.w);
}

__global__ void ReadWriteKernel(float4* x, float c, uint64_t n) {
  const uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 v = x[i];
  x[i] = make_float4(c * v.x, c * v.y, c * v.z, c * v.w);
}

dim3 GridOf(uint64_t n) { return dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)); }

cudaStream_t StreamOf(const Exec& exec) { return static_cast<cudaStream_t>(exec.stream); }

absl::Status Copy(const Exec& exec, float* to, const float* from, uint64_t n) {
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDeviceToDevice, StreamOf(exec)));
  return absl::OkStatus();
}

absl::Status Pass(const Exec& exec, float* m, const float* g, float b, uint64_t n) {
  LONGWAVE_CUDA_RETURN_IF_ERROR(cuda::Launch(PassKernel, GridOf(n / kVector), dim3(kThreads),
                                             StreamOf(exec), reinterpret_cast<float4*>(m),
                                             reinterpret_cast<const float4*>(g), b, n / kVector));
  return absl::OkStatus();
}

absl::Status ReadWrite(const Exec& exec, float* x, float c, uint64_t n) {
  LONGWAVE_CUDA_RETURN_IF_ERROR(cuda::Launch(ReadWriteKernel, GridOf(n / kVector), dim3(kThreads),
                                             StreamOf(exec), reinterpret_cast<float4*>(x), c,
                                             n / kVector));
  return absl::OkStatus();
}

}  // namespace

const Roofline& CudaRoofline() {
  static constexpr Roofline kRoofline = {.copy = Copy, .pass = Pass, .read_write = ReadWrite};
  return kRoofline;
}

}  // namespace longwave::bench
