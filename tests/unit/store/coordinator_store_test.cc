#include "server/store/coordinator_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "server/store/coordinator_format.h"
#include "server/store/log_format.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/wrong_reads.h"
#include "tests/unit/coordinator/random_events.h"

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
  state.warnings = {{"worker-3", "no seed"}, {"", "no data"}};
  state.seconds = 1.5;
  WorkerRecord worker;
  worker.member = {3, "worker-3", kRoundNever, "", true};
  worker.identity = 1;
  worker.process = 10;
  worker.incarnation = 2;
  worker.former = {3, 4};
  worker.joined_epoch = 5;
  worker.ready_round = 6;
  worker.begun = worker.lost = worker.left = true;
  worker.final = FinalReport{.validation_loss = 2.5, .model_file = "model.safetensors"};
  worker.repair = Repair{7, {1, 2}};
  worker.alike = {{"tokenizer", 11, "49,152 entries"}};
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
  changes.start_hashes = {5, 6};
  FinishedRound round;
  round.record = {.round = 2, .train_loss = 1.25, .validation_loss = 3, .replicas_equal = false};
  round.hashes = {1, 0xffffffffffffffff};
  round.undecided = {1};
  changes.rounds = {round};
  OpenReport report;
  report.member = worker.member;
  report.report = {.round = 3, .validation_loss = 2, .segment_hashes = {7, 8}, .tokens = 9};
  changes.reports = {report};
  changes.intervals = Intervals{.decided_rounds = 9, .changes = {{0, 14}, {5, 28}}};
  return changes;
}

CoordinatorRecord RecordOf(const CoordinatorChanges& changes) {
  CoordinatorRecord record;
  Apply(changes, &record);
  return record;
}

constexpr char kFolder[] = "state";
constexpr char kPath[] = "state/coordinator.lwlog";

// A store on a simulated disk whose file is published whole often.
class CoordinatorStoreTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  absl::Status TryOpen() {
    store_.reset();
    auto store = CoordinatorStore::Open(&files_, kFolder, {.salt = 7, .appended_bytes_min = 2000});
    if (store.ok()) store_ = *std::move(store);
    return store.status();
  }
  void Open() {
    const absl::Status opened = TryOpen();
    ASSERT_TRUE(opened.ok()) << opened;
  }
  absl::Status Write(const CoordinatorChanges& changes, bool is_whole = false) {
    return store_->Write({.is_whole = is_whole, .changes = changes});
  }
  // The record that the next process reads.
  CoordinatorRecord Reopened() {
    Open();
    std::optional<CoordinatorRecord> record = store_->TakeRecord();
    EXPECT_TRUE(record.has_value());
    return record ? *std::move(record) : CoordinatorRecord();
  }
  std::vector<std::byte> Bytes() {
    const absl::StatusOr<Buffer> bytes = ReadWhole(files_, kPath, 1 << 30);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (!bytes.ok()) return {};
    return {bytes->bytes().begin(), bytes->bytes().end()};
  }
  void Put(std::span<const std::byte> bytes) {
    const std::array<std::span<const std::byte>, 1> pieces = {bytes};
    ASSERT_TRUE(Publish(files_, kFolder, "coordinator.lwlog", pieces).ok());
  }

  SimFileSystem files_{1};
  std::unique_ptr<CoordinatorStore> store_;
};

TEST_F(CoordinatorStoreTest, ANewFolderHasNoRecord) {
  EXPECT_FALSE(store_->TakeRecord().has_value());
}

TEST_F(CoordinatorStoreTest, RemembersAll) {
  ASSERT_TRUE(Write(SomeChanges(), true).ok());
  EXPECT_TRUE(Reopened() == RecordOf(SomeChanges()));
}

