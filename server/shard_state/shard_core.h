#ifndef LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_
#define LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/link/peer_frame.h"
#include "common/link/sealed_frame.h"
#include "common/wire/control.h"
#include "common/wire/shard_report.h"
#include "server/shard/pacer.h"
#include "server/shard/worker_connections.h"
#include "server/shard_state/durable_shard.h"

namespace longwave {

// A shard: its state (DurableShard) behind the connections of its workers, pure. It decides which
// frame is an event of the state, who is answered, on which connection and at which rate, and what
// of it is worth a line in the log. No socket, thread or clock inside; the server's thread and the
// simulator drive the same object. A driver does, again and again and at NextDue(), once the first
// membership is known (frames that come before are left in the socket):
//
//   Take       a frame that has come, and SendDue; and more while TakesMore()
//   Commit     one write and one sync for what all of them say, and SendDue
//   Tend       what may take long and what nobody waits for
//
// Answers    go out on the connection that carried the request, and wait for nothing but the
//            commit. An answer that the connection does not take is dropped: the worker repeats
//            its request.
// Updates    and whatever else a worker is owed go out on the connection that carried the worker's
//            last frame of the segment (WorkerConnections), at the rate that the worker's hello
//            named (Pacer). An update is sealed once, and one buffer goes to all workers. A
//            connection that has gone gives way to the worker's next one; one whose queue is full
//            is tried again after kRetryInterval.
// Hellos     are answered at once, and name this process. ZeroMQ connects a worker to a shard that
//            was started again without a word: a worker that has said no hello to this process is
//            asked for one, every kHelloPatience. Until its hello comes, and for kHelloPatience at
//            most, it is sent nothing but answers.
class ShardCore {
 public:
  // Frames that may be made durable by one commit, where there is a folder.
  static constexpr size_t kBatchFrames = 256;
  static constexpr uint64_t kBatchBytes = uint64_t{64} << 20;
  static constexpr absl::Duration kHelloPatience = absl::Seconds(1);
  static constexpr absl::Duration kRetryInterval = absl::Milliseconds(100);
  // For which the report names the last member that has sent what could harm the model.
  static constexpr absl::Duration kComplaintLife = absl::Minutes(10);

  // incarnation: of this process, which answers to hellos say. encryption: of the links.
  ShardCore(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard,
            Encryption encryption = Encryption::kNone);

  // From the coordinator. A worker that is no member any more loses its connections and its queue.
  void SetMembership(const Membership& membership, absl::Time now);
  void SetVerdicts(std::vector<SnapshotVerdict> verdicts, absl::Time now);

  // What became of a frame.
  struct Taken {
    uint64_t event = 0;  // of the shard (DurableShard::Step); 0: the frame was none
    bool is_strangers = false;
    bool is_of_shards = false;  // a kind that only shards send: it was dropped
  };
  Taken Take(const PeerFrame& frame, absl::Time now);
  // Whether another frame may be taken before Commit.
  bool TakesMore() const;
  // Returns what the driver may count or check; what is to be sent of it is due from now on.
  std::vector<ShardEffect> Commit(absl::Time now);
  // Hands a frame to a connection. NotFound: that has gone. Unavailable: its queue is full.
  using SendFrame = absl::FunctionRef<absl::Status(const PeerId&, const SealedFrame&)>;
  void SendDue(absl::Time now, SendFrame send);
  void Tend(absl::Time now) { shard_->Tend(now); }

  // When there is something to do without a frame.
  absl::Time NextDue() const { return std::min(pacer_.NextDue(), shard_->NextDue()); }

  // Sentences for the log of the process, since the last call. Of what may come without end the
  // first, the second, the fourth … are told.
  std::vector<std::string> TakeNotices();

  // What the coordinator and those who ask are told. A report for a heartbeat has all that depends
  // on this shard's state; known_epoch: that it was told.
  ShardHeartbeat Report(uint32_t known_epoch, absl::Time now) const;
  std::vector<WorkerLinkReport> links() const;  // of the members, by worker
  bool IsMember(uint32_t worker) const { return workers_.contains(worker); }
  const Membership& membership() const { return membership_; }
  absl::Time last_frame() const { return last_frame_; }  // InfinitePast: none yet
  uint64_t unsent_count() const { return unsent_; }      // frames that were dropped
  DurableShard& shard() { return *shard_; }
  const DurableShard& shard() const { return *shard_; }

 private:
  // What is known of a member.
  struct Worker {
    WorkerConnections connections;
    bool greeted = false;
    absl::Time asked_hello = absl::InfinitePast();
    uint64_t clipped = 0;  // contributions
    LinkTraffic traffic;
  };
  // A frame that an event came from.
  struct Request {
    PeerId peer;
    FrameKind kind = FrameKind::kHello;
  };
  struct Outgoing {
    PeerId peer;  // empty: it goes by the worker's route
    Pacer::Due what;
  };

  void Hear(Worker& worker, const PeerFrame& frame);
  void AskHello(Worker& worker, const PeerFrame& frame);
  void AnswerHello(const PeerFrame& frame);
  void Tell(const ShardEffect& effect, absl::Time now);
  void NoteRejected(const AnswerPush& answer, absl::Time now);
  void NoteClipped(const ContributionClipped& clipped, absl::Time now);
  void Complain(std::string sentence, absl::Time now);
  void Answer(const PeerId& peer, const FrameHeader& header, const std::string& reason);
  // One frame, sealed once, to each of them.
  void SendTo(const std::vector<uint32_t>& workers, const FrameHeader& header, Buffer payload,
              Pacer::Cause cause);
  void Send(Outgoing& out, absl::Time now, SendFrame send);
  void Drop(uint32_t worker, const FrameHeader& header, const absl::Status& status);
  Worker* FindMember(const FrameHeader& header, uint32_t worker);

  const uint64_t run_;
  const uint64_t incarnation_;
  const Encryption encryption_;
  const std::unique_ptr<DurableShard> shard_;
  Membership membership_;
  absl::flat_hash_map<uint32_t, Worker> workers_;  // the members
  Pacer pacer_;

  // Since the last commit.
  size_t batch_frames_ = 0;
  uint64_t batch_bytes_ = 0;
  absl::flat_hash_map<uint64_t, Request> requests_;  // by event

  std::vector<Outgoing> outgoing_;  // due now, as far as the pacer agrees
  std::vector<std::string> notices_;
  absl::Time last_frame_ = absl::InfinitePast();
  uint64_t rejected_ = 0;  // frames from workers that were of no use
  uint64_t unsent_ = 0;
  std::string complaint_;
  absl::Time complained_at_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_
