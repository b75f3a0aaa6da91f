#include "common/base/termination.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <future>
#include <optional>

namespace longwave {
namespace {

class TerminationTest : public testing::TestWithParam<int> {};
class TerminationDeathTest : public TerminationTest {};

TEST_P(TerminationTest, ASignalAsksOnceForAnEnd) {
  std::promise<void> asked;
  {
    const Termination termination({.grace = absl::Hours(1),
                                   .on_signal = [&] { asked.set_value(); },  // twice would throw
                                   .on_overdue = [] { ADD_FAILURE(); }});
    std::raise(GetParam());
    asked.get_future().wait();
    std::raise(GetParam());
  }
}

TEST_P(TerminationTest, WithoutASignalNothingHappens) {
  const Termination termination({.grace = absl::ZeroDuration(),
                                 .on_signal = [] { ADD_FAILURE(); },
                                 .on_overdue = [] { ADD_FAILURE(); }});
}

TEST_P(TerminationDeathTest, AProcessThatStaysIsEndedAsWasAsked) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const Termination termination({.grace = absl::Milliseconds(1),
                                       .on_signal = [] { std::fputs("asked, ", stderr); },
                                       .on_overdue = [] { std::fputs("overdue", stderr); }});
        std::raise(GetParam());
        std::promise<void>().get_future().wait();  // never
      },
      testing::ExitedWithCode(0), "asked, overdue");
}

TEST_P(TerminationDeathTest, AProcessMayEndWithTheStatusOfItsSignal) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const Termination termination({.grace = absl::ZeroDuration(),
                                       .on_signal = [] {},
                                       .on_overdue = [] {},
                                       .overdue_status = std::nullopt});
        std::raise(GetParam());
        std::promise<void>().get_future().wait();  // never
      },
      testing::ExitedWithCode(128 + GetParam()), "");
}

TEST_P(TerminationDeathTest, AfterItASignalIsItselfAgain) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        {
          const Termination termination(
              {.grace = absl::Hours(1), .on_signal = [] {}, .on_overdue = [] {}});
        }
        std::raise(GetParam());
      },
      testing::KilledBySignal(GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Signals, TerminationTest, testing::Values(SIGINT, SIGTERM, SIGHUP));
INSTANTIATE_TEST_SUITE_P(Signals, TerminationDeathTest, testing::Values(SIGINT, SIGTERM, SIGHUP));

}  // namespace
}  // namespace longwave
