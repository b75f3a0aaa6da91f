#ifndef LONGWAVE_WORKER_TRAINER_OPTIMIZER_BLOBS_H_
#define LONGWAVE_WORKER_TRAINER_OPTIMIZER_BLOBS_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/models/inner_optimizer.h"

namespace longwave {

// An optimizer's part of a checkpoint: each state array is a blob of the same name.

// Adds the blobs; their bytes are copies on the host. Errors: the device's.
absl::Status SaveOptimizer(InnerOptimizer& optimizer, const KernelOps& ops, const Exec& exec,
                           std::vector<NamedBlob>* blobs);

// InvalidArgument: blobs of another optimizer or of another number of parameters.
absl::Status LoadOptimizer(std::span<const NamedBlob> blobs, const KernelOps& ops, const Exec& exec,
                           InnerOptimizer* optimizer);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_OPTIMIZER_BLOBS_H_
