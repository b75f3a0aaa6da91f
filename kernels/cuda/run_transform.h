#ifndef LONGWAVE_KERNELS_CUDA_RUN_TRANSFORM_H_
#define LONGWAVE_KERNELS_CUDA_RUN_TRANSFORM_H_

#include <cstdint>

namespace longwave::cuda {

// How the encoder transforms runs of 4096. What is faster is for tests/bench to say on the GPU in
// question; so far none has run it, and the default is what needs no other library and gives the
// bits of the CPU's encoder.
enum class RunTransform : uint8_t { kStages, kFft };
void SetRunTransform(RunTransform transform);  // from any thread, for encodings that begin later
RunTransform GetRunTransform();

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_RUN_TRANSFORM_H_
