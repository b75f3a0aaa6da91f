#include "worker/core/checkpoint_pace.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

TEST(CheckpointPace, NothingIsDueBeforeTheFirstSyncOrWithoutCheckpoints) {
  EXPECT_FALSE(CheckpointPace(1).IsDue(0, kNow));
  EXPECT_TRUE(CheckpointPace(1).IsDue(1, kNow));
  EXPECT_FALSE(CheckpointPace(0).IsDue(100, kNow));
}

TEST(CheckpointPace, WaitsForTheWriteAndForRounds) {
  CheckpointPace pace(3);
  pace.Begin(4);
  pace.Copied(absl::ZeroDuration(), kNow);
  EXPECT_FALSE(pace.IsDue(9, kNow));
  pace.Ended(/*ok=*/true, kNow);
  EXPECT_FALSE(pace.IsDue(6, kNow));
  EXPECT_TRUE(pace.IsDue(7, kNow));
}

TEST(CheckpointPace, CopiesTakeAShareOfTheTime) {
  CheckpointPace pace(1);
  pace.Begin(1);
  pace.Copied(absl::Seconds(0.2), kNow);
  pace.Ended(/*ok=*/true, kNow + absl::Seconds(1));
  EXPECT_FALSE(pace.IsDue(5, kNow + absl::Seconds(19)));
  EXPECT_TRUE(pace.IsDue(5, kNow + absl::Seconds(21)));
}

TEST(CheckpointPace, AFailureIsNotRepeatedAtOnceAndACopyNotTakenIsDueAgain) {
  CheckpointPace pace(1);
  pace.Begin(1);
  pace.Copied(absl::ZeroDuration(), kNow);
  pace.Ended(/*ok=*/false, kNow);
  EXPECT_FALSE(pace.IsDue(2, kNow + CheckpointPace::kAfterFailure / 2));
  EXPECT_TRUE(pace.IsDue(2, kNow + CheckpointPace::kAfterFailure));
  pace.Begin(2);
  pace.Again();
  EXPECT_TRUE(pace.IsDue(2, kNow + CheckpointPace::kAfterFailure));
}

}  // namespace
}  // namespace longwave
