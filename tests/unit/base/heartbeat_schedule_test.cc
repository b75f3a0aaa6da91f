#include "common/base/heartbeat_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longwave {
namespace {

using Call = HeartbeatSchedule::Call;
using End = HeartbeatSchedule::End;

class HeartbeatScheduleTest : public testing::Test {
 protected:
  // Makes the call that is due, which ends so.
  End Make(Call wanted, const absl::Status& status) {
    now_ = std::max(now_, schedule_.due_at());
    EXPECT_EQ(schedule_.TakeDue(now_), wanted);
    EXPECT_EQ(schedule_.TakeDue(now_), Call::kNone) << "one is under way";
    return schedule_.Ended(status, has_begun_, takes_part_, now_);
  }
  absl::Duration Pause() const { return schedule_.due_at() - now_; }

  absl::Time now_ = absl::UnixEpoch();
  HeartbeatSchedule schedule_{absl::Seconds(5), now_};
  bool has_begun_ = false;
  bool takes_part_ = false;
};

TEST_F(HeartbeatScheduleTest, BacksOffUpToASecondWhileNobodyAnswersAndNotLonger) {
  for (const int pause_ms : {50, 100, 200, 400, 800, 1000, 1000}) {
    EXPECT_EQ(Make(Call::kRegister, absl::UnavailableError("away")), End::kSilent);
    EXPECT_EQ(Pause(), absl::Milliseconds(pause_ms));
    EXPECT_FALSE(schedule_.is_reachable());
  }
  EXPECT_EQ(schedule_.answered_at(), absl::UnixEpoch());
  EXPECT_EQ(Make(Call::kRegister, absl::OkStatus()), End::kAnswered);
  EXPECT_TRUE(schedule_.is_reachable());
  EXPECT_EQ(schedule_.answered_at(), now_);
  EXPECT_EQ(Pause(), absl::ZeroDuration()) << "the first heartbeat";
  EXPECT_EQ(Make(Call::kHeartbeat, absl::OkStatus()), End::kAnswered);
  EXPECT_EQ(Make(Call::kHeartbeat, absl::UnauthenticatedError("a clock")), End::kSilent);
  EXPECT_EQ(Pause(), absl::Milliseconds(50)) << "from the beginning";
}

TEST_F(HeartbeatScheduleTest, CallsOftenUntilItTakesPart) {
  Make(Call::kRegister, absl::OkStatus());
  Make(Call::kHeartbeat, absl::OkStatus());
  EXPECT_EQ(Pause(), absl::Milliseconds(100));
  takes_part_ = true;
  Make(Call::kHeartbeat, absl::OkStatus());
  EXPECT_EQ(Pause(), absl::Seconds(5));
}

TEST_F(HeartbeatScheduleTest, WhatIsUrgentIsToldAtOnceOnceTheCallUnderWayIsAnswered) {
  takes_part_ = true;
  Make(Call::kRegister, absl::OkStatus());
  Make(Call::kHeartbeat, absl::OkStatus());
  schedule_.Urge();
  EXPECT_EQ(schedule_.TakeDue(now_), Call::kHeartbeat);
  schedule_.Urge();
  EXPECT_EQ(schedule_.TakeDue(now_), Call::kNone);
  schedule_.Ended(absl::OkStatus(), true, true, now_);
  EXPECT_EQ(Pause(), absl::ZeroDuration());
  EXPECT_EQ(schedule_.TakeDue(now_), Call::kHeartbeat);
  schedule_.Urge();
  schedule_.Ended(absl::UnavailableError("away"), true, true, now_);
  EXPECT_EQ(Pause(), absl::Milliseconds(50)) << "not in a tight loop";
}

TEST_F(HeartbeatScheduleTest, RegistersAgainWhereItsPlaceWasLostBeforeTheRunBegan) {
  Make(Call::kRegister, absl::OkStatus());
  EXPECT_EQ(Make(Call::kHeartbeat, absl::NotFoundError("no worker 3")), End::kLostPlace);
  EXPECT_EQ(Pause(), absl::Milliseconds(50));
  EXPECT_EQ(Make(Call::kRegister, absl::OkStatus()), End::kAnswered);
  EXPECT_EQ(Make(Call::kHeartbeat, absl::AbortedError("another process")), End::kLostPlace);
  EXPECT_EQ(Pause(), absl::Milliseconds(100)) << "no tight loop of registrations";
  EXPECT_EQ(Make(Call::kRegister, absl::AbortedError("another process")), End::kRefused);
  EXPECT_EQ(schedule_.due_at(), absl::InfiniteFuture());
  EXPECT_TRUE(schedule_.is_refused());
}

TEST_F(HeartbeatScheduleTest, ARefusalAfterTheRunHasBegunIsFinal) {
  has_begun_ = true;
  Make(Call::kRegister, absl::OkStatus());
  EXPECT_EQ(Make(Call::kHeartbeat, absl::NotFoundError("no worker 3")), End::kRefused);
  schedule_.Urge();
  EXPECT_EQ(schedule_.TakeDue(now_ + absl::Hours(1)), Call::kNone);
}

}  // namespace
}  // namespace longwave
