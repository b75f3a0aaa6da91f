#ifndef LONGWAVE_TESTS_SUPPORT_LOCKSTEP_H_
#define LONGWAVE_TESTS_SUPPORT_LOCKSTEP_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/rng.h"
#include "common/layout/layout.h"
#include "server/shard/aggregator.h"
#include "tests/support/sent_frame.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// A model with an odd shape of each kind, and values around 0 for it.
inline Manifest SmallModel() {
  return {
      .tensors = {{"embedding", {100, 70}}, {"bias", {70}}, {"conv", {64, 4, 4, 4}}, {"g", {}}}};
}
inline std::vector<float> Noise(size_t count, uint64_t seed, double scale) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(scale * (rng.Uniform() - rng.Uniform()));
  return values;
}

// A whole cluster in one thread without I/O: the real pipelines of all workers and the real
// aggregator of one shard, stepped round by round.
class Lockstep {
 public:
  // The flat arrays of worker i are theta(i) and gradient(i), all starting as `start`.
  static absl::StatusOr<std::unique_ptr<Lockstep>> Create(
      const Manifest& manifest, const LayoutOptions& layout_options, const SyncOptions& sync,
      AggregatorOptions aggregation, uint32_t workers, std::span<const float> start);

  // A sync of all workers with weight 1 each, pushing in the given order of worker indices.
  absl::Status Round(uint32_t round, double learning_rate, std::span<const uint32_t> order);
  absl::Status Round(uint32_t round, double learning_rate);  // in order of worker indices

  // The two halves of a sync, for tests that act between them. Send encodes, pushes and merges
  // every worker's signal of the fragment. Apply gives the merged updates to the workers.
  absl::Status Send(uint32_t round, uint32_t fragment, double learning_rate,
                    std::span<const uint32_t> order);
  absl::Status Send(uint32_t round, uint32_t fragment, double learning_rate);
  absl::Status Apply();

  const Layout& layout() const { return layout_; }
  std::span<float> theta(uint32_t worker) { return theta_[worker]; }
  std::span<float> gradient(uint32_t worker) { return gradient_[worker]; }
  SyncPipeline& pipeline(uint32_t worker) { return *pipelines_[worker]; }
  Aggregator& aggregator() { return *aggregator_; }
  uint32_t workers() const { return static_cast<uint32_t>(pipelines_.size()); }
  // The merged updates of the last Send, one a segment.
  const std::vector<SentFrame<MergedFrame>>& merged() const { return merged_; }

 private:
  explicit Lockstep(Layout layout) : layout_(std::move(layout)) {}
  std::vector<uint32_t> InOrder() const;
  absl::Status Push(uint32_t round, uint32_t worker, uint32_t segment);

  Layout layout_;
  std::vector<std::vector<float>> theta_;
  std::vector<std::vector<float>> gradient_;
  std::vector<std::unique_ptr<SyncPipeline>> pipelines_;
  std::unique_ptr<Aggregator> aggregator_;
  std::vector<SentFrame<MergedFrame>> merged_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_LOCKSTEP_H_
