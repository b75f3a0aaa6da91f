#ifndef LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/link/link.h"
#include "common/rpc/shard_report.h"
#include "common/wire/control.h"
#include "server/shard/aggregator.h"

namespace longwave {

// Between a shard's socket and its aggregator: frames in, events to the aggregator, its effects
// out. One thread serves; others hand in what the coordinator says, and read the figures.
//
// A worker's frames go to the connection from which its last frame of this run came. Until the
// membership is known no frame is taken from the socket: what comes early waits in ZeroMQ's queue
// (kSendQueueFramesMax frames a worker, then in the worker's own), and nothing is lost.
class ShardDataPlane {
 public:
  explicit ShardDataPlane(std::unique_ptr<Router> router) : router_(std::move(router)) {}

  std::string endpoint() const { return router_->endpoint(); }

  // On its own thread: serves until Stop. Internal: the socket failed.
  absl::Status Serve();

  // From other threads. Begin comes once; a membership counts from the moment of the call: a frame
  // that arrives afterwards meets it.
  void Begin(uint64_t run, Aggregator aggregator);
  void SetMembership(Membership membership);
  void Stop();

  ShardState state() const;
  std::vector<SegmentReport> segments() const;
  absl::Time last_frame() const;  // InfinitePast: none yet

 private:
  // The following hold mutex_. `frame` is the one being answered, if there is one.
  void ApplyMemberships();
  void Handle(PeerFrame frame);
  void AnswerHello(const PeerFrame& frame);
  void Perform(std::vector<AggregatorEffect> effects, const PeerFrame* frame);
  void SendTo(uint32_t worker, const PeerFrame* frame, const FrameHeader& header, Buffer payload);
  bool IsMember(uint32_t worker) const;
  void NoteRefusals();

  const std::unique_ptr<Router> router_;  // its Wake aside, Serve's alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t run_ = 0;
  std::optional<Aggregator> aggregator_;
  std::vector<Membership> memberships_;  // handed in, not yet applied
  Membership membership_;
  std::map<uint32_t, PeerId> routes_;  // by worker
  LinkCounts counts_;
  absl::Time last_frame_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
