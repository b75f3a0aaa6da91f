#ifndef LONGWAVE_TESTS_BENCH_IN_PROCESS_NOBODY_WATCHES_H_
#define LONGWAVE_TESTS_BENCH_IN_PROCESS_NOBODY_WATCHES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/member/control_plane.h"

namespace longwave {

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

#endif  // LONGWAVE_TESTS_BENCH_IN_PROCESS_NOBODY_WATCHES_H_
