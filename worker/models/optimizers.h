#ifndef LONGWAVE_WORKER_MODELS_OPTIMIZERS_H_
#define LONGWAVE_WORKER_MODELS_OPTIMIZERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "kernels/ops.h"
#include "worker/models/inner_optimizer.h"

namespace longwave {

// The optimizer train.optimizer for a model of these tensors, with state in the memory of `ops`,
// which outlives it. Weight decay applies to matrices, not to vectors. Muon takes the hidden
// matrices: those whose name has no part that begins with emb, head, pos, wte or wpe. Trailing
// dimensions are flattened. ResourceExhausted: no memory for the state.
absl::StatusOr<std::unique_ptr<InnerOptimizer>> MakeOptimizer(const TrainSection& train,
                                                              const Manifest& manifest,
                                                              const KernelOps* ops, Exec exec);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_OPTIMIZERS_H_
