#ifndef LONGWAVE_KERNELS_CUDA_DENSE_OPS_H_
#define LONGWAVE_KERNELS_CUDA_DENSE_OPS_H_

#include <cuda_runtime_api.h>

#include <span>

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// The CUDA backend's operations of ops.h by file, and helpers that their host sides share.
absl::Status Encode(const Exec& exec, std::span<const EncodeArgs> all);              // encode.cc
absl::Status Finish(const Exec& exec, uint32_t segment);                             // encode.cc
absl::Status Restore(const Exec& exec, const RestoreArgs& args);                     // decode.cc
absl::Status DecodeUpdate(const Exec& exec, std::span<const DecodeUpdateArgs> all);  // decode.cc
absl::Status Hash(const Exec& exec, const HashArgs& args);                           // decode.cc

inline cudaStream_t StreamOf(const Exec& exec) { return static_cast<cudaStream_t>(exec.stream); }

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_DENSE_OPS_H_
