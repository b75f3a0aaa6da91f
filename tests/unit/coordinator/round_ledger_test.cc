#include "server/coordinator/round_ledger.h"

#include <gtest/gtest.h>

#include <optional>

namespace longwave {
namespace {

const std::vector<Member> kThree = {{0, "a", 0}, {1, "b", 0}, {2, "c", 0}};

RoundReport Report(uint32_t round, std::vector<uint64_t> hashes, uint64_t tokens = 0) {
  RoundReport report;
  report.round = round;
  report.segment_hashes = std::move(hashes);
  report.tokens = tokens;
  return report;
}

void Add(RoundLedger& ledger, const Member& member, const std::vector<RoundReport>& reports) {
  ASSERT_TRUE(ledger.Check(member, reports).ok()) << ledger.Check(member, reports);
  ledger.Add(member, reports);
}

// A ledger with all rounds closed.
RoundLedger ClosedRounds(uint32_t count, uint64_t segments = 1) {
  RoundLedger ledger(count);
  ledger.SetSegmentCount(segments);
  ledger.SetClosedRounds(count);
  return ledger;
}

TEST(RoundLedger, TheLossIsTheMeanOfThoseWhoHaveOne) {
  RoundLedger ledger = ClosedRounds(5, 1);
  for (const uint32_t round : {0, 1}) {
    for (uint32_t i = 0; i < 3; ++i) {
      RoundReport report = Report(round, {4}, 100);
      if (round == 1 && i != 2) report.train_loss = 1.0 + i;
      Add(ledger, kThree[i], {report});
    }
  }
  const auto records = ledger.Finish(kThree, 1, 8);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].record.train_loss, std::nullopt);
  EXPECT_EQ(records[1].record.train_loss, 1.5);
}

TEST(RoundLedger, AveragesLossesAndSumsTheRest) {
  RoundLedger ledger = ClosedRounds(5, 2);
  for (uint32_t i = 0; i < 3; ++i) {
    RoundReport report = Report(0, {4, 5}, 100 * (i + 1));
    report.step = 30;
    report.train_loss = 1.0 + i;
    report.validation_loss = 10.0 + i;
    report.bytes = {1u + i, 10u + i, 100u + i, 1000u + i};
    report.seconds_computing = 3;
    report.seconds_syncing = 1 + i;
    Add(ledger, kThree[i], {report});
  }
  const auto records = ledger.Finish(kThree, 1, 8);
  ASSERT_EQ(records.size(), 1u);
  const RoundRecord& record = records[0].record;
  EXPECT_EQ(record.step, 30u);
  EXPECT_EQ(record.train_loss, 2);
  EXPECT_EQ(record.validation_loss, 11);  // of the worker that validates
  EXPECT_EQ(record.tokens, 600u);
  EXPECT_EQ(record.bytes, (ByteCounts{6, 33, 303, 3003}));
  EXPECT_EQ(record.seconds, 8);
  EXPECT_EQ(record.tokens_per_second, 75);
  EXPECT_TRUE(record.replicas_equal);
  EXPECT_EQ(record.state_hash, CombineHashes({4, 5}));
  EXPECT_EQ(record.members, 3u);
  EXPECT_DOUBLE_EQ(record.compute_share, 9.0 / 15);
}

TEST(RoundLedger, HasAFiniteShareWhateverIsReported) {
  RoundLedger ledger = ClosedRounds(5);
  for (const Member& member : kThree) {
    RoundReport report = Report(0, {4});
    report.seconds_computing = 1.7e308;
    Add(ledger, member, {report});
  }
  const auto records = ledger.Finish(kThree, 1, 8);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].record.compute_share, 0);
}

// --- sealing rounds ------------------------------------------------------------------------------

// A record from an older time leads to this state.
TEST(RoundLedger, ALaterSealingRoundIsTakenForTheOneThatIsOpen) {
  RoundLedger ledger = ClosedRounds(1);
  const std::vector<Member> one = {kThree[0]};
  Add(ledger, one[0], {Report(0, {1}), Report(7, {1})});
  EXPECT_EQ(ledger.Finish(one, 0, 1).size(), 2u);
  EXPECT_EQ(ledger.sealing_round(), 2u);
  EXPECT_TRUE(ledger.IsSealed(one, true));
}

TEST(RoundLedger, SnapshotsOfTheEndAreJudgedByTheNewestSealingRound) {
  RoundLedger ledger = ClosedRounds(1);
  const std::vector<Member> one = {kThree[0]};
  Add(ledger, one[0], {Report(0, {1})});
  ledger.Finish(one, 0, 1);
  EXPECT_EQ(ledger.Judge({0, 1, 1}), true);
  Add(ledger, one[0], {Report(1, {2})});
  ledger.Finish(one, 0, 1);
  EXPECT_EQ(ledger.Judge({0, 1, 1}), false);
  EXPECT_EQ(ledger.Judge({0, 1, 2}), true);
  EXPECT_EQ(ledger.state_hash(), CombineHashes({2}));
}

