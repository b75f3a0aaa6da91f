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

// The tensors that the configured model trains, without building it. InvalidArgument: an unknown
// kind, sizes that make no model.
absl::StatusOr<Manifest> ModelManifest(const ModelSection& model);

// A trained model on one device behind plain arrays: its parameters are views of one flat array and
// its gradients of another, both in the layout's order (see Tile), so that optimizer and sync see
// no model and the model sees neither. Not thread-safe.
class Replica {
 public:
  // Parameters are drawn from `seed` with our own generator: replicas of one seed start with the
  // same bits, whatever machine, device or LibTorch they run on. threads: of this process's tensor
  // operations. device: kCpu, or kCuda once OpenDevice has given it. InvalidArgument: as
  // ModelManifest. ResourceExhausted: the model does not fit into the device's memory.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(const ModelSection& model,
                                                         const TrainSection& train, uint64_t seed,
                                                         int threads,
                                                         BackendKind device = BackendKind::kCpu);
  virtual ~Replica() = default;

  virtual const Manifest& manifest() const = 0;
  virtual uint64_t parameter_count() const = 0;
  // In the device's memory, [parameter_count] each; written and read in LibTorch's current stream.
  virtual float* theta() = 0;
  virtual float* gradient() = 0;

  // Mean loss of the batch at θ, in nats a token; gradient() becomes its gradient. The loss may be
  // NaN or infinite. Internal: the tensor library failed.
  virtual absl::StatusOr<double> ForwardBackward(const Batch& batch) = 0;

  // As ForwardBackward, leaving gradient() as it is.
  virtual absl::StatusOr<double> Loss(const Batch& batch) = 0;

  // What the model at θ says of the token after these, 1 to model.context of them: a logit for each
  // of the vocabulary, in fp32. Of tokens that go on with those of the call before only the new
  // ones are computed: θ must not have changed. Unimplemented: it is no model of text.
  virtual absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> /*tokens*/) {
    return absl::UnimplementedError("this model goes on with no text");
  }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_REPLICA_H_
