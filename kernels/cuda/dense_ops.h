#ifndef LONGWAVE_KERNELS_CUDA_DENSE_OPS_H_
#define LONGWAVE_KERNELS_CUDA_DENSE_OPS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "common/base/rng.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// The CUDA backend's operations of ops.h by file, and helpers that their host sides share.
absl::Status Encode(const Exec& exec, const EncodeArgs& args);              // encode.cc
absl::Status Finish(const Exec& exec, uint32_t slot);                       // encode.cc
absl::Status Restore(const Exec& exec, const RestoreArgs& args);            // decode.cc
absl::Status DecodeUpdate(const Exec& exec, const DecodeUpdateArgs& args);  // decode.cc
absl::Status Hash(const Exec& exec, const HashArgs& args);                  // decode.cc

inline cudaStream_t StreamOf(const Exec& exec) { return static_cast<cudaStream_t>(exec.stream); }

// The part of SelectionDraw (tile_codec.h) before the tile: SelectionDraw(…, tile) is
// Mix64(DrawKey(…) + tile). The conformance suite compares the draws.
inline uint64_t DrawKey(uint64_t run_seed, uint32_t round) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  return Mix64(Mix64(run_seed + kStep) + round + kStep) + kStep;
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_DENSE_OPS_H_
