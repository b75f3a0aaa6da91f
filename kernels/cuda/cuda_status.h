#ifndef LONGWAVE_KERNELS_CUDA_CUDA_STATUS_H_
#define LONGWAVE_KERNELS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "common/base/status_macros.h"

namespace longwave::cuda {

// OK, or Internal with the call, its place and the runtime's message.
absl::Status ToStatus(cudaError_t error, const char* call, const char* file, int line);

}  // namespace longwave::cuda

// Every call of the CUDA runtime goes through here.
#define LONGWAVE_CUDA_STATUS(call) ::longwave::cuda::ToStatus((call), #call, __FILE__, __LINE__)
#define LONGWAVE_CUDA_RETURN_IF_ERROR(call) LONGWAVE_RETURN_IF_ERROR(LONGWAVE_CUDA_STATUS(call))

#endif  // LONGWAVE_KERNELS_CUDA_CUDA_STATUS_H_
