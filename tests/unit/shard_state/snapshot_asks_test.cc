#include "server/shard_state/snapshot_asks.h"

#include <string>

#include "gmock/gmock.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(90);
constexpr absl::Duration kVerdictPatience = absl::Minutes(10);

class SnapshotAsksTest : public ::testing::Test {
 protected:
  void Want(uint32_t segment, uint64_t turn = 0) { asks_.Want(segment, round_, turn, kPatience); }
  // "segment before round of worker"
  std::vector<std::string> Due() {
    std::vector<std::string> due;
    const auto open_round = [this](uint32_t) { return round_; };
    for (const SnapshotAsks::Ask& ask : asks_.Due(members_, open_round, now_)) {
      due.push_back(std::to_string(ask.segment) + " before " + std::to_string(ask.round) + " of " +
                    std::to_string(ask.worker));
    }
    return due;
  }
  // The next round of these segments.
  std::vector<std::string> NextRound(const std::vector<uint32_t>& segments) {
    ++round_;
    for (const uint32_t segment : segments) asks_.RoundOpened(segment, round_);
    if (asks_.NextDue() > now_) return {};
    return Due();
  }
  void Hold(uint32_t segment) { Hold(segment, round_); }
  void Hold(uint32_t segment, uint32_t round) {
    ASSERT_TRUE(asks_.IsOpen(segment));
    asks_.Hold({.segment = segment, .round = round, .hash = 0, .payload = Buffer()}, now_);
  }
  bool Judge(uint32_t segment, bool equal) {
    return asks_.Judge({segment, round_, equal}, round_).has_value();
  }

  std::vector<uint32_t> members_ = {0, 1, 2, 3};
  uint32_t round_ = 10;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  SnapshotAsks asks_{kVerdictPatience, /*put_off_max=*/16};
};

TEST_F(SnapshotAsksTest, AsksForTwoAtATimeInTheOrderInWhichTheyWereWanted) {
  for (const uint32_t segment : {7, 5, 6, 4}) Want(segment, segment);
  EXPECT_THAT(Due(), ElementsAre("7 before 10 of 3", "5 before 10 of 1"));
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_EQ(asks_.NextDue(), now_ + kPatience) << "nothing to do until then";
  EXPECT_FALSE(asks_.IsOpen(6));
  Hold(5);
  EXPECT_EQ(asks_.NextDue(), absl::InfinitePast());
  EXPECT_THAT(Due(), ElementsAre("6 before 10 of 2"));
  ++round_;
  Hold(7, 10);
  EXPECT_THAT(Due(), ElementsAre("4 before 11 of 0"));
}

TEST_F(SnapshotAsksTest, AsksAWorkerForOneAtATime) {
  for (const uint32_t segment : {0, 1, 2}) Want(segment, /*turn=*/3);
  EXPECT_THAT(Due(), ElementsAre("0 before 10 of 3", "1 before 10 of 0"));
  members_ = {3};
  asks_.MembersChanged();
  EXPECT_THAT(Due(), IsEmpty()) << "who was asked for segment 1 is gone, and 3 is asked already";
  Hold(0);
  EXPECT_THAT(Due(), ElementsAre("2 before 10 of 3"));
  members_ = {};
  asks_.MembersChanged();
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_GT(asks_.NextDue(), now_);
}

TEST_F(SnapshotAsksTest, AsksTheNextMemberWhenTheOneThatWasAskedIsGoneOrOutOfPatience) {
  Want(0);
  EXPECT_THAT(Due(), ElementsAre("0 before 10 of 0"));
  Want(0);  // due anew: what is under way goes on
  now_ += kPatience - absl::Nanoseconds(1);
  EXPECT_THAT(Due(), IsEmpty());
  now_ += absl::Nanoseconds(1);
  EXPECT_EQ(asks_.NextDue(), now_);
  EXPECT_THAT(Due(), ElementsAre("0 before 10 of 1"));
  members_ = {0, 2, 3};
  asks_.MembersChanged();
  EXPECT_THAT(Due(), SizeIs(1));
}

TEST_F(SnapshotAsksTest, TakesWhatComesWhenSomebodyElseWasAsked) {
  Want(0);
  Due();
  now_ += kPatience;
  members_ = {};
  EXPECT_THAT(Due(), IsEmpty());
  Hold(0);
  EXPECT_TRUE(Judge(0, true));
  EXPECT_EQ(asks_.NextDue(), absl::InfinitePast());
  Due();
  EXPECT_EQ(asks_.NextDue(), absl::InfiniteFuture());
}

