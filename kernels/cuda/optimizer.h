#ifndef LONGWAVE_KERNELS_CUDA_OPTIMIZER_H_
#define LONGWAVE_KERNELS_CUDA_OPTIMIZER_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// KernelOps::adamw, square_sum, scale and blend.
absl::Status AdamW(const Exec& exec, const AdamWArgs& args);
absl::Status SquareSum(const Exec& exec, const SquareSumArgs& args);
absl::Status Scale(const Exec& exec, const ScaleArgs& args);
absl::Status Blend(const Exec& exec, const BlendArgs& args);

// Launches; counts are not zero. The result is that of the launch, not of the kernel.
cudaError_t LaunchAdamW(const AdamWArgs& args, cudaStream_t stream);
cudaError_t LaunchScale(const ScaleArgs& args, cudaStream_t stream);
cudaError_t LaunchBlend(const BlendArgs& args, cudaStream_t stream);  // α is not zero
// sums[⌈count / kSquareSumChunk⌉]: one for each chunk.
cudaError_t LaunchSquareSums(uint64_t count, const float* x, double* sums, cudaStream_t stream);
// to[⌈count / kPairSumWidth⌉]: kPairSumWidth neighbours each, added in pairs.
inline constexpr uint32_t kPairSumWidth = 256;
cudaError_t LaunchPairSums(uint64_t count, const double* from, double* to, cudaStream_t stream);

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_OPTIMIZER_H_
