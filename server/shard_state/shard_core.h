#ifndef LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_
#define LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/link/peer_frame.h"
#include "common/link/sealed_frame.h"
#include "longwave/v1/shard.records.h"
#include "server/shard/pacer.h"
#include "server/shard/worker_connections.h"
#include "server/shard_state/durable_shard.h"

namespace longwave {

// A shard: its state (DurableShard) behind the connections of its workers, pure. The core decides
// which frame is an event of the state, on which connection and at which rate answers leave, and
// which events the log shows. No socket, thread or clock inside; the server's thread and the
// simulator drive the same object. From the first membership on, a driver calls in a loop and at
// NextDue() (earlier frames stay in the socket):
//
//   Take    a frame, and SendDue; repeated while TakesMore()
//   Commit  one write and one sync for all of them, and SendDue
//   Tend    slow work that no worker waits for
//
// Answers   The shard answers on the connection that carried the request, right after the commit.
//           Each request has one answer; a pull of an open round is answered with its update.
// Updates   Updates and requests leave on the connection that carried the worker's last frame of
//           the segment (WorkerConnections), at the rate that the worker's hello named (Pacer). The
//           shard seals an update once and sends one buffer to all workers. The worker's next
//           connection replaces a closed one. The shard retries a connection with a full queue
//           after kRetryInterval.
// Losses    Both ends count a connection's frames. The shard counts a frame that it drops (full
//           connection, or too much waiting for the worker) as sent: the answer to the worker's
//           next hello then shows the loss, and the worker repeats its request.
// Hellos    The shard answers a hello after the frames before it and names its process. ZeroMQ
//           reconnects a worker to a restarted shard without notice, so the shard requests a hello
//           every kHelloPatience from a worker that has said none to this process. Until the hello
//           comes, for at most kHelloPatience, the shard sends that worker only answers.
class ShardCore {
 public:
  // Limits of one commit, with a folder.
  static constexpr size_t kBatchFrames = 256;
  static constexpr uint64_t kBatchBytes = uint64_t{64} << 20;
  static constexpr absl::Duration kHelloPatience = absl::Seconds(1);
  static constexpr absl::Duration kRetryInterval = absl::Milliseconds(100);
  // The report names the last member that has sent something harmful to the model for so long.
  static constexpr absl::Duration kComplaintLife = absl::Minutes(10);

  // incarnation: this process's, for answers to hellos. encryption: of the links.
  ShardCore(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard,
            Encryption encryption = Encryption::kNone);

  // Membership from the coordinator. A worker that is no longer a member loses its connections and
  // its queue.
  void SetMembership(const Membership& membership, absl::Time now);
  void SetHashChecks(std::vector<HashCheck> hash_checks, absl::Time now);

  // The result of a frame.
  struct Taken {
    uint64_t event = 0;  // of the shard (DurableShard::Step); 0: no event
    bool is_strangers = false;
    bool is_of_shards = false;  // only shards send this kind: dropped
  };
  Taken Take(const PeerFrame& frame, absl::Time now);
  // The driver may take another frame before Commit.
  bool TakesMore() const;
  // Returns the effects for the driver's counts and checks; their frames are due from now on.
  std::vector<ShardEffect> Commit(absl::Time now);
  // Hands a frame to a connection. NotFound: the connection is closed. Unavailable: its queue is
  // full.
  using SendFrame = absl::FunctionRef<absl::Status(const PeerId&, const SealedFrame&)>;
  void SendDue(absl::Time now, SendFrame send);
  void Tend(absl::Time now) { shard_->Tend(now); }

  // The time at which there is work without a frame.
  absl::Time NextDue() const { return std::min(pacer_.NextDue(), shard_->NextDue()); }

  // Sentences for the process's log since the last call. Repeated events appear at their first,
  // second, fourth … occurrence.
  std::vector<std::string> TakeNotices();

  // The heartbeat's parts that depend on this shard's state. known_epoch: as told by the
  // coordinator.
  ShardHeartbeat Report(uint32_t known_epoch, absl::Time now) const;
  std::vector<WorkerLinkReport> links() const;  // of the members, by worker
  bool IsMember(uint32_t worker) const { return workers_.contains(worker); }
  const Membership& membership() const { return membership_; }
  absl::Time last_frame() const { return last_frame_; }  // of a member; InfinitePast: none yet
  uint64_t unsent_count() const { return unsent_; }      // dropped frames
  DurableShard& shard() { return *shard_; }
  const DurableShard& shard() const { return *shard_; }

 private:
  // State of a member.
  struct Worker {
    WorkerConnections connections;
    bool greeted = false;
    absl::Time asked_hello = absl::InfinitePast();
    uint64_t clipped = 0;  // contributions
    LinkTraffic traffic;
  };
  // The frame that caused an event.
  struct Request {
    PeerId peer;
    FrameKind kind = FrameKind::kHello;
  };
  struct Outgoing {
    PeerId peer;  // empty: the worker's route decides
    Pacer::Due what;
  };

  // Returns the number of earlier frames on its connection.
  uint32_t Hear(Worker& worker, const PeerFrame& frame);
  WorkerConnections::Hello HelloOf(const HelloFrame& hello) const;
  void RequestHello(Worker& worker, const PeerFrame& frame);
  // taken: the number of earlier frames on its connection.
  void AnswerHello(const PeerId& peer, const HelloFrame& hello, uint32_t taken);
  void Tell(const ShardEffect& effect, absl::Time now);
  void NoteRejected(const AnswerPush& answer, absl::Time now);
  void NoteClipped(const ContributionClipped& clipped, absl::Time now);
  void Complain(std::string sentence, absl::Time now);
  void Answer(const PeerId& peer, const FrameHeader& header, const std::string& reason);
  // Sends one frame, sealed once, to each of them.
  void SendTo(const std::vector<uint32_t>& workers, const FrameHeader& header, Buffer payload,
              Pacer::Cause cause);
  void Send(Outgoing& out, absl::Time now, SendFrame send);
  // Sends on the connection that `out` names, or else by the worker's route to the segment. peer:
  // the connection used.
  absl::Status Deliver(Outgoing& out, Worker* worker, SendFrame send, PeerId& peer);
  void Drop(uint32_t worker, const FrameName& frame, const absl::Status& status);
  // A frame of the segment for the worker will not be sent.
  void CountDropped(uint32_t worker, uint32_t segment);
  Worker* FindMember(const FrameName& frame, uint32_t worker);

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
  std::vector<Outgoing> welcomes_;                   // answers to hellos

  std::vector<Outgoing> outgoing_;  // due now, subject to the pacer
  std::vector<std::string> notices_;
  absl::Time last_frame_ = absl::InfinitePast();
  uint64_t rejected_ = 0;  // useless frames of workers
  uint64_t unsent_ = 0;
  std::string complaint_;
  absl::Time complained_at_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_