TEST_F(CoordinatorStoreTest, ForgetsTheManifestWhenTheCoordinatorDoes) {
  CoordinatorChanges changes = SomeChanges();
  ASSERT_TRUE(Write(changes, true).ok());
  changes.rounds.clear();
  changes.manifest_changed = false;
  changes.manifest.reset();
  ASSERT_TRUE(Write(changes).ok());
  EXPECT_EQ(Reopened().manifest, Model());
  changes.manifest_changed = true;
  ASSERT_TRUE(Write(changes).ok());
  EXPECT_EQ(Reopened().manifest, std::nullopt);
}

TEST_F(CoordinatorStoreTest, DecidedRoundsStayUntilThereAreMore) {
  CoordinatorChanges changes = SomeChanges();
  ASSERT_TRUE(Write(changes, true).ok());
  changes.rounds.clear();
  const Intervals decided = *std::exchange(changes.intervals, std::nullopt);
  ASSERT_TRUE(Write(changes).ok());
  EXPECT_EQ(Reopened().intervals, decided);
  changes.intervals = Intervals{.decided_rounds = 12, .changes = {{0, 14}, {5, 28}}};
  ASSERT_TRUE(Write(changes).ok());
  const CoordinatorRecord record = Reopened();
  EXPECT_EQ(record.intervals, *changes.intervals);
  EXPECT_EQ(ChangesFromNothing(record).intervals, *changes.intervals);
}

// For any fault of the disk, an opened folder has all answered decisions, and perhaps later ones
// that were not answered. A coordinator made of it goes on.
TEST_F(CoordinatorStoreTest, TheWritesOfARunAmountToItsRecord) {
  uint64_t cut = 0, failed = 0, whole = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    files_ = SimFileSystem(seed);
    Open();
    RandomEvents events(seed);
    Rng rng(seed);
    const CoordinatorOptions options = RandomEvents::RunOptions();
    std::optional<Coordinator> coordinator(options);
    std::vector<CoordinatorRecord> decided(1);  // the first is the last answered one
    absl::Time now = absl::UnixEpoch();
    for (int step = 0; step < 300; ++step) {
      now += absl::Seconds(events.Seconds());
      coordinator->Step(events.Next(coordinator->Status(0, now), decided[0].state.run), now, rng);
      if (const auto write = store_->Take(*coordinator, now)) {
        decided.push_back(coordinator->Export(now));
        const absl::Status written = store_->Write(*write);
        whole += write->is_whole ? 1 : 0;
        failed += written.ok() ? 0 : 1;
        if (written.ok()) decided = {decided.back()};
      }
      if (events.Chance(0.05)) files_.faults.failed_sync_at = files_.syncs() + rng.Below(4);
      if (events.Chance(0.05)) files_.faults.failed_append_at = files_.appends() + rng.Below(4);
      if (events.Chance(0.05)) files_.faults.crash_at = files_.operations() + rng.Below(8);
      if (!files_.crashed() && !events.Chance(0.02)) continue;
      files_.Restart(events.Chance(0.5) ? SimFileSystem::Stop::kPower
                                        : SimFileSystem::Stop::kProcess);
      files_.faults = {};
      Open();
      ASSERT_NE(store_, nullptr);
      cut += store_->cut().empty() ? 0 : 1;
      CoordinatorRecord record = store_->TakeRecord().value_or(CoordinatorRecord());
      ASSERT_TRUE(std::ranges::find(decided, record) != decided.end())
          << "seed " << seed << ", step " << step;
      decided = {record};
      if (record == CoordinatorRecord()) {  // before the first write
        coordinator.emplace(options);
        continue;
      }
      ASSERT_TRUE(Coordinator::CheckRecord(options, record).ok());
      coordinator.emplace(options, std::move(record));
    }
  }
  EXPECT_GT(cut, 10u);
  EXPECT_GT(failed, 100u);
  EXPECT_GT(whole, 500u);
}

