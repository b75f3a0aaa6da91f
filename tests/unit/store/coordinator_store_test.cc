#include "server/store/coordinator_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "server/store/coordinator_format.h"
#include "tests/unit/coordinator/random_events.h"
#include "tests/unit/store/temporary_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

// Changes of every kind, which hold something in each of their fields.
CoordinatorChanges SomeChanges() {
  CoordinatorChanges changes;
  CoordinatorState& state = changes.state;
  state.settings = "run.steps: 600\n";
  state.phase = RunPhase::kTraining;
  state.reason = "none yet";
  state.run = 0xfedcba9876543210;
  state.epoch = 9;
  state.layout_hash = 0xffffffffffffffff;
  state.repairs = 2;
  state.seconds = 1.5;
  WorkerRecord worker;
  worker.member = {3, "worker-3", kRoundNever};
  worker.identity = 1;
  worker.process = 10;
  worker.incarnation = 2;
  worker.former = {3, 4};
  worker.joined_epoch = 5;
  worker.ready_round = 6;
  worker.begun = worker.lost = worker.left = true;
  worker.final = FinalReport{.validation_loss = 2.5, .model_file = "model.safetensors"};
  worker.repair = Repair{7, {1, 2}};
  worker.state = {.phase = WorkerPhase::kSyncing, .step = 8, .round = 9, .bytes = {1, 2, 3, 4}};
  WorkerRecord plain;
  plain.member = {4, "", 0};
  state.workers = {worker, plain};
  ShardRecord shard;
  shard.address = {1, "tcp://host:1", "host:2"};
  shard.incarnation = 5;
  shard.former = {6};
  shard.restore = true;
  state.outdated = "an epoch";
  shard.told_epoch = 9;
  shard.known_epoch = 8;
  shard.state.newest_round = 11;
  shard.state.log_records = 12;
  shard.trouble = "the disk is full";
  state.shards = {shard};
  state.next_round = 3;
  state.ledger_workers = {
      {3, {.next_round = 4, .former = {.tokens = 5}, .counted = {.tokens = 6}}}};
  state.segment_count = 2;
  state.inequality = "round 1";
  state.rate_seconds = 0.25;
  state.rate_tokens = 100;
  changes.manifest_changed = true;
  changes.manifest = Model();
  FinishedRound round;
  round.record = {.round = 2, .train_loss = 1.25, .validation_loss = 3, .replicas_equal = false};
  round.hashes = {1, 0xffffffffffffffff};
  round.undecided = {1};
  changes.rounds = {round};
  OpenReport report;
  report.member = worker.member;
  report.report = {.round = 3, .validation_loss = 2, .segment_hashes = {7, 8}, .tokens = 9};
  changes.reports = {report};
  return changes;
}

CoordinatorRecord RecordOf(const CoordinatorChanges& changes) {
  CoordinatorRecord record;
  Apply(changes, &record);
  return record;
}

