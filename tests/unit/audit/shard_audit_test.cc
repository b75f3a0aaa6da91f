#include "server/audit/shard_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/audit/log_reader.h"
#include "server/store/snapshot_content.h"
#include "server/store/snapshot_store.h"
#include "tests/support/store_helpers.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Records = std::vector<std::pair<uint64_t, LogRecord>>;

const std::vector<uint32_t> kWorkers = {0, 1, 2};
constexpr uint32_t kRounds = 6;

Records ReadLog(FileSystem& files, uint64_t* first_sequence = nullptr) {
  auto log = LogReader::Open(&files, "state/log");
  EXPECT_TRUE(log.ok()) << log.status();
  Records records;
  EXPECT_TRUE(log->Read([&](uint64_t sequence, const LogRecord& record) {
                   records.emplace_back(sequence, record);
                   return absl::OkStatus();
                 })
                  .ok());
  if (first_sequence != nullptr) *first_sequence = log->first_sequence();
  return records;
}

// Audits like `longwave replay` does for a shard's folder.
ShardFindings Audit(FileSystem& files, const Records& records, bool from_the_start = true) {
  const Layout layout = FourSegments();
  const DurableShardOptions options = TestOptions();
  const auto states = ListSnapshots(files, "state/snap", {kRun, 1, layout.hash()});
  EXPECT_TRUE(states.ok()) << states.status();
  ShardAudit audit(
      {.run = kRun,
       .shard = 1,
       .merge = {.run_seed = options.aggregator.run_seed,
                 .up = options.aggregator.up,
                 .rho = options.aggregator.rho,
                 .down = options.aggregator.down},
       .from_the_start = from_the_start},
      &layout, *states,
      [&](const SnapshotHeader& header) {
        auto content = ReadSnapshot(files, "state/snap", header);
        EXPECT_TRUE(content.ok()) << content.status();
        return DecodeStateContent(*content, header.key.segment_count);
      },
      nullptr);
  for (const auto& [sequence, record] : records) {
    EXPECT_TRUE(audit.OnRecord(sequence, record).ok());
  }
  return audit.Finish();
}

class ShardAuditTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(disk_.Open().ok());
    disk_.Do({MembershipChanged{Members(1, kWorkers)}});
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (round == 3) {  // kill -9 in between
        disk_.Close();
        disk_.files.Restart(SimFileSystem::Stop::kProcess);
        ASSERT_TRUE(disk_.Open().ok());
      }
      disk_.PushAll(kWorkers, round);
    }
    records_ = ReadLog(disk_.files);
  }

  // The `number`th record of a kind in segment 2's round 1, to be tampered with.
  template <typename T>
  Records::iterator Find(int number = 0) {
    for (auto it = records_.begin(); it != records_.end(); ++it) {
      const auto* record = std::get_if<T>(&it->second);
      if (record == nullptr || record->header.segment != 2 || record->header.round != 1) continue;
      if (number-- == 0) return it;
    }
    ADD_FAILURE() << "no such record";
    return records_.end();
  }

  std::vector<std::string> Problems() { return Audit(disk_.files, records_).problems; }

  ShardOnDisk disk_{1, TestOptions(), 1 << 20};
  Records records_;
};

TEST_F(ShardAuditTest, FindsNothingWrongWithAnHonestLog) {
  const ShardFindings found = Audit(disk_.files, records_);
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_EQ(found.pushes, kWorkers.size() * 2 * kRounds);
  EXPECT_EQ(found.merges, 2 * kRounds);
  EXPECT_EQ(found.merges_recomputed, found.merges);
  EXPECT_EQ(found.merges_unproved, 0u);
  EXPECT_GT(found.states_compared, 0u);
  EXPECT_EQ(found.pushes_open, 0u);
  EXPECT_EQ(found.segments_restored, 0u);
}

