#ifndef LONGWAVE_WORKER_MODELS_REPLICA_H_
#define LONGWAVE_WORKER_MODELS_REPLICA_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "worker/data/batch.h"

namespace longwave {

// The tensors that the configured model trains, without building it. InvalidArgument: an unknown
// kind, sizes that make no model.
absl::StatusOr<Manifest> ModelManifest(const ModelSection& model);

// A trained model behind plain arrays: its parameters are views of one flat array and its gradients
// of another, both in the layout's order (see Tile), so that optimizer and sync see no model and
// the model sees neither. Not thread-safe.
class Replica {
 public:
  // Parameters are drawn from `seed` with our own generator: replicas of one seed start with the
  // same bits, whatever machine or LibTorch they run on. threads: of this process's tensor
  // operations. InvalidArgument: as ModelManifest. ResourceExhausted: the model does not fit into
  // memory.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(const ModelSection& model,
                                                         const TrainSection& train, uint64_t seed,
                                                         int threads);
  virtual ~Replica() = default;

  virtual const Manifest& manifest() const = 0;
  virtual uint64_t parameter_count() const = 0;
  virtual float* theta() = 0;     // [parameter_count]
  virtual float* gradient() = 0;  // [parameter_count]

  // Mean loss of the batch at θ, in nats a token; gradient() becomes its gradient. The loss may be
  // NaN or infinite. Internal: the tensor library failed.
  virtual absl::StatusOr<double> ForwardBackward(const Batch& batch) = 0;

  // As ForwardBackward, leaving gradient() as it is.
  virtual absl::StatusOr<double> Loss(const Batch& batch) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_REPLICA_H_
