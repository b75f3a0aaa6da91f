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

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/link/link.h"
#include "longwave/v1/shard.records.h"
#include "server/service/shard_metrics.h"
#include "server/shard_state/shard_core.h"

namespace longwave {

// A shard's socket and thread around ShardCore. One thread serves, and owns the core and the
// socket. Other threads post memberships and requests for it, which it handles between two frames.
//
// Frames stay in the socket until the membership is known. Early frames wait in ZeroMQ's queue (see
// LinkOptions), then in the worker's own, and none is lost.
class ShardDataPlane {
 public:
  // For how long other threads wait for the serving thread's answer, by default.
  static constexpr absl::Duration kAskPatience = absl::Milliseconds(500);
  // metrics: null, or outlives this object.
  explicit ShardDataPlane(std::unique_ptr<Router> router, ShardMetrics* metrics = nullptr,
                          absl::Duration ask_patience = kAskPatience)
      : router_(std::move(router)), metrics_(metrics), ask_patience_(ask_patience) {}

  std::string endpoint() const { return router_->endpoint(); }

  // Serves until Stop; runs on its own thread. Internal: the socket failed. Call once.
  absl::Status Serve();

  // For other threads. Begin is called once. A membership holds for all frames that arrive after
  // the call. incarnation: of this process, sent in answers to hellos.
  void Begin(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard);
  void SetMembership(Membership membership);
  void SetHashChecks(std::vector<HashCheck> hash_checks);
  void HoldBack(const std::string& reason);  // see DurableShard
  void Stop();

  // For other threads; values are as of a moment between two frames. While the serving thread is
  // busy for longer than ask_patience, with a disk that does not answer or a folder that it opens
  // again, they are the values before.
  // ShardCore's, with the socket's bytes. Trouble after kBusyMax without a moment between two
  // frames.
  ShardHeartbeat Report(uint32_t known_epoch) const;
  static constexpr absl::Duration kBusyMax = absl::Seconds(5);
  ShardReport status() const;  // the data plane's part
  ShardFigures figures() const;

 private:
  absl::Status ServeFrames();
  // Runs the tasks that other threads have posted. False: to stop. ends: the last time.
  bool Attend(bool ends = false);
  void OnFrame(const PeerFrame& frame);
  // Commits the taken frames, sends answers and updates, and tends the core.
  void Settle();
  void SendDue();
  void Count(const ShardEffect& effect);
  // Measures a segment's residual if the time has come.
  void MeasureResidual();
  void LogNotices();

  // Posts a task for the serving thread to run between two frames, without mutex_, which the caller
  // holds. After a stop a task only reads.
  void Post(std::function<void()> task) const;
  // A value for other threads, made by the serving thread.
  template <typename T>
  struct Asked {
    T newest;
    bool is_due = false;  // the serving thread was asked, and has not answered yet
    absl::Time since;     // when
  };
  template <typename T>
  T Ask(Asked<T>& asked, T (ShardDataPlane::*make)() const) const;
  ShardHeartbeat NewReport() const;
  ShardReport NewStatus() const;
  ShardFigures NewFigures() const;

  const std::unique_ptr<Router> router_;  // the serving thread's, except its Wake
  ShardMetrics* const metrics_;
  const absl::Duration ask_patience_;

  // Shared between threads.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::atomic<bool> attention_{false};  // a member below has changed
  std::atomic<bool> stopping_ = false;
  bool serving_ = false;  // the serving thread takes frames, and owns the members below
  bool knows_members_ = false;
  std::string held_back_;  // the coordinator's reason to merge nothing for now
  mutable std::vector<std::function<void()>> tasks_;  // in order of arrival
  mutable Asked<ShardHeartbeat> report_;
  mutable Asked<ShardReport> status_;
  mutable Asked<ShardFigures> figures_;

  // The serving thread's; guarded by mutex_ before it serves.
  std::unique_ptr<ShardCore> core_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_DATA_PLANE_H_