TEST_F(SnapshotAsksTest, PutsOffWhatWasNotConfirmedForTwiceAsManyRoundsEachTime) {
  Want(0);
  Want(1);
  Due();
  Hold(1);
  std::vector<uint32_t> rounds;
  for (int i = 0; i < 80; ++i) {
    if (asks_.IsOpen(0)) {
      rounds.push_back(round_);
      Hold(0);
      EXPECT_FALSE(Judge(0, false));
      EXPECT_THAT(Due(), IsEmpty());
    }
    NextRound({0});
  }
  EXPECT_THAT(rounds, ElementsAre(10u, 11u, 13u, 17u, 25u, 41u, 57u, 73u, 89u));
}

TEST_F(SnapshotAsksTest, IsPutOffNoFurtherThanToTheRoundAtWhichItIsWantedAnew) {
  Want(0);
  for (int i = 0; i < 4; ++i) {  // before rounds 10, 11, 13 and 17
    Due();
    Hold(0);
    Judge(0, false);
    round_ += i < 3 ? 1u << i : 1;
  }
  EXPECT_THAT(NextRound({0}), IsEmpty()) << "25 is next";
  Want(0);
  EXPECT_THAT(Due(), SizeIs(1));
  Hold(0);
  Judge(0, false);
  for (int i = 0; i < 15; ++i) EXPECT_THAT(NextRound({0}), IsEmpty());
  EXPECT_THAT(NextRound({0}), SizeIs(1)) << "it was one more failure all the same";
}

TEST_F(SnapshotAsksTest, WhatWasConfirmedBeginsAnew) {
  Want(0);
  for (int i = 0; i < 3; ++i) {
    Due();
    Hold(0);
    EXPECT_FALSE(Judge(0, false));
    round_ += 1u << i;
  }
  asks_.RoundOpened(0, round_);
  Due();
  Hold(0);
  EXPECT_TRUE(Judge(0, true));
  Want(0);
  Due();
  Hold(0);
  EXPECT_FALSE(Judge(0, false));
  EXPECT_THAT(NextRound({0}), SizeIs(1)) << "one round, as the first time";
}

TEST_F(SnapshotAsksTest, PutsOffWhatNobodyJudged) {
  Want(0);
  Due();
  Hold(0);
  EXPECT_THAT(asks_.Unconfirmed(), SizeIs(1));
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_EQ(asks_.NextDue(), now_ + kVerdictPatience);
  now_ += kVerdictPatience;
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_THAT(asks_.Unconfirmed(), IsEmpty());
  EXPECT_FALSE(asks_.IsOpen(0)) << "a copy of what was put off is of no use either";
  EXPECT_GT(asks_.NextDue(), now_);
  EXPECT_THAT(NextRound({0}), ElementsAre("0 before 11 of 1"));
}

TEST_F(SnapshotAsksTest, PutsOffWhatCannotBeReadIfItIsWhatWasAskedFor) {
  Want(0);
  Due();
  asks_.Refuse({.segment = 0, .round = 9, .worker = 0}, round_);
  asks_.Refuse({.segment = 0, .round = 10, .worker = 1}, round_);
  asks_.Refuse({.segment = 1, .round = 10, .worker = 0}, round_);
  EXPECT_TRUE(asks_.IsOpen(0));
  asks_.Refuse({.segment = 0, .round = 10, .worker = 0}, round_);
  EXPECT_FALSE(asks_.IsOpen(0));
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_THAT(NextRound({0}), SizeIs(1));
}

// Who was asked too late sends what it has. Where that is of no use, nothing else will come.
TEST_F(SnapshotAsksTest, PutsOffWhatCannotBeReadOfALaterRoundThanItAskedFor) {
  Want(0);
  Due();
  round_ = 12;
  asks_.Refuse({.segment = 0, .round = 12, .worker = 0}, round_);
  EXPECT_FALSE(asks_.IsOpen(0));
  EXPECT_THAT(NextRound({0}), ElementsAre("0 before 13 of 1"));
}

// With few rounds and many segments more are wanted than can be asked for.
TEST_F(SnapshotAsksTest, EachHasItsTurnWhereMoreAreWantedThanComeThrough) {
  std::vector<int> asked(6);
  for (int i = 0; i < 12; ++i) {
    for (uint32_t segment = 0; segment < 6; ++segment) Want(segment);
    Due();
    for (uint32_t segment = 0; segment < 6; ++segment) {
      if (!asks_.IsOpen(segment)) continue;
      ++asked[segment];
      Hold(segment);
      EXPECT_TRUE(Judge(segment, true));
    }
    ++round_;
  }
  EXPECT_THAT(asked, ::testing::Each(4));
}

}  // namespace
}  // namespace longwave
