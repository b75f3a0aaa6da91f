#include "kernels/cuda/cuda_status.h"

#include "common/base/errors.h"

namespace longwave::cuda {

absl::Status ToStatus(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());  // reported here, so cleared for later calls
  return Internal("CUDA: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ") from ",
                  call, " at ", file, ":", line);
}

}  // namespace longwave::cuda
