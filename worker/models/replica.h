#ifndef LONGWAVE_WORKER_MODELS_REPLICA_H_
#define LONGWAVE_WORKER_MODELS_REPLICA_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "kernels/ops.h"
#include "worker/data/batch.h"

namespace longwave {

// A trained model on one device behind plain arrays. Parameters and gradients are views of two flat
// arrays in the layout's order (see Tile), so optimizer and sync are independent of the model. Not
// thread-safe.
class Replica {
 public:
  // A GPT of GptManifest's tensors. Parameters are drawn from `seed` with our own generator, so
  // replicas of one seed start with the same bits on any machine, device or LibTorch. threads: of
  // this process's tensor operations. device: kCpu, or kCuda after OpenDevice has returned it.
  // Errors: as GptManifest. ResourceExhausted: the model does not fit into the device's memory.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(const ModelSection& model,
                                                         const TrainSection& train, uint64_t seed,
                                                         int threads,
                                                         BackendKind device = BackendKind::kCpu);
  virtual ~Replica() = default;

  virtual const Manifest& manifest() const = 0;
  virtual uint64_t parameter_count() const = 0;
  // Arrays of [parameter_count] in the device's memory, accessed in LibTorch's current stream.
  virtual float* theta() = 0;
  virtual float* gradient() = 0;

  // Mean loss of the batch at θ, in nats a target. Sets gradient() to its gradient, in
  // train.micro_batches parts that are summed in order. The loss may be NaN or infinite. Internal:
  // the tensor library failed.
  virtual absl::StatusOr<double> ForwardBackward(const Batch& batch) = 0;

  // As ForwardBackward, without changing gradient().
  virtual absl::StatusOr<double> Loss(const Batch& batch) = 0;

  // The model's logits at θ for the token after `tokens` (1 to model.context of them): one for each
  // of the vocabulary, in fp32. If the tokens extend those of the last call, only the new ones are
  // computed, so θ must not change in between.
  virtual absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> tokens) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_REPLICA_H_
