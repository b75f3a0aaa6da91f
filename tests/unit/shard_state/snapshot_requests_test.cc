#include "server/shard_state/snapshot_requests.h"

#include <string>

#include "gmock/gmock.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(90);
constexpr absl::Duration kHashCheckPatience = absl::Minutes(10);

class SnapshotRequestsTest : public ::testing::Test {
 protected:
  void Want(uint32_t segment, uint64_t turn = 0) {
    requests_.Want(segment, round_, turn, kPatience);
  }
  // "segment before round of worker"
  std::vector<std::string> TakeDue() {
    std::vector<std::string> due;
    const auto open_round = [this](uint32_t) { return round_; };
    for (const SnapshotRequests::Request& request : requests_.TakeDue(members_, open_round, now_)) {
      due.push_back(std::to_string(request.segment) + " before " + std::to_string(request.round) +
                    " of " + std::to_string(request.worker));
    }
    return due;
  }
  // The next round of these segments.
  std::vector<std::string> NextRound(const std::vector<uint32_t>& segments) {
    ++round_;
    for (const uint32_t segment : segments) requests_.RoundOpened(segment, round_);
    if (requests_.NextDue() > now_) return {};
    return TakeDue();
  }
  // Of any worker.
  bool IsOpen(uint32_t segment) const {
    const auto is_open = [&](uint32_t worker) { return requests_.IsOpen(segment, worker); };
    return is_open(0) || is_open(1) || is_open(2) || is_open(3);
  }
  void Hold(uint32_t segment) { Hold(segment, round_); }
  void Hold(uint32_t segment, uint32_t round) {
    ASSERT_TRUE(IsOpen(segment));
    requests_.Hold({.segment = segment, .round = round, .hash = 0, .payload = Buffer()}, now_);
  }
  bool Judge(uint32_t segment, bool equal) {
    return requests_.Judge({segment, round_, equal}, round_).has_value();
  }

  std::vector<uint32_t> members_ = {0, 1, 2, 3};
  uint32_t round_ = 10;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  SnapshotRequests requests_{kHashCheckPatience, /*put_off_max=*/16};
};

TEST_F(SnapshotRequestsTest, AsksForTwoAtATimeInTheOrderInWhichTheyWereWanted) {
  for (const uint32_t segment : {7, 5, 6, 4}) Want(segment, segment);
  EXPECT_THAT(TakeDue(), ElementsAre("7 before 10 of 3", "5 before 10 of 1"));
  EXPECT_THAT(TakeDue(), IsEmpty());
  EXPECT_EQ(requests_.NextDue(), now_ + kPatience) << "nothing to do until then";
  EXPECT_FALSE(IsOpen(6));
  Hold(5);
  EXPECT_EQ(requests_.NextDue(), absl::InfinitePast());
  EXPECT_THAT(TakeDue(), ElementsAre("6 before 10 of 2"));
  ++round_;
  Hold(7, 10);
  EXPECT_THAT(TakeDue(), ElementsAre("4 before 11 of 0"));
}

TEST_F(SnapshotRequestsTest, AsksAWorkerForOneAtATime) {
  for (const uint32_t segment : {0, 1, 2}) Want(segment, /*turn=*/3);
  EXPECT_THAT(TakeDue(), ElementsAre("0 before 10 of 3", "1 before 10 of 0"));
  members_ = {3};
  requests_.MembersChanged();
  EXPECT_THAT(TakeDue(), IsEmpty())
      << "who was asked for segment 1 is gone, and 3 is asked already";
  Hold(0);
  EXPECT_THAT(TakeDue(), ElementsAre("2 before 10 of 3"));
  members_ = {};
  requests_.MembersChanged();
  EXPECT_THAT(TakeDue(), IsEmpty());
  EXPECT_GT(requests_.NextDue(), now_);
}

TEST_F(SnapshotRequestsTest, AsksTheNextMemberWhenTheOneThatWasAskedIsGoneOrOutOfPatience) {
  Want(0);
  EXPECT_THAT(TakeDue(), ElementsAre("0 before 10 of 0"));
  Want(0);  // due again; the request in progress goes on
  now_ += kPatience - absl::Nanoseconds(1);
  EXPECT_THAT(TakeDue(), IsEmpty());
  now_ += absl::Nanoseconds(1);
  EXPECT_EQ(requests_.NextDue(), now_);
  EXPECT_THAT(TakeDue(), ElementsAre("0 before 10 of 1"));
  members_ = {0, 2, 3};
  requests_.MembersChanged();
  EXPECT_THAT(TakeDue(), SizeIs(1));
}

TEST_F(SnapshotRequestsTest, TakesWhatComesWhenSomebodyElseWasAsked) {
  Want(0);
  TakeDue();
  now_ += kPatience;
  members_ = {};
  EXPECT_THAT(TakeDue(), IsEmpty());
  Hold(0);
  EXPECT_TRUE(Judge(0, true));
  EXPECT_EQ(requests_.NextDue(), absl::InfinitePast());
  TakeDue();
  EXPECT_EQ(requests_.NextDue(), absl::InfiniteFuture());
}

