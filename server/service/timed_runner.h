#ifndef LONGWAVE_SERVER_SERVICE_TIMED_RUNNER_H_
#define LONGWAVE_SERVER_SERVICE_TIMED_RUNNER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/metrics/metrics.h"
#include "server/shard/tile_runner.h"

namespace longwave {

// Observes the time that another runner takes for the work.
class TimedRunner final : public TileRunner {
 public:
  // `seconds` outlives this.
  TimedRunner(std::shared_ptr<TileRunner> runner, Histogram* seconds)
      : runner_(std::move(runner)), seconds_(seconds) {}

  uint32_t slot_count() const override { return runner_->slot_count(); }
  void Run(uint32_t tile_count, Work work) override {
    const absl::Time begin = MonotonicNow();
    runner_->Run(tile_count, work);
    seconds_->Observe(absl::ToDoubleSeconds(MonotonicNow() - begin));
  }

 private:
  const std::shared_ptr<TileRunner> runner_;
  Histogram* const seconds_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_TIMED_RUNNER_H_
