#ifndef LONGWAVE_TESTS_BENCH_IN_PROCESS_IN_PROCESS_H_
#define LONGWAVE_TESTS_BENCH_IN_PROCESS_IN_PROCESS_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "server/shard/aggregator.h"
#include "worker/member/control_plane.h"
#include "worker/sync/exchange.h"

namespace longwave {

// A run's only shard, a function call away from its workers: the product's aggregator without
// sockets, frames and a log. Any thread may call it.
class ShardInProcess {
 public:
  // A shard of run.workers members, which push from round 0 on.
  static absl::StatusOr<std::unique_ptr<ShardInProcess>> Create(const RunConfig& config,
                                                                const Layout& layout);

  // The worker's side; the shard outlives it.
  std::unique_ptr<Exchange> Connect(uint32_t worker);

  // Ends every worker's wait with this error: one of them has ended.
  void Fail(const absl::Status& status);

  // Payload bytes of all workers together, without frames' headers.
  ByteCounts bytes() const;

 private:
  class Connection;
  ShardInProcess(Aggregator aggregator, uint32_t workers)
      : aggregator_(std::move(aggregator)), settled_(workers) {}
  absl::Status Push(uint32_t worker, const SegmentPush& push);
  absl::StatusOr<std::optional<Settled>> Next(uint32_t worker, absl::Duration timeout);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Aggregator aggregator_;
  std::vector<std::vector<Settled>> settled_;  // by worker
  absl::Status failure_;
  ByteCounts bytes_;
};

// A control plane for members that train from the first round to the last: nobody joins or leaves.
class NobodyWatches final : public ControlPlane {
 public:
  explicit NobodyWatches(bool validates = false) : validates_(validates) {}

  Directive directive() const override {
    return {.epoch = 1, .first_round = 0, .validates = validates_};
  }
  bool stop_requested() const override { return false; }
  void SetState(const WorkerState&) override {}
  void Report(RoundReport report) override { last = std::move(report); }
  void SetReadyRound(uint32_t) override {}
  std::optional<std::vector<std::string>> TakeNewEndpoints() override { return std::nullopt; }
  void Finish(const FinalReport&) override {}
  absl::StatusOr<bool> AwaitEnd(absl::Duration) override { return true; }

  RoundReport last;

 private:
  const bool validates_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_IN_PROCESS_IN_PROCESS_H_