TEST_F(CoordinatorStoreTest, KeepsTheHashesOfTheLatestRoundsOnly) {
  CoordinatorRecord kept;
  CoordinatorChanges changes = SomeChanges();
  changes.reports.clear();
  for (uint32_t round = 0; round < kRoundsWithHashes + 10; ++round) {
    changes.state.next_round = round + 1;
    changes.rounds[0].record.round = round;
    ASSERT_TRUE(Write(changes, round == 0).ok());
    Apply(changes, &kept);
  }
  const CoordinatorRecord record = Reopened();
  EXPECT_TRUE(record.rounds[9].hashes.empty());
  EXPECT_FALSE(record.rounds[10].hashes.empty());
  EXPECT_TRUE(record == kept);
}

// In which the record was a database.
TEST_F(CoordinatorStoreTest, AFolderOfAnOlderVersionIsRefusedWithWhatToDo) {
  ASSERT_TRUE(files_.Create("state/coordinator.db").ok());
  const absl::Status status = TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "state/coordinator.db: got a database of an older version of Longwave, which kept its "
            "state in SQLite; wanted a folder of this version: finish the run with the older "
            "version, or set the folder aside to begin anew");
}

TEST_F(CoordinatorStoreTest, RefusesAShardsLogAndOtherFiles) {
  Put(EncodeLogFileHeader({.identity = {1, 2, 3}, .file = 1, .first_sequence = 1}));
  EXPECT_EQ(TryOpen().message(),
            "state/coordinator.lwlog: got file 1 of shard 2's log, wanted a coordinator's record");
  const std::vector<std::byte> text(100, std::byte{'x'});
  Put(text);
  EXPECT_EQ(TryOpen().message(),
            "state/coordinator.lwlog: log header: magic: got 78787878, wanted 314c574c");
}

// A published file is whole or absent, so no part of it counts as unfinished.
TEST_F(CoordinatorStoreTest, EveryFlippedBitOfAPublishedFileIsSeen) {
  ASSERT_TRUE(Write(SomeChanges(), true).ok());
  const size_t size = Bytes().size();
  for (size_t bit = 0; bit < 8 * size; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    files_.Corrupt(kPath, bit / 8, mask);
    const absl::Status status = TryOpen();
    ASSERT_FALSE(status.ok()) << bit;
    ASSERT_THAT(std::string(status.message()), HasSubstr("state/coordinator.lwlog: "));
    files_.Corrupt(kPath, bit / 8, mask);
  }
}