TEST_F(SnapshotRequestsTest, TakesNothingOfWhoWasNotAsked) {
  Want(0);
  TakeDue();
  EXPECT_TRUE(requests_.IsOpen(0, 0));
  EXPECT_FALSE(requests_.IsOpen(0, 1));
  now_ += kPatience;
  EXPECT_THAT(TakeDue(), ElementsAre("0 before 10 of 1"));
  EXPECT_TRUE(requests_.IsOpen(0, 0)) << "may still answer";
  EXPECT_TRUE(requests_.IsOpen(0, 1));
  Hold(0);
  EXPECT_FALSE(Judge(0, false));
  EXPECT_FALSE(requests_.IsOpen(0, 0)) << "nobody is asked until the next round";
}

TEST_F(SnapshotRequestsTest, PutsOffWhatWasNotConfirmedForTwiceAsManyRoundsEachTime) {
  Want(0);
  Want(1);
  TakeDue();
  Hold(1);
  std::vector<uint32_t> rounds;
  for (int i = 0; i < 80; ++i) {
    if (IsOpen(0)) {
      rounds.push_back(round_);
      Hold(0);
      EXPECT_FALSE(Judge(0, false));
      EXPECT_THAT(TakeDue(), IsEmpty());
    }
    NextRound({0});
  }
  EXPECT_THAT(rounds, ElementsAre(10u, 11u, 13u, 17u, 25u, 41u, 57u, 73u, 89u));
}

TEST_F(SnapshotRequestsTest, IsPutOffNoFurtherThanToTheRoundAtWhichItIsWantedAnew) {
  Want(0);
  for (int i = 0; i < 4; ++i) {  // before rounds 10, 11, 13 and 17
    TakeDue();
    Hold(0);
    Judge(0, false);
    round_ += i < 3 ? 1u << i : 1;
  }
  EXPECT_THAT(NextRound({0}), IsEmpty()) << "25 is next";
  Want(0);
  EXPECT_THAT(TakeDue(), SizeIs(1));
  Hold(0);
  Judge(0, false);
  for (int i = 0; i < 15; ++i) EXPECT_THAT(NextRound({0}), IsEmpty());
  EXPECT_THAT(NextRound({0}), SizeIs(1)) << "it was one more failure all the same";
}

TEST_F(SnapshotRequestsTest, WhatWasConfirmedBeginsAnew) {
  Want(0);
  for (int i = 0; i < 3; ++i) {
    TakeDue();
    Hold(0);
    EXPECT_FALSE(Judge(0, false));
    round_ += 1u << i;
  }
  requests_.RoundOpened(0, round_);
  TakeDue();
  Hold(0);
  EXPECT_TRUE(Judge(0, true));
  Want(0);
  TakeDue();
  Hold(0);
  EXPECT_FALSE(Judge(0, false));
  EXPECT_THAT(NextRound({0}), SizeIs(1)) << "one round, as the first time";
}

TEST_F(SnapshotRequestsTest, PutsOffWhatCannotBeReadIfItIsWhatWasAskedFor) {
  Want(0);
  TakeDue();
  requests_.Refuse({.segment = 0, .round = 9, .worker = 0}, round_);
  requests_.Refuse({.segment = 0, .round = 10, .worker = 1}, round_);
  requests_.Refuse({.segment = 1, .round = 10, .worker = 0}, round_);
  EXPECT_TRUE(IsOpen(0));
  requests_.Refuse({.segment = 0, .round = 10, .worker = 0}, round_);
  EXPECT_FALSE(IsOpen(0));
  EXPECT_THAT(TakeDue(), IsEmpty());
  EXPECT_THAT(NextRound({0}), SizeIs(1));
}

// A late member sends the newest snapshot that it has. If that is useless, no other will come.
TEST_F(SnapshotRequestsTest, PutsOffWhatCannotBeReadOfALaterRoundThanItAskedFor) {
  Want(0);
  TakeDue();
  round_ = 12;
  requests_.Refuse({.segment = 0, .round = 12, .worker = 0}, round_);
  EXPECT_FALSE(IsOpen(0));
  EXPECT_THAT(NextRound({0}), ElementsAre("0 before 13 of 1"));
}

// With few rounds and many segments more snapshots are due than can be requested.
TEST_F(SnapshotRequestsTest, EachHasItsTurnWhereMoreAreWantedThanComeThrough) {
  std::vector<int> asked(6);
  for (int i = 0; i < 12; ++i) {
    for (uint32_t segment = 0; segment < 6; ++segment) Want(segment);
    TakeDue();
    for (uint32_t segment = 0; segment < 6; ++segment) {
      if (!IsOpen(segment)) continue;
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