TEST_F(ShardAuditTest, ChangesNothingOnTheDisk) {
  const uint64_t before = disk_.files.operations();
  Audit(disk_.files, ReadLog(disk_.files));
  EXPECT_EQ(disk_.files.operations(), before);
}

TEST_F(ShardAuditTest, CountsPushesToOpenRounds) {
  disk_.Do({TestPush(1, kRounds, 2)});
  const ShardFindings found = Audit(disk_.files, ReadLog(disk_.files));
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_EQ(found.pushes_open, 1u);
}

TEST_F(ShardAuditTest, FindsAPushThatWasNeverAccepted) {
  records_.erase(Find<PushRecord>(1));
  EXPECT_THAT(Problems(),
              testing::Contains(HasSubstr("merged with a push of worker 1 that was never")));
}

// A folder from a backup, let in by a shard that did not know better.
TEST_F(ShardAuditTest, FindsAPushOfAResidualFromBeforeItsWorkersLastPush) {
  auto push = Find<PushRecord>(2);
  std::get<PushRecord>(push->second).header.accounted = 1;
  EXPECT_THAT(Problems(), IsEmpty());  // of round 1, after that of round 0
  for (auto it = records_.begin(); it != records_.end(); ++it) {
    auto* const later = std::get_if<PushRecord>(&it->second);
    if (later == nullptr || later->header.segment != 2 || later->header.round != 4) continue;
    later->header.accounted = later->header.worker == 2 ? 2 : 4;
  }
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr(
                              "round 4: accepted from worker 2, whose residual accounts for 2 "
                              "rounds, while its push of round 3 is merged: what that had "
                              "counts twice")));
}

TEST_F(ShardAuditTest, FindsAPushThatWasAcceptedTwice) {
  const auto push = Find<PushRecord>();
  records_.insert(push, *push);
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("accepted from worker 0 twice")));
}

TEST_F(ShardAuditTest, FindsAnAcceptedPushThatIsInNoMerge) {
  auto& merged = std::get<MergedRecord>(Find<MergedRecord>()->second);
  merged.contributors.pop_back();
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("merged without the accepted push of worker 2")));
}

TEST_F(ShardAuditTest, FindsAPushThatIsAcceptedAfterItsRound) {
  const auto late = *Find<PushRecord>();
  records_.push_back(late);
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("while round 6 was open")));
}

TEST_F(ShardAuditTest, FindsAMergedUpdateOfOtherValues) {
  auto& merged = std::get<MergedRecord>(Find<MergedRecord>()->second);
  std::vector<std::byte> payload = BytesOf(merged.payload);
  payload.back() ^= std::byte{1};
  merged.payload = Buffer(std::move(payload));
  EXPECT_THAT(Problems(),
              testing::Contains(
                  HasSubstr("segment 2, round 1: the merged update is not what its pushes make")));
}

TEST_F(ShardAuditTest, FindsAnotherWeightThanThePushs) {
  auto& merged = std::get<MergedRecord>(Find<MergedRecord>()->second);
  ++merged.contributors[1].weight;
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("worker 1's weight: got 3, wanted its push's, 2")));
}

TEST_F(ShardAuditTest, FindsWhatIsHeldBackChanged) {
  std::get<MergedRecord>(Find<MergedRecord>()->second).residual_hash ^= 1;
  EXPECT_THAT(Problems(), testing::Contains(HasSubstr("what is held back has hash")));
}

TEST_F(ShardAuditTest, FindsARoundThatIsMissing) {
  for (int i = 0; i < 3; ++i) records_.erase(Find<PushRecord>());
  records_.erase(Find<MergedRecord>());
  const std::vector<std::string> problems = Problems();
  ASSERT_FALSE(problems.empty());
  EXPECT_THAT(problems[0], HasSubstr("segment 2, round 2: accepted from worker 0 while round 1"));
}

