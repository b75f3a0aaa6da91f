#include "worker/member/loop_watch.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>

namespace longwave {
namespace {

TEST(LoopWatch, NoticesAStepThatDoesNotEnd) {
  std::promise<absl::Duration> told;
  LoopWatch watch(absl::Milliseconds(30), [&](absl::Duration took) { told.set_value(took); });
  for (int i = 0; i < 3; ++i) {
    watch.StepBegins();
    watch.StepEnds();
  }
  watch.StepBegins();
  EXPECT_GE(told.get_future().get(), absl::Milliseconds(30));
}

// A loop between two steps, in the member, has no limit here, and neither has the first step.
TEST(LoopWatch, HasNoLimitBetweenStepsAndForTheFirst) {
  bool told = false;
  {
    LoopWatch watch(absl::ZeroDuration(), [&](absl::Duration) { told = true; });
    watch.StepBegins();
    std::promise<void>().get_future().wait_for(std::chrono::milliseconds(60));
    watch.StepEnds();
    std::promise<void>().get_future().wait_for(std::chrono::milliseconds(60));
  }
  EXPECT_FALSE(told);
}

// An evaluation takes ten times the steps, and later steps get no longer limit by it.
TEST(LoopWatch, HasNoLimitForTheRestOfAStepThatPauses) {
  std::promise<absl::Duration> told;
  LoopWatch watch(absl::Milliseconds(30), [&](absl::Duration took) { told.set_value(took); });
  const auto wait = [](int ms) {
    std::promise<void>().get_future().wait_for(std::chrono::milliseconds(ms));
  };
  watch.StepBegins();
  watch.StepEnds();
  watch.StepBegins();
  watch.Pause();
  wait(1000);
  watch.StepEnds();
  watch.StepBegins();
  auto later = told.get_future();
  ASSERT_EQ(later.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_LT(later.get(), absl::Seconds(5));
}

// A machine that was suspended, or a rank 0 that was frozen, has no rank that hangs.
TEST(LoopWatch, DoesNotCountTheTimeForWhichItsProcessWasStopped) {
  std::atomic<bool> told = false;
  LoopWatch watch(absl::Seconds(2), [&](absl::Duration) { told = true; });
  watch.StepBegins();
  watch.StepEnds();
  watch.StepBegins();
  ASSERT_EQ(std::system("(sleep 3; for i in 1 2 3 4 5 6 7 8; do kill -CONT $PPID; sleep 2; done) "
                        ">/dev/null 2>&1 &"),
            0);
  raise(SIGSTOP);
  std::promise<void>().get_future().wait_for(std::chrono::milliseconds(300));
  watch.StepEnds();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace longwave
