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
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/link/peer_frame.h"
#include "longwave/v1/shard.records.h"
#include "server/shard/shard_effect.h"
#include "server/shard_state/durable_shard.h"
#include "server/shard_state/member_links.h"
#include "server/shard_state/outbox.h"
#include "server/shard_state/shard_notices.h"

namespace longwave {

// A shard: its state (DurableShard) behind the connections of its workers, pure. The core passes
// frames as events to the state, and the state's effects to the connections (MemberLinks), the
// paced frames (Outbox) and the log (ShardNotices). No socket, thread or clock inside; the server's
// thread and the simulator drive the same object. From the first membership on, a driver calls in a
// loop and at NextDue() (earlier frames stay in the socket):
//
//   OnFrame  each frame, and SendDue; repeated while TakesMore()
//   Commit   one write and one sync for all of them, and SendDue
//   Tend     slow work that no worker waits for
//
// Answers   The shard answers on the connection that carried the request, right after the commit.
//           Each request has one answer; a pull of an open round is answered with its update.
// Updates   Updates and requests leave on the connection that carried the worker's last frame of
//           the segment (WorkerConnections), at the rate that the worker's hello named (Pacer). The
//           shard seals an update once and sends one buffer to all workers. The worker's next
//           connection replaces a closed one.
// Hellos    The shard answers a hello after the frames before it and names its process. ZeroMQ
//           reconnects a worker to a restarted shard without notice, so the shard requests a hello
//           every kHelloPatience from a worker that has said none to this process. Until the hello
//           comes, for at most kHelloPatience, the shard sends that worker only answers.
class ShardCore {
 public:
  // Limits of one commit, with a folder.
  static constexpr size_t kBatchFrames = 256;
  static constexpr uint64_t kBatchBytes = uint64_t{64} << 20;

  // incarnation: this process's, for answers to hellos. encryption: of the links.
  ShardCore(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard,
            Encryption encryption = Encryption::kNone);

  // Membership from the coordinator. A worker that is no longer a member loses its connections and
  // its queue.
  void SetMembership(const Membership& membership, absl::Time now);
  void SetHashChecks(std::vector<HashCheck> hash_checks, absl::Time now);
  void HoldBack(std::string reason) { shard_->HoldBack(std::move(reason)); }

  // The result of a frame.
  struct Taken {
    uint64_t event = 0;  // of the shard (DurableShard::Step); 0: no event
    bool is_strangers = false;
    bool is_of_shards = false;  // only shards send this kind: dropped
  };
  Taken OnFrame(const PeerFrame& frame, absl::Time now);
  // The driver may take another frame before Commit.
  bool TakesMore() const;
  // Returns the effects for the driver's counts and checks; their frames are due from now on.
  std::vector<ShardEffect> Commit(absl::Time now);
  void SendDue(absl::Time now, SendToPeer send) { outbox_.SendDue(now, send); }
  void Tend(absl::Time now) { shard_->Tend(now); }

  // The time at which there is work without a frame.
  absl::Time NextDue() const { return std::min(outbox_.pacer().NextDue(), shard_->NextDue()); }

  // Sentences for the process's log since the last call.
  std::vector<std::string> TakeNotices();

  // The heartbeat's parts that depend on this shard's state. known_epoch: as told by the
  // coordinator.
  ShardHeartbeat Report(uint32_t known_epoch, absl::Time now) const;
  std::vector<WorkerLinkReport> links() const;  // of the members, by worker
  bool IsMember(uint32_t worker) const { return links_.Contains(worker); }
  const Membership& membership() const { return membership_; }
  absl::Time last_frame() const { return last_frame_; }  // of a member; InfinitePast: none yet
  uint64_t unsent_count() const { return notices_.unsent_count(); }  // dropped frames
  DurableShard& shard() { return *shard_; }
  const DurableShard& shard() const { return *shard_; }

 private:
  // earlier: the number of earlier frames on its connection.
  void AnswerHello(const PeerId& peer, const HelloFrame& hello, uint32_t earlier);
  // A member's hello, or a frame of a member that may have said none.
  void NoteHello(const PeerFrame& frame, absl::Time now);
  void Dispatch(ShardEffect& effect, absl::Time now);

  const uint64_t run_;
  const uint64_t incarnation_;
  const std::unique_ptr<DurableShard> shard_;
  Membership membership_;
  MemberLinks links_;
  ShardNotices notices_;
  Outbox outbox_;

  // Since the last commit.
  size_t batch_frames_ = 0;
  uint64_t batch_bytes_ = 0;
  absl::flat_hash_map<uint64_t, PeerId> requests_;  // their connections, by event

  absl::Time last_frame_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SHARD_CORE_H_