class CoordinatorStoreTest : public testing::Test {
 protected:
  std::unique_ptr<CoordinatorStore> MustOpen() {
    auto store = CoordinatorStore::Open(folder_.path());
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  CoordinatorRecord MustLoad() {
    const auto store = MustOpen();
    auto record = store->Load();
    EXPECT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record.ok() && record->has_value());
    return record.ok() && *record ? **std::move(record) : CoordinatorRecord();
  }
  void Sql(const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_.path() + "/coordinator.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  TemporaryFolder folder_;
};

TEST_F(CoordinatorStoreTest, ANewFolderHasNoRecord) {
  const auto record = MustOpen()->Load();
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_FALSE(record->has_value());
}

TEST_F(CoordinatorStoreTest, RemembersAll) {
  ASSERT_TRUE(MustOpen()->Write(SomeChanges()).ok());
  EXPECT_TRUE(MustLoad() == RecordOf(SomeChanges()));
}

TEST_F(CoordinatorStoreTest, ChangesWrittenTwiceAreThereOnce) {
  const auto store = MustOpen();
  ASSERT_TRUE(store->Write(SomeChanges()).ok());
  ASSERT_TRUE(store->Write(SomeChanges()).ok());
  const auto record = store->Load();
  ASSERT_TRUE(record.ok() && *record) << record.status();
  EXPECT_TRUE(**record == RecordOf(SomeChanges()));
}

TEST_F(CoordinatorStoreTest, ForgetsTheManifestWhenTheCoordinatorDoes) {
  CoordinatorChanges changes = SomeChanges();
  ASSERT_TRUE(MustOpen()->Write(changes).ok());
  changes.manifest_changed = false;
  changes.manifest.reset();
  ASSERT_TRUE(MustOpen()->Write(changes).ok());
  EXPECT_EQ(MustLoad().manifest, Model());
  changes.manifest_changed = true;
  ASSERT_TRUE(MustOpen()->Write(changes).ok());
  EXPECT_EQ(MustLoad().manifest, std::nullopt);
}

// Every change that a run makes, written as it comes, amounts to what the coordinator knows; and a
// coordinator made from the disk goes on.
TEST_F(CoordinatorStoreTest, TheWritesOfARunAmountToItsRecord) {
  RandomEvents events(5);
  const CoordinatorOptions options = RandomEvents::RunOptions();
  Coordinator coordinator(options);
  CoordinatorRecord kept;
  Rng rng(1);
  auto store = MustOpen();
  absl::Time now = absl::UnixEpoch();
  for (int step = 0; step < 700; ++step) {
    now += absl::Seconds(events.Seconds());
    const uint64_t run = coordinator.Export(now).state.run;
    coordinator.Step(events.Next(coordinator.Status(0, now), run), now, rng);
    if (const auto changes = coordinator.Unsaved(now)) {
      const absl::Status written = store->Write(*changes);
      ASSERT_TRUE(written.ok()) << written;
      Apply(*changes, &kept);
      coordinator.Saved();
    }
    if (!events.Chance(0.05)) continue;
    store.reset();
    store = MustOpen();
    const auto record = store->Load();
    ASSERT_TRUE(record.ok() && *record) << record.status();
    ASSERT_TRUE(**record == kept) << step;
    ASSERT_TRUE(Coordinator::CheckRecord(options, **record).ok());
  }
  EXPECT_GT(kept.rounds.size(), 3u);
}

TEST_F(CoordinatorStoreTest, KeepsTheHashesOfTheLatestRoundsOnly) {
  const auto store = MustOpen();
  CoordinatorRecord kept;
  CoordinatorChanges changes = SomeChanges();
  changes.reports.clear();
  for (uint32_t round = 0; round < kRoundsWithHashes + 10; ++round) {
    changes.state.next_round = round + 1;
    changes.rounds[0].record.round = round;
    ASSERT_TRUE(store->Write(changes).ok());
    Apply(changes, &kept);
  }
  const auto record = store->Load();
  ASSERT_TRUE(record.ok() && *record) << record.status();
  EXPECT_TRUE((*record)->rounds[9].hashes.empty());
  EXPECT_FALSE((*record)->rounds[10].hashes.empty());
  EXPECT_TRUE(**record == kept);
}

TEST_F(CoordinatorStoreTest, AFolderIsOneProcesssAtATime) {
  const auto store = MustOpen();
  const absl::Status status = CoordinatorStore::Open(folder_.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(CoordinatorStoreTest, RefusesANewerSchemaAndOtherDatabases) {
  MustOpen();
  Sql("PRAGMA user_version = 2");
  absl::Status status = CoordinatorStore::Open(folder_.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("coordinator.db: schema: got 2, wanted 1"));
  Sql("PRAGMA application_id = 7");
  status = CoordinatorStore::Open(folder_.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no coordinator's record of ours"));
}

TEST_F(CoordinatorStoreTest, SaysWhatIsDamaged) {
  ASSERT_TRUE(MustOpen()->Write(SomeChanges()).ok());
  for (const char* sql : {"UPDATE report SET bytes = zeroblob(40)",
                          "UPDATE state SET bytes = substr(bytes, 1, length(bytes) - 1)"}) {
    Sql(sql);
    const absl::Status status = MustOpen()->Load().status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("coordinator.db: "));
  }
}

TEST_F(CoordinatorStoreTest, AfterAnErrorTheSameCanBeWritten) {
  const auto store = MustOpen();
  ASSERT_TRUE(store->Write(SomeChanges()).ok());
  CoordinatorChanges large = SomeChanges();
  large.state.reason = std::string(1 << 20, 'x');
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder_.path() + "/coordinator.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(store->Write(large).code(), absl::StatusCode::kUnavailable);  // another writes
  ASSERT_EQ(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  ASSERT_TRUE(store->Write(large).ok());
  const auto record = store->Load();
  ASSERT_TRUE(record.ok() && *record) << record.status();
  EXPECT_EQ((*record)->state.reason.size(), large.state.reason.size());
}

// --- the bytes -----------------------------------------------------------------------------------

TEST(CoordinatorFormat, EveryByteCounts) {
  const CoordinatorChanges changes = SomeChanges();
  const std::vector<std::byte> good = Encode(changes.state);
  ASSERT_TRUE(*DecodeCoordinatorState(good) == changes.state);
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_FALSE(DecodeCoordinatorState(bad).ok()) << "byte " << i;
    EXPECT_FALSE(DecodeCoordinatorState(std::span(good).first(i)).ok()) << "cut to " << i;
  }
}

TEST(CoordinatorFormat, TellsItsPartsApart) {
  const CoordinatorChanges changes = SomeChanges();
  const std::vector<std::byte> report = Encode(changes.reports[0]);
  EXPECT_TRUE(DecodeOpenReport(report).ok());
  EXPECT_EQ(DecodeRoundRecord(report).status().code(), absl::StatusCode::kFailedPrecondition);
  std::vector<std::byte> newer = report;
  newer[4] = std::byte{kCoordinatorFormat + 1};
  EXPECT_EQ(DecodeOpenReport(newer).status().message(),
            absl::StrCat("format: got ", kCoordinatorFormat + 1, ", wanted ", kCoordinatorFormat));
}

}  // namespace
}  // namespace longwave
