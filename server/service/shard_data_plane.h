#ifndef LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/link/link.h"
#include "common/rpc/shard_report.h"
#include "common/security/refusals.h"
#include "common/wire/control.h"
#include "common/wire/traffic.h"
#include "server/service/pacer.h"
#include "server/service/shard_metrics.h"
#include "server/service/worker_connections.h"
#include "server/shard_state/durable_shard.h"

namespace longwave {

// Between a shard's socket and its state: frames in, events to the state, its effects out. One
// thread serves and owns all that it works on; the others leave it what the coordinator says, and
// what they want to know, and it looks there between two frames.
//
// With a folder the thread takes all frames that are there, at most kBatchFrames and kBatchBytes,
// and makes what they say durable at once before anything of it is answered: one sync a wake. It
// looks after snapshots when all was answered.
//
// Who asks is answered where it asked from. A merged update goes by the connection from which the
// worker's last frame of that segment came, at the rate that the worker's hello named (see Pacer);
// it is sealed once, and one buffer goes to all. A worker that has not said hello to this process
// is asked to, since ZeroMQ connects it to a shard that was started again without a word; until it
// does, and for kHelloPatience at most, it is sent nothing but answers.
//
// Until the membership is known no frame is taken from the socket: what comes early waits in
// ZeroMQ's queue (see LinkOptions, then in the worker's own), and nothing is lost.
class ShardDataPlane {
 public:
  // refusals, null or living longer: counts what a secured router refuses. metrics, likewise: is
  // told what happens.
  explicit ShardDataPlane(std::unique_ptr<Router> router, Refusals* refusals = nullptr,
                          ShardMetrics* metrics = nullptr)
      : router_(std::move(router)),
        refusals_(refusals),
        metrics_(metrics),
        pacer_(router_->encryption()) {}

  static constexpr size_t kBatchFrames = 256;
  static constexpr uint64_t kBatchBytes = uint64_t{64} << 20;
  // After which a worker is asked for its hello again.
  static constexpr absl::Duration kHelloPatience = absl::Seconds(1);
  // For which a member that has sent what could harm the model is named in the condition.
  static constexpr absl::Duration kComplaintLife = absl::Minutes(10);

  std::string endpoint() const { return router_->endpoint(); }

  // On its own thread: serves until Stop. Internal: the socket failed. Call it once.
  absl::Status Serve();

  // From other threads. Begin comes once; a membership counts from the moment of the call: a frame
  // that arrives afterwards meets it. incarnation: of this process, which answers to hellos say.
  void Begin(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard);
  void SetMembership(Membership membership);
  void SetVerdicts(std::vector<SnapshotVerdict> verdicts);
  void Stop();

  // From other threads, as of a moment between two frames.
  struct Condition {
    ShardState state;
    std::string trouble;              // DurableShard::trouble
    bool knows_untold_epoch = false;  // DurableShard's
    // The last member whose contribution was of no use, and why; for kComplaintLife.
    std::string complaint;
    std::vector<SnapshotHash> snapshots;  // that wait for a verdict
  };
  Condition condition() const;
  ShardState state() const { return condition().state; }
  std::vector<SegmentReport> segments() const;
  LinkTraffic traffic() const;
  // By index. Connections count for each worker that uses them, from when they were first used.
  std::vector<WorkerLinkReport> workers() const;
  absl::Time last_frame() const;  // InfinitePast: none yet
  ShardFigures figures() const;

 private:
  // What is known of a member.
  struct Worker {
    WorkerConnections connections;
    LinkTraffic past;  // by connections that are no more
    bool greeted = false;
    absl::Time asked_hello = absl::InfinitePast();
    uint64_t clipped = 0;  // contributions
  };

  // A frame that an event came from, until the event's effects are performed.
  struct Asked {
    uint64_t event = 0;
    PeerId peer;
    FrameKind kind = FrameKind::kHello;
    bool is_stranger = false;
  };

  absl::Status ServeFrames();
  // `first`, and with a folder what else is there. Whether to go on.
  absl::StatusOr<bool> HandleBatch(const PeerFrame& first);
  // Whether to go on.
  bool Attend();
  void ApplyMembership(const Membership& membership);

  void Handle(const PeerFrame& frame);
  void Hear(Worker& worker, const PeerFrame& frame);
  void AnswerHello(const PeerFrame& frame);
  void AskHello(Worker& worker, const PeerFrame& frame);
  // What a segment's residual is, if it is time to know.
  void MeasureResidual();
  // Commits what was stepped, performs what follows, and tends.
  void Settle();
  void Perform(ShardEffect& effect);
  void NoteClipped(const ContributionClipped& clipped);
  void Complain(std::string sentence);
  void LogNotices();
  void Answer(const PeerId& peer, const FrameHeader& header, const std::string& reason);
  // One frame, sealed once, to each of them.
  void SendTo(const std::vector<uint32_t>& workers, const FrameHeader& header, Buffer payload,
              Pacer::Cause cause);
  void SendDue();
  void SendByRoute(uint32_t worker, const SealedFrame& frame, Pacer::Cause cause, absl::Time now);
  void NoteUnsent(uint32_t worker, const FrameHeader& header, const absl::Status& status);
  void NoteRefusals();
  void RetireConnection(Worker& worker, const PeerId& peer);
  Worker* FindMember(uint32_t worker);
  const Asked* FindAsked(uint64_t event) const;

  // Calls `read` on the thread that serves, between two frames; here, if none serves.
  void Ask(absl::FunctionRef<void()> read) const;

  // What came to the router's door, to refusals_.
  void NoteDoor() const;

  const std::unique_ptr<Router> router_;  // its Wake aside, the serving thread's alone
  Refusals* const refusals_;
  ShardMetrics* const metrics_;

  // Between threads.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::atomic<bool> attention_{false};  // something below is new
  bool stopping_ = false;
  bool serving_ = false;                 // frames are being taken: what follows is that thread's
  std::vector<Membership> memberships_;  // handed in, not yet applied
  std::vector<SnapshotVerdict> verdicts_;
  mutable std::vector<std::function<void()>> questions_;

  // The serving thread's; before it serves, under mutex_.
  uint64_t run_ = 0;
  uint64_t incarnation_ = 0;
  std::unique_ptr<DurableShard> shard_;
  Membership membership_;
  absl::flat_hash_map<uint32_t, Worker> workers_;  // the members
  Pacer pacer_;
  std::vector<Asked> asked_;  // ascending
  absl::Time last_frame_ = absl::InfinitePast();
  uint64_t refusals_noted_ = 0;
  uint64_t rejected_ = 0;  // frames from workers that were of no use
  std::string complaint_;
  absl::Time complained_at_ = absl::InfinitePast();
  uint64_t unsent_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