TEST(RoundLedger, RatesAreOverTheTimeSinceTheRecordBefore) {
  RoundLedger ledger = ClosedRounds(5);
  const std::vector<Member> one = {kThree[0]};
  RoundReport first = Report(0, {1}, 100);
  first.seconds_computing = 4;
  first.seconds_syncing = 4;
  RoundReport second = Report(1, {1}, 400);
  second.seconds_computing = 7;
  second.seconds_syncing = 5;
  Add(ledger, one[0], {first});
  EXPECT_EQ(ledger.Finish(one, 0, 10).at(0).record.tokens_per_second, 10);
  Add(ledger, one[0], {second});
  const auto records = ledger.Finish(one, 0, 12);
  EXPECT_EQ(records.at(0).record.tokens_per_second, 150);
  EXPECT_DOUBLE_EQ(records.at(0).record.compute_share, 3.0 / 4);
}

TEST(RoundLedger, RoundsThatFinishTogetherShareOneRate) {
  RoundLedger ledger = ClosedRounds(5);
  const std::vector<Member> one = {kThree[0]};
  Add(ledger, one[0], {Report(0, {1}, 100), Report(1, {1}, 200), Report(2, {1}, 300)});
  const auto records = ledger.Finish(one, 0, 3);
  ASSERT_EQ(records.size(), 3u);
  for (const RoundOutcome& one : records) EXPECT_EQ(one.record.tokens_per_second, 100);
  Add(ledger, one[0], {Report(3, {1}, 400)});
  EXPECT_EQ(ledger.Finish(one, 0, 3).at(0).record.tokens_per_second, 0);  // no time has passed
}

TEST(RoundLedger, WhatALostWorkerHasDoneStaysInTheSums) {
  RoundLedger ledger = ClosedRounds(5);
  for (const Member& member : kThree) Add(ledger, member, {Report(0, {1}, 100)});
  ledger.Finish(kThree, 0, 1);
  const std::vector<Member> two = {kThree[0], kThree[2]};
  for (const Member& member : two) Add(ledger, member, {Report(1, {1}, 200)});
  const auto records = ledger.Finish(two, 0, 2);
  EXPECT_EQ(records.at(0).record.tokens, 500u);
  EXPECT_EQ(records.at(0).record.members, 2u);
}

TEST(RoundLedger, TheMajorityOfEachSegmentIsWanted) {
  RoundLedger ledger = ClosedRounds(5, 2);
  Add(ledger, kThree[0], {Report(0, {7, 2})});
  Add(ledger, kThree[1], {Report(0, {1, 2})});
  Add(ledger, kThree[2], {Report(0, {1, 8})});
  const auto records = ledger.Finish(kThree, 0, 1);
  EXPECT_FALSE(records.at(0).record.replicas_equal);
  EXPECT_EQ(records.at(0).record.state_hash, CombineHashes({1, 2}));
  EXPECT_EQ(ledger.inequality(),
            "round 0: worker 0 (a) has hash 0000000000000007 in segment 0, wanted 0000000000000001 "
            "as 2 of 3 members have");
}

TEST(RoundLedger, JudgesSnapshotsByTheMajorityAfterTheRoundBefore) {
  RoundLedger ledger = ClosedRounds(200, 2);
  const std::vector<Member> two = {kThree[0], kThree[1]};
  Add(ledger, two[0], {Report(0, {1, 5})});
  EXPECT_EQ(ledger.Judge({0, 1, 1}), std::nullopt);  // worker 1 has yet to report
  Add(ledger, two[1], {Report(0, {1, 6})});
  ledger.Finish(two, 0, 1);
  EXPECT_EQ(ledger.Judge({0, 1, 1}), true);
  EXPECT_EQ(ledger.Judge({0, 1, 2}), false);
  EXPECT_EQ(ledger.Judge({1, 1, 5}), false);  // no majority: nothing is proved
  EXPECT_EQ(ledger.Judge({2, 1, 1}), false);  // no such segment
  EXPECT_EQ(ledger.Judge({0, 0, 1}), false);  // no report is of the beginning
  EXPECT_EQ(ledger.Judge({0, 2, 1}), std::nullopt);
  for (uint32_t round = 1; round <= kRoundsWithHashes; ++round) {
    for (const Member& member : two) Add(ledger, member, {Report(round, {1, 5})});
    ledger.Finish(two, 0, round);
  }
  EXPECT_EQ(ledger.Judge({0, 1, 1}), false);  // too long ago
  EXPECT_EQ(ledger.Judge({0, 2, 1}), true);
}

