#ifndef LONGWAVE_WORKER_MEMBER_NODE_H_
#define LONGWAVE_WORKER_MEMBER_NODE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "worker/member/control_plane.h"
#include "worker/member/loop_watch.h"
#include "worker/member/node_link.h"
#include "worker/member/node_message.h"
#include "worker/member/stop_signal.h"
#include "worker/sync/exchange.h"

namespace longwave {

// A rank's place in a node: several processes of one machine, each with a device, that are one
// member of the run. Each rank has the core of the whole member, and the pipeline and the exchange
// of its own segments. The ranks meet after every inner step and whenever the member waits, and
// tell each other what has happened. All cores then take the same events and the same time in the
// same order, so that all ranks do the same at the same step.
//
// To the member a node is the exchange and the control plane. Rank 0 alone has a session: what
// other ranks report goes nowhere. Every call that returns a status or StatusOr, except Post,
// Fetch, PostSnapshot and SetEndpoints, is a meeting, which all ranks call in the same order. A
// meeting fails at all ranks if one of them has failed (its sentence), has ended, or does not come
// within the patience (Unavailable).
class Node final : public Exchange, public ControlPlane {
 public:
  // patience: how long a rank may be behind another one in a meeting. meeting_seconds: of meetings
  // after Open; null: not measured.
  Node(NodeLink* link, const Layout* layout, const StopSignal* stop, absl::Duration patience,
       Histogram* meeting_seconds = nullptr);
  // From here on the meetings carry the exchange's events. control: rank 0's; null at others.
  void Open(std::unique_ptr<Exchange> exchange, ControlPlane* control, uint64_t process);
  // on_hang: called if the loop does not come back from an inner step (LoopWatch).
  void Watch(std::function<void(absl::Duration)> on_hang) {
    watch_ = std::make_unique<LoopWatch>(patience_, std::move(on_hang));
  }
  void StepBegins() {
    if (watch_ != nullptr) watch_->StepBegins();
  }
  void StepEnds() {
    if (watch_ != nullptr) watch_->StepEnds();
  }
  void StepPauses() {
    if (watch_ != nullptr) watch_->Pause();
  }

  NodeRank rank() const { return rank_; }
  SegmentRange owned() const { return owned_; }
  // The number of the process of the node that has opened the folder (WorkerFolder::process).
  uint64_t process() const { return process_; }
  // The error of the first meeting that failed, after which all fail.
  const absl::Status& failure() const { return failure_; }
  // The time of the last meeting at rank 0, which all cores have.
  absl::Time now() const { return now_; }

  // Rank 0's, as soon as it has it, however long that takes. ended: of rank 0's session.
  absl::StatusOr<RunStart> Share(const absl::StatusOr<RunStart>& mine,
                                 std::optional<absl::Status> ended = std::nullopt);
  // The hashes of all segments, from each rank's own.
  absl::StatusOr<std::vector<uint64_t>> Hashes(std::vector<uint64_t> own);
  absl::Duration patience() const { return patience_; }
  // OK if all ranks have it.
  absl::Status Agree(const absl::Status& mine) { return Agree(mine, patience_); }
  absl::Status Agree(const absl::Status& mine, absl::Duration patience);
  // The sums of the ranks' tokens and figures (as many at each), and the mean of their losses.
  struct Step {
    uint64_t tokens = 0;
    std::optional<double> loss;
    std::vector<double> figures;
  };
  absl::StatusOr<Step> StepDone(uint64_t tokens, std::optional<double> loss,
                                std::vector<double> figures);
  // Tells the others, in the meeting that they come to next, that this rank ends with an error.
  void Fail(const absl::Status& failure);

  // Exchange.
  // Called for all segments at all ranks; the owner's exchange carries it.
  absl::Status Post(SegmentPush push) override;
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) override;
  bool HasSettled() const override { return !settled_.empty(); }
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override;
  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) override;
  uint32_t NewestOpenRound() const override { return newest_open_round_; }
  std::optional<SnapshotRequest> NextRequest() override { return exchange_->NextRequest(); }
  bool HasSnapshotRoom(uint32_t segment) const override {
    return exchange_->HasSnapshotRoom(segment);
  }
  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) override {
    return exchange_->PostSnapshot(segment, round, std::move(payload));
  }
  absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints) override {
    return exchange_->SetEndpoints(shard_endpoints);
  }
  // Of all ranks, as of the last meeting.
  ByteCounts counts() const override { return bytes_; }
  uint64_t renewals() const override { return renewals_; }

  // ControlPlane, as of the last meeting.
  Directive directive() const override { return directive_; }
  bool stop_requested() const override { return stop_requested_; }
  std::optional<absl::Status> ended() const override { return ended_; }
  absl::Duration coordinator_silence() const override;
  void Warn(const std::string& text) override;
  uint64_t warnings() const override { return control_ == nullptr ? 0 : control_->warnings(); }
  void SetState(const WorkerState& state) override;
  void Report(RoundReport report) override;
  void SetReadyRound(uint32_t round) override;
  std::optional<std::vector<std::string>> TakeNewEndpoints() override;
  void Finish(const FinalReport& report) override;
  absl::StatusOr<bool> AwaitEnd(absl::Duration patience) override;

 private:
  using Meeting = NodeMessage::Meeting;
  // Exchanges the messages of all ranks, and takes what they have in common.
  absl::StatusOr<std::vector<NodeMessage>> Meet(const NodeMessage& mine, absl::Duration patience);
  absl::StatusOr<std::vector<NodeMessage>> Meet(const NodeMessage& mine) {
    return Meet(mine, patience_);
  }
  // Changes nothing but ended_, which all ranks have also where the meeting fails.
  absl::StatusOr<std::vector<NodeMessage>> GatherMessages(const NodeMessage& mine,
                                                          absl::Duration patience);
  NodeMessage Message(Meeting meeting, const absl::Status& status = absl::OkStatus());
  // The next event of all ranks in `queue`, after a meeting for more where it is empty. take: the
  // exchange's, of this rank's own.
  template <typename Event, typename Take>
  absl::StatusOr<std::optional<Event>> NextOf(std::deque<Event>& queue,
                                              std::vector<Event> NodeMessage::*list, Take take,
                                              absl::Duration timeout);
  // Forgets the results of an earlier fetch of the segment.
  void DropFetched(uint32_t segment);

  NodeLink* const link_;
  const StopSignal* const stop_;
  const absl::Duration patience_;
  Histogram* const meeting_seconds_;
  const NodeRank rank_;
  const SegmentRange owned_;
  uint64_t process_ = 0;
  std::unique_ptr<Exchange> exchange_;
  ControlPlane* control_ = nullptr;
  absl::Status failure_;  // of the first meeting that failed

  // Of the last meeting.
  absl::Time now_;
  Directive directive_;
  bool stop_requested_ = false;
  std::optional<absl::Status> ended_;
  uint32_t newest_open_round_ = 0;
  ByteCounts bytes_;
  uint64_t renewals_ = 0;
  std::optional<std::vector<std::string>> endpoints_;
  // Events of all ranks that the member has not taken, in the same order at each rank.
  std::deque<Settled> settled_;
  std::deque<FetchEvent> fetched_;
  std::unique_ptr<LoopWatch> watch_;  // null: none

  std::mutex warnings_mutex_;
  std::vector<std::string> warnings_;  // for the next meeting: this rank cannot tell them
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_NODE_H_
