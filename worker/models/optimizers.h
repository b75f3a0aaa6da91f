#ifndef LONGWAVE_WORKER_MODELS_OPTIMIZERS_H_
#define LONGWAVE_WORKER_MODELS_OPTIMIZERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "kernels/ops.h"
#include "worker/models/inner_optimizer.h"
#include "worker/models/node_tensors.h"

namespace longwave {

// The optimizer train.optimizer for a model of these tensors, with state in the memory of `ops`,
// which outlives it. Weight decay applies to matrices, not to vectors. Muon takes the hidden
// matrices: those whose name has no part that begins with emb, head, pos, wte or wpe. Trailing
// dimensions are flattened. node: this rank's, which outlives the optimizer and whose ranks share
// the state; null: a single device. ResourceExhausted: no memory for the state.
absl::StatusOr<std::unique_ptr<InnerOptimizer>> MakeOptimizer(const TrainSection& train,
                                                              const Manifest& manifest,
                                                              const KernelOps* ops, Exec exec,
                                                              NodeTensors* node = nullptr);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_OPTIMIZERS_H_