TEST_F(ShardAuditTest, GoesOnFromASnapshotAfterAProblem) {
  auto& merged = std::get<MergedRecord>(Find<MergedRecord>()->second);
  merged.header.norm += 1;
  const ShardFindings found = Audit(disk_.files, records_);
  EXPECT_EQ(found.problem_count, 1u) << "one wrong record is one problem";
  EXPECT_GT(found.merges_unproved, 0u);
  EXPECT_GT(found.merges_recomputed, uint64_t{kRounds});
}

// A shard whose disk has lost the log's end takes the segment from a replica that is ahead of it.
TEST_F(ShardAuditTest, GoesOnAfterARestoreInTheMidstOfTheLog) {
  ASSERT_TRUE(disk_.Open().ok());
  disk_.Do({MembershipChanged{Members(2, kWorkers)}, TestPush(0, kRounds, 2)});
  std::vector<ShardEvent> events;
  for (const uint32_t worker : kWorkers) events.push_back(TestPull(worker, kRounds + 1, 2));
  for (const auto& request : AllSent<RequestFrame>(disk_.Do(events))) {
    if (request.header.round != kRounds + 1) continue;
    disk_.Do({TestSnapshot(request.header.worker, kRounds + 1, 2)});
  }
  events.clear();
  for (const uint32_t worker : kWorkers) events.push_back(TestPush(worker, kRounds + 1, 2));
  disk_.Do(events);
  const ShardFindings found = Audit(disk_.files, ReadLog(disk_.files));
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_EQ(found.segments_restored, 1u);
  EXPECT_EQ(found.merges_recomputed, 2 * kRounds + 1);
}

TEST(ShardAudit, BeginsWithASnapshotWhereOldLogIsGone) {
  ShardOnDisk disk;  // small log files
  ASSERT_TRUE(disk.Open().ok());
  disk.Do({MembershipChanged{Members(1, kWorkers)}});
  for (uint32_t round = 0; round < 20; ++round) disk.AnswerRequests(disk.PushAll(kWorkers, round));
  uint64_t first_sequence = 0;
  const Records records = ReadLog(disk.files, &first_sequence);
  ASSERT_GT(first_sequence, 1u) << "nothing was dropped";
  const ShardFindings found = Audit(disk.files, records, /*from_the_start=*/false);
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_GT(found.merges_recomputed, 0u);
  EXPECT_LT(found.merges_unproved, found.merges);
}

TEST(LogReader, LeavesATailOutThatIsNotWhole) {
  ShardOnDisk disk(1, TestOptions(), 1 << 20);
  ASSERT_TRUE(disk.Open().ok());
  disk.Do({MembershipChanged{Members(1, kWorkers)}});
  disk.PushAll(kWorkers, 0);
  const size_t whole = ReadLog(disk.files).size();
  const auto file = disk.files.OpenToAppend("state/log/00000001.lwlog");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(AppendBytes(**file, std::vector<std::byte>(40, std::byte{7})).ok());
  auto log = LogReader::Open(&disk.files, "state/log");
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->Read([](uint64_t, const LogRecord&) { return absl::OkStatus(); }).ok());
  EXPECT_EQ(log->record_count(), whole);
  EXPECT_EQ(log->tail_bytes(), 40u);
}

TEST(LogReader, NamesTheFileThatIsGone) {
  ShardOnDisk disk;
  ASSERT_TRUE(disk.Open().ok());
  disk.Do({MembershipChanged{Members(1, kWorkers)}});
  for (uint32_t round = 0; round < 5; ++round) disk.PushAll(kWorkers, round);
  ASSERT_TRUE(disk.files.Remove("state/log/00000002.lwlog").ok());
  const auto log = LogReader::Open(&disk.files, "state/log");
  EXPECT_EQ(log.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("00000002.lwlog: is gone"));
}

TEST(LogReader, SaysWhereThereIsNoLog) {
  SimFileSystem files(1);
  ASSERT_TRUE(files.CreateFolder("state/log").ok());
  EXPECT_EQ(LogReader::Open(&files, "state/log").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace longwave
