#ifndef LONGWAVE_KERNELS_CUDA_RUN_TRANSFORM_H_
#define LONGWAVE_KERNELS_CUDA_RUN_TRANSFORM_H_

#include <cstdint>

namespace longwave::cuda {

// The encoder's transform of runs of 4096. tests/bench measures which is faster on a GPU. The
// default needs no other library and gives the bits of the CPU's encoder.
enum class RunTransform : uint8_t { kStages, kFft };
void SetRunTransform(RunTransform transform);  // from any thread, for encodings that begin later
RunTransform GetRunTransform();

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_RUN_TRANSFORM_H_
