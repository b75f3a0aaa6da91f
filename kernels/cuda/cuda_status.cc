#include "kernels/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace longwave::cuda {

absl::Status ToStatus(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());  // reported here, so cleared for later calls
  return absl::InternalError(absl::StrCat("CUDA: ", cudaGetErrorString(error), " (",
                                          cudaGetErrorName(error), ") from ", call, " at ", file,
                                          ":", line));
}

}  // namespace longwave::cuda
