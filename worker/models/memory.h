#ifndef LONGWAVE_WORKER_MODELS_MEMORY_H_
#define LONGWAVE_WORKER_MODELS_MEMORY_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// What a worker holds of each parameter, fp32: θ, its gradient, AdamW's two moments, the anchor and
// the residual momentum.
inline constexpr double kBytesPerParameter = 6 * 4;

// Memory that the machine can give without swapping: MemAvailable of /proc/meminfo, in bytes.
absl::StatusOr<double> AvailableMemoryBytes();

// ResourceExhausted, saying what is wanted and what is there, if the model can't be held.
absl::Status CheckMemory(double parameter_count, double activation_bytes, double available_bytes);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_MEMORY_H_
