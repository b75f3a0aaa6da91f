#ifndef LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/link/link.h"
#include "common/security/refusals.h"
#include "common/wire/control.h"
#include "common/wire/shard_report.h"
#include "common/wire/traffic.h"
#include "server/service/shard_metrics.h"
#include "server/shard_state/shard_core.h"

namespace longwave {

// A shard's socket and thread around ShardCore, which decides: one thread serves and owns all that
// it works on; the others leave it what the coordinator says, and what they want to know, and it
// looks there between two frames.
//
// Until the membership is known no frame is taken from the socket: what comes early waits in
// ZeroMQ's queue (see LinkOptions, then in the worker's own), and nothing is lost.
class ShardDataPlane {
 public:
  // refusals, null or living longer: counts what a secured router refuses. metrics, likewise: is
  // told what happens.
  explicit ShardDataPlane(std::unique_ptr<Router> router, Refusals* refusals = nullptr,
                          ShardMetrics* metrics = nullptr)
      : router_(std::move(router)), refusals_(refusals), metrics_(metrics) {}

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
  ShardHeartbeat Report(uint32_t known_epoch) const;  // ShardCore's, with the socket's bytes
  ShardReport status() const;                         // what this knows of it
  absl::Time last_frame() const;                      // InfinitePast: none yet
  ShardFigures figures() const;

 private:
  absl::Status ServeFrames();
  // Does what the other threads have posted. Whether to go on.
  bool Attend();
  void Take(const PeerFrame& frame);
  // Commits what was taken, sends what follows, and tends.
  void Settle();
  void SendDue();
  void Count(const ShardEffect& effect);
  // What a segment's residual is, if it is time to know.
  void MeasureResidual();
  void LogNotices();
  void NoteRefusals();

  // Leaves the thread that serves something to do between two frames. With mutex_ held.
  void Post(std::function<void()> task) const;
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
  bool serving_ = false;  // frames are being taken: what follows is that thread's
  bool knows_members_ = false;
  mutable std::vector<std::function<void()>> tasks_;  // in the order in which they came

  // The serving thread's; before it serves, under mutex_.
  std::unique_ptr<ShardCore> core_;
  uint64_t refusals_noted_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