TEST_F(CoordinatorStoreTest, APublishedFileThatEndsTooEarlyIsDamaged) {
  ASSERT_TRUE(Write(SomeChanges(), true).ok());
  const std::vector<std::byte> good = Bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    Put(std::span(good).first(size));
    ASSERT_EQ(TryOpen().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_THAT(std::string(TryOpen().message()), HasSubstr("offset 64: record 1: got "));
}

// A change that was durable once, as a later one shows, is missed; the last one alone may never
// have been finished, and is cut with a sentence.
TEST_F(CoordinatorStoreTest, ADamagedChangeIsMissedIfALaterOneShowsIt) {
  CoordinatorChanges changes = SomeChanges();
  ASSERT_TRUE(Write(changes, true).ok());
  const size_t first = Bytes().size();
  changes.rounds.clear();
  ASSERT_TRUE(Write(changes).ok());
  const size_t second = Bytes().size();
  changes.state.epoch = 10;
  ASSERT_TRUE(Write(changes).ok());
  const std::vector<std::byte> good = Bytes();
  for (size_t at = first; at < second; ++at) {
    files_.Corrupt(kPath, at, std::byte{1});
    const absl::Status status = TryOpen();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << at;
    ASSERT_THAT(std::string(status.message()), HasSubstr("record 2 had been synced"));
    files_.Corrupt(kPath, at, std::byte{1});
  }
  for (size_t at = second; at < good.size(); ++at) {
    Put(good);
    files_.Corrupt(kPath, at, std::byte{1});
    EXPECT_EQ(Reopened().state.epoch, 9u);
    EXPECT_THAT(store_->cut(), HasSubstr("bytes that were never synced: "));
  }
}

TEST_F(CoordinatorStoreTest, AWrongReadLosesNothingOfAWholeOrATornRecord) {
  CoordinatorChanges changes = SomeChanges();
  ASSERT_TRUE(Write(changes, true).ok());
  changes.rounds.clear();
  for (uint32_t epoch : {10, 11}) {
    changes.state.epoch = epoch;
    ASSERT_TRUE(Write(changes).ok());
  }
  store_.reset();
  const std::vector<std::byte> good = Bytes();
  for (const size_t torn_bytes : {0, 3}) {
    Put(std::span(good).first(good.size() - torn_bytes));
    const auto start = [&](FileSystem& disk) {
      const auto store = CoordinatorStore::Open(&disk, kFolder, {.salt = 7});
      ASSERT_TRUE(store.ok()) << store.status();
      EXPECT_EQ((*store)->TakeRecord()->state.epoch, torn_bytes == 0 ? 11u : 10u);
    };
    EXPECT_GE(ExpectWrongReadsToChangeNothing(files_, {kFolder}, start), 1u);
  }
}

TEST_F(CoordinatorStoreTest, AfterAnErrorTheWholeIsWritten) {
  CoordinatorOptions options = RandomEvents::RunOptions();
  Coordinator coordinator(options);
  const absl::Time now = absl::UnixEpoch();
  Rng rng(1);
  const auto write = [&] { return store_->Write(*store_->Take(coordinator, now)); };
  coordinator.Step(Tick{}, now, rng);
  ASSERT_TRUE(write().ok());
  EXPECT_FALSE(store_->Take(coordinator, now).has_value()) << "nothing is new";
  files_.faults.capacity_bytes = files_.used_bytes() + 10;
  coordinator.Step(StopRequested{"enough"}, now, rng);
  EXPECT_EQ(write().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(write().code(), absl::StatusCode::kResourceExhausted) << "nothing is forgotten";
  files_.faults = {};
  ASSERT_TRUE(write().ok());
  EXPECT_FALSE(store_->Take(coordinator, now).has_value());
  EXPECT_TRUE(Reopened() == coordinator.Export(now));
}

// The cost of a write does not grow with the run.
TEST_F(CoordinatorStoreTest, AWriteIsAsLargeAsWhatIsNew) {
  CoordinatorChanges changes = SomeChanges();
  changes.reports.clear();
  ASSERT_TRUE(Write(changes, true).ok());
  uint64_t last = Bytes().size();
  for (uint32_t round = 0; round < 2000; ++round) {
    changes.rounds[0].record.round = round;
    ASSERT_TRUE(Write(changes).ok());
  }
  const uint64_t grown = Bytes().size() - last;
  EXPECT_EQ(grown % 2000, 0u);
  EXPECT_LT(grown / 2000, 2000u);
}

// --- the bytes -----------------------------------------------------------------------------------

TEST(CoordinatorFormat, NoPrefixIsTaken) {
  const CoordinatorChanges changes = SomeChanges();
  const std::vector<std::byte> good = Encode(changes);
  ASSERT_TRUE(*DecodeCoordinatorChanges(good) == changes);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(DecodeCoordinatorChanges(std::span(good).first(i)).ok()) << "cut to " << i;
  }
}

TEST(CoordinatorFormat, RefusesOtherVersions) {
  std::vector<std::byte> newer = Encode(SomeChanges());
  newer[4] = std::byte{kCoordinatorFormat + 1};
  EXPECT_EQ(DecodeCoordinatorChanges(newer).status().message(),
            absl::StrCat("format: got ", kCoordinatorFormat + 1, ", wanted ", kCoordinatorFormat));
  newer[0] = std::byte{0};
  EXPECT_EQ(DecodeCoordinatorChanges(newer).status().message(),
            "magic: got 64435700, wanted 6443574c");
}

}  // namespace
}  // namespace longwave