// The member that sent the snapshot would confirm it, damaged or not.
TEST(RoundLedger, ARoundThatOneOfSeveralReportsConfirmsNoSnapshot) {
  RoundLedger ledger = ClosedRounds(9);
  const std::vector<Member> two = {kThree[0], kThree[1]};
  Add(ledger, two[0], {Report(0, {1}), Report(1, {1})});
  Add(ledger, two[1], {Report(1, {1})});
  const auto outcomes = ledger.Finish(two, 0, 1);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].record.state_hash, CombineHashes({1}));
  EXPECT_TRUE(outcomes[0].suspects.empty());
  EXPECT_EQ(ledger.Judge({0, 1, 1}), false);
  EXPECT_EQ(ledger.Judge({0, 2, 1}), true);
}

TEST(RoundLedger, WhereNobodyElseTakesPartOneReportConfirmsASnapshot) {
  for (const uint32_t first_round : {kRoundNever, 1u}) {
    RoundLedger ledger = ClosedRounds(9);
    const std::vector<Member> one_and_a_joiner = {kThree[0], {1, "b", first_round}};
    Add(ledger, kThree[0], {Report(0, {1})});
    ASSERT_EQ(ledger.Finish(one_and_a_joiner, 0, 1).size(), 1u);
    EXPECT_EQ(ledger.Judge({0, 1, 1}), true) << first_round;
  }
}

TEST(RoundLedger, WhoReportsARoundHasSkippedTheOnesBefore) {
  RoundLedger ledger = ClosedRounds(9);
  const std::vector<Member> two = {kThree[0], kThree[1]};
  for (const Member& member : two) Add(ledger, member, {Report(0, {1})});
  EXPECT_EQ(ledger.Finish(two, 0, 1).size(), 1u);
  Add(ledger, two[0], {Report(1, {1}), Report(2, {1})});
  EXPECT_TRUE(ledger.Finish(two, 0, 2).empty());
  Add(ledger, two[1], {Report(2, {1})});
  const auto outcomes = ledger.Finish(two, 0, 3);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].record.members, 1u);
  EXPECT_EQ(outcomes[1].record.members, 2u);
  // The member cannot report a skipped round any more.
  EXPECT_FALSE(ledger.Add(two[1], std::vector<RoundReport>{Report(1, {9})}));
}

TEST(RoundLedger, ThereIsNoRecordOfARoundThatAllHaveSkipped) {
  RoundLedger ledger = ClosedRounds(9);
  const std::vector<Member> one = {kThree[0]};
  Add(ledger, one[0], {Report(0, {1})});
  Add(ledger, one[0], {Report(3, {1})});
  const auto outcomes = ledger.Finish(one, 0, 1);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[1].record.round, 3u);
  EXPECT_EQ(ledger.next_round(), 4u);
  EXPECT_EQ(ledger.Judge({0, 3, 1}), false);
}

TEST(RoundLedger, AProcessThatCountsOnFromItsFolderIsNotCountedTwice) {
  RoundLedger ledger = ClosedRounds(5);
  const std::vector<Member> one = {kThree[0]};
  Add(ledger, one[0], {Report(0, {1}, 100)});
  ledger.Finish(one, 0, 1);
  ledger.Restart(0);
  // The checkpoint is older than the last report, by 20 tokens.
  EXPECT_TRUE(ledger.BeginCount(0, {.tokens = 90}, {.tokens = 110}));
  EXPECT_FALSE(ledger.BeginCount(0, {.tokens = 90}, {.tokens = 110}));
  Add(ledger, one[0], {Report(1, {1}, 150)});
  EXPECT_EQ(ledger.Finish(one, 0, 2).at(0).record.tokens, 170u);
  EXPECT_EQ(ledger.WholeWork(0, {.tokens = 160}).tokens, 180u);
}

TEST(RoundLedger, AJoinerIsWaitedForFromItsFirstRoundOn) {
  RoundLedger ledger = ClosedRounds(5);
  const std::vector<Member> members = {{0, "a", 0}, {1, "late", 1}};
  Add(ledger, members[0], {Report(0, {1}), Report(1, {1})});
  EXPECT_EQ(ledger.Finish(members, 0, 1).size(), 1u);
  Add(ledger, members[1], {Report(1, {1})});
  EXPECT_EQ(ledger.Finish(members, 0, 2).size(), 1u);
  EXPECT_EQ(ledger.rounds().size(), 2u);
}

}  // namespace
}  // namespace longwave
