#ifndef LONGWAVE_WORKER_ABI_ABI_MEMBER_H_
#define LONGWAVE_WORKER_ABI_ABI_MEMBER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "common/layout/segment_elements.h"
#include "common/metrics/metrics.h"
#include "common/metrics/metrics_server.h"
#include "worker/abi/abi_options.h"
#include "worker/abi/callbacks.h"
#include "worker/abi/include/longwave.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"
#include "worker/member/stop_signal.h"
#include "worker/member/training_loop.h"

// Filled by a save callback.
struct lw_state {
  static constexpr size_t kBlobsMax = 60;
  static constexpr size_t kNameBytesMax = 60;
  // InvalidArgument: a bad name, or one too many.
  absl::Status Add(const char* name, const void* bytes, size_t size);

  std::vector<longwave::NamedBlob>* blobs = nullptr;
};

namespace longwave {

// An lw_member: place, member and metrics of one worker. The functions are the calls of longwave.h,
// and return InvalidArgument out of order. Enter, Exit and Stop are thread-safe.
class AbiMember final : private TrainingLoop {
 public:
  static absl::StatusOr<std::unique_ptr<AbiMember>> Join(AbiOptions options,
                                                         const Manifest& manifest);

  // Return flags of lw_event.
  absl::StatusOr<int> Begin(const lw_arrays& arrays);
  absl::StatusOr<int> Step(double loss, uint64_t tokens);
  void Warn(const std::string& text) { place_->Warn(text); }  // thread-safe
  void Pause() {
    if (member_.has_value() && link_.has_value()) member_->parts().node->StepPauses();
  }
  absl::Status Finish();
  absl::Status Leave(const char* failure);

  lw_run Describe() const;
  lw_figures Figures() const;
  absl::StatusOr<uint64_t> Offset(size_t tensor) const;
  // The elements that a rank of the node syncs. InvalidArgument: no such rank.
  absl::StatusOr<std::vector<ElementRange>> Owned(uint32_t rank) const;
  const std::string& configuration() const { return configuration_; }
  // Empty: no blob of that name. InvalidArgument: not between Begin and the first Step.
  absl::StatusOr<std::span<const std::byte>> Loaded(const std::string& name) const;

  void Stop() { stop_.Request(); }
  // Admits one call at a time. False: another call is in progress.
  bool Enter() { return !is_busy_.exchange(true, std::memory_order_acquire); }
  void Exit() { is_busy_.store(false, std::memory_order_release); }

 private:
  // The last call. kRefused: the run did not admit this worker in Begin, or was finished.
  enum class Turn : uint8_t { kJoined, kRefused, kBegun, kTraining, kDone, kClosed };

  AbiMember(AbiOptions options, RunConfig config, const Manifest& manifest);

  absl::Status FragmentApplied() override;
  absl::StatusOr<FinalReport> Conclude(bool writes_weights) override;
  absl::Status Save(std::vector<NamedBlob>* blobs) override;
  absl::Status Load(std::span<const NamedBlob> blobs) override;
  void Waiting() override { interruptible_.Ask(); }

  uint64_t StepTokensMax() const;
  absl::Status CheckArrays(const lw_arrays& arrays) const;
  absl::Status ReadStart(const lw_arrays& arrays, const KernelOps& ops, const Exec& exec);
  // Writes start_ where the elements lie in the flat array, whose element `first` is at `to`.
  void CopyStart(float* to, uint64_t first) const;
  // The flat array, with zeros between the rank's own elements.
  std::vector<float> WholeStart() const;
  // OK also, with was_finished_, if the run is finished.
  absl::Status Register();
  // Handles the result of the member's Begin or StepDone.
  absl::StatusOr<int> After(const absl::StatusOr<bool>& trains);

  const AbiOptions options_;
  const RunConfig config_;
  const std::string configuration_;
  const size_t tensor_count_;
  std::optional<AbiNodeLink> link_;  // of a rank
  NodeRank rank_;
  std::vector<ElementRange> own_;  // elements that this process syncs
  StopSignal stop_;
  Interruptible interruptible_;
  Metrics metrics_;
  std::unique_ptr<MetricsServer> metrics_server_;  // null: none are served
  std::unique_ptr<MemberPlace> place_;
  std::vector<float> start_;              // first weights of this replica, the elements of own_
  std::optional<TrainingMember> member_;  // from Begin on
  Turn turn_ = Turn::kJoined;
  absl::Status trained_;      // the result of training
  bool loop_failed_ = false;  // gradient_ready
  int64_t skipped_ = 0;
  uint64_t saved_step_ = 0;        // the step at which the loaded blobs were saved
  std::vector<NamedBlob> loaded_;  // cleared by the first step
  bool writes_weights_ = false;
  bool was_finished_ = false;  // the run, before Begin
  bool said_tokens_ = false;   // that a step had more than StepTokensMax
  std::atomic<bool> is_busy_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_ABI_MEMBER_H_
