#include "server/store/snapshot_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/snapshot_content.h"
#include "tests/support/store_helpers.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Compression kPlain = Compression::kNone;

std::vector<float> Floats(size_t count, float first) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i) * 0.25f;
  return values;
}

Buffer ModelOf(uint32_t round) {
  const std::vector<float> a = Floats(101, static_cast<float>(round)), b = Floats(7, -1);
  const std::vector<std::span<const float>> segments = {a, b};
  return EncodeModelContent(segments);
}

std::vector<SegmentSnapshot> StateOf(uint32_t round) {
  std::vector<SegmentSnapshot> segments(3);
  segments[0].open_round = round + 1;
  segments[0].residual = Floats(33, 0.5f);
  const MergedRecord merged = TestMerged(round, 0, 21);
  segments[0].closed = ClosedSegment{merged.header, {{1, 77}, {4, 78}}, merged.payload};
  segments[1].open_round = 0;  // nothing closed yet
  segments[2].open_round = 5;
  segments[2].residual = Floats(2, 1);
  return segments;
}

struct Snapshots {
  SimFileSystem files;
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<SnapshotStore> store;

  explicit Snapshots(uint64_t seed = 1) : files(seed) { EXPECT_TRUE(Open().ok()); }
  absl::Status Open(StoreIdentity identity = TestIdentity()) {
    store.reset();
    catalog.reset();
    if (absl::Status status = files.CreateFolder("d"); !status.ok()) return status;
    auto opened = Catalog::Open(&files, "d", TestIdentity(), "");
    if (!opened.ok()) return opened.status();
    catalog = *std::move(opened);
    auto snapshots = SnapshotStore::Open(&files, "d/snap", identity, catalog.get());
    if (!snapshots.ok()) return snapshots.status();
    store = *std::move(snapshots);
    return absl::OkStatus();
  }
  absl::Status Write(uint32_t round, Compression compression = kPlain) {
    return store->Write({SnapshotKind::kModel, 0, 2, round}, 10 * round, ModelOf(round),
                        compression);
  }
  std::vector<uint32_t> Rounds() const {
    std::vector<uint32_t> rounds;
    for (const SnapshotHeader& header : store->All()) rounds.push_back(header.key.round);
    return rounds;
  }
};

TEST(SnapshotContent, RoundTripsTheModel) {
  const std::vector<float> a = Floats(101, 1), b = {}, c = Floats(4, -2);
  const std::vector<std::span<const float>> segments = {a, b, c};
  const Buffer content = EncodeModelContent(segments);
  const auto again = DecodeModelContent(content, 3);
  ASSERT_TRUE(again.ok()) << again.status();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        std::equal((*again)[i].begin(), (*again)[i].end(), segments[i].begin(), segments[i].end()));
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeModelContent(content, 2).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeModelContent(content, 4).status()));
}

TEST(SnapshotContent, RoundTripsTheShardsState) {
  std::vector<SegmentSnapshot> state = StateOf(41);
  state[0].newest = {{1, 41}, {3, 17}, {4, 41}};
  const auto content = EncodeStateContent(state);
  ASSERT_TRUE(content.ok()) << content.status();
  const auto again = DecodeStateContent(*content, 3);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].open_round, 42u);
  EXPECT_EQ((*again)[0].residual, StateOf(41)[0].residual);
  EXPECT_EQ((*again)[0].closed->contributors, state[0].closed->contributors);
  EXPECT_EQ((*again)[0].newest, state[0].newest);
  EXPECT_FALSE((*again)[1].closed.has_value());
  const auto once_more = EncodeStateContent(*again);
  ASSERT_TRUE(once_more.ok());
  EXPECT_TRUE(std::ranges::equal(once_more->bytes(), content->bytes()));
}

TEST(SnapshotContent, RefusesAClosedUpdateOfAnotherRound) {
  std::vector<SegmentSnapshot> state = StateOf(41);
  state[0].open_round = 44;
  EXPECT_THAT(EncodeStateContent(state).status().message(), HasSubstr("the round before 44"));
  state = StateOf(41);
  state[0].closed->contributors = {{4, 1}, {1, 1}};
  EXPECT_FALSE(EncodeStateContent(state).ok());
  state[0].closed->contributors = {{1, 1}};
  EXPECT_FALSE(EncodeStateContent(state).ok());
}

TEST(SnapshotContent, RefusesANewestPushOfARoundThatIsNotClosed) {
  std::vector<SegmentSnapshot> state = StateOf(41);
  state[1].newest = {{2, state[1].open_round}};
  EXPECT_THAT(EncodeStateContent(state).status().message(), HasSubstr("the last push of worker 2"));
}

TEST(SnapshotContent, RefusesEveryTruncation) {
  const Buffer state = EncodeStateContent(StateOf(41)).value();
  const Buffer model = ModelOf(1);
  for (size_t length = 0; length < state.size(); ++length) {
    EXPECT_FALSE(DecodeStateContent(Buffer(state.bytes().first(length), nullptr), 3).ok());
  }
  for (size_t length = 0; length < model.size(); ++length) {
    EXPECT_FALSE(DecodeModelContent(Buffer(model.bytes().first(length), nullptr), 2).ok());
  }
}

TEST(SnapshotStore, GivesBackWhatWasWritten) {
  for (const Compression compression : {Compression::kNone, Compression::kZstd}) {
    Snapshots snapshots;
    ASSERT_TRUE(snapshots.Write(42, compression).ok());
    for (const bool reopened : {false, true}) {
      if (reopened) {
        ASSERT_TRUE(snapshots.Open().ok());
      }
      const auto latest = snapshots.store->Latest(SnapshotKind::kModel, 1);
      ASSERT_TRUE(latest.has_value());
      EXPECT_EQ(latest->key.round, 42u);
      EXPECT_EQ(latest->replay_from, 420u);
      EXPECT_EQ(latest->compression, compression);
      if (compression == Compression::kZstd) {
        EXPECT_LT(latest->stored_bytes, latest->content_bytes);
      }
      const auto content = snapshots.store->Read(latest->key);
      ASSERT_TRUE(content.ok()) << content.status();
      EXPECT_TRUE(std::ranges::equal(content->bytes(), ModelOf(42).bytes()));
      EXPECT_FALSE(snapshots.store->Latest(SnapshotKind::kModel, 2).has_value());
      EXPECT_FALSE(snapshots.store->Latest(SnapshotKind::kState, 0).has_value());
    }
  }
}

TEST(SnapshotStore, KeepsTheNewestAndOneToFallBackOn) {
  Snapshots snapshots;
  EXPECT_FALSE(ReplayFromMin(*snapshots.store, SnapshotKind::kModel).has_value());
  for (uint32_t round = 1; round <= 5; ++round) ASSERT_TRUE(snapshots.Write(round).ok());
  ASSERT_TRUE(snapshots.store->Write({SnapshotKind::kModel, 2, 2, 1}, 5, ModelOf(1), kPlain).ok());
  EXPECT_THAT(snapshots.Rounds(), ElementsAre(4, 5, 1)) << "another range has its own";
  EXPECT_EQ(ReplayFromMin(*snapshots.store, SnapshotKind::kModel), 5u);
  EXPECT_EQ(snapshots.files.List("d/snap")->size(), 3u);
  EXPECT_TRUE(absl::IsAlreadyExists(snapshots.Write(5)));
}

TEST(SnapshotStore, ADamagedOneIsSetAsideAndTheOneBeforeIsUsed) {
  size_t size = 0;
  {
    Snapshots snapshots;
    ASSERT_TRUE(snapshots.Write(7, Compression::kZstd).ok());
    size = ReadWhole(snapshots.files, "d/snap/model-00000000-00000002-r00000007.lwsnap", 1 << 20)
               ->size();
  }
  for (size_t bit = 0; bit < 8 * size; ++bit) {
    Snapshots snapshots;
    ASSERT_TRUE(snapshots.Write(6).ok());
    ASSERT_TRUE(snapshots.Write(7, Compression::kZstd).ok());
    const std::string name = "model-00000000-00000002-r00000007.lwsnap";
    snapshots.files.Corrupt("d/snap/" + name, bit / 8, std::byte{1} << (bit % 8));
    if (bit % 2 == 0) {
      ASSERT_TRUE(snapshots.Open().ok()) << bit;
    } else {
      // Found by reading it, not at the start. The header is not read again.
      if (bit / 8 < kSnapshotHeaderBytes) continue;
      EXPECT_TRUE(
          absl::IsDataLoss(snapshots.store->Read({SnapshotKind::kModel, 0, 2, 7}).status()));
    }
    ASSERT_EQ(snapshots.store->damaged().size(), 1u) << bit;
    EXPECT_EQ(snapshots.store->damaged()[0].name, name);
    EXPECT_THAT(snapshots.store->damaged()[0].reason, HasSubstr(name));
    EXPECT_EQ(snapshots.store->Latest(SnapshotKind::kModel, 0)->key.round, 6u);
    EXPECT_EQ(ReplayFromMin(*snapshots.store, SnapshotKind::kModel), 60u);
    EXPECT_THAT(snapshots.files.List("d/snap").value(),
                ElementsAre("model-00000000-00000002-r00000006.lwsnap", name + ".damaged"));
  }
}

TEST(SnapshotStore, EveryTruncationIsSetAside) {
  const std::string path = "d/snap/model-00000000-00000002-r00000007.lwsnap";
  for (size_t length = 0; length < kSnapshotHeaderBytes + ModelOf(7).size(); ++length) {
    Snapshots snapshots;
    ASSERT_TRUE(snapshots.Write(7).ok());
    ASSERT_TRUE(CutFile(snapshots.files, path, length).ok());
    ASSERT_TRUE(snapshots.Open().ok());
    ASSERT_EQ(snapshots.store->damaged().size(), 1u) << length;
    EXPECT_TRUE(snapshots.store->All().empty());
  }
}

TEST(SnapshotStore, AMissingOneIsReported) {
  Snapshots snapshots;
  ASSERT_TRUE(snapshots.Write(6).ok());
  ASSERT_TRUE(snapshots.Write(7).ok());
  ASSERT_TRUE(snapshots.files.Remove("d/snap/model-00000000-00000002-r00000007.lwsnap").ok());
  ASSERT_TRUE(snapshots.Open().ok());
  ASSERT_EQ(snapshots.store->damaged().size(), 1u);
  EXPECT_THAT(snapshots.store->damaged()[0].reason, HasSubstr("is gone"));
  ASSERT_TRUE(snapshots.Open().ok());
  EXPECT_TRUE(snapshots.store->damaged().empty()) << "said once";
}

TEST(SnapshotStore, RefusesThoseOfAnotherRun) {
  Snapshots snapshots;
  ASSERT_TRUE(snapshots.Write(6).ok());
  StoreIdentity other = TestIdentity();
  other.run = 5;
  const absl::Status status = snapshots.Open(other);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("r00000006.lwsnap: belongs to another run"));
}

TEST(SnapshotStore, AStopAtAnyOperationLeavesTwoUsableOnes) {
  // Each operation 20 times: half of them end in a loss of power, half in a killed process.
  for (uint64_t trial = 0;; ++trial) {
    const uint64_t at = trial / 20;
    Snapshots snapshots(trial);
    ASSERT_TRUE(snapshots.Write(1).ok());
    ASSERT_TRUE(snapshots.Write(2).ok());
    snapshots.files.faults.crash_at = snapshots.files.operations() + at;
    const absl::Status status = snapshots.Write(3);
    if (!snapshots.files.crashed()) {
      EXPECT_GT(at, 10u);
      break;
    }
    snapshots.store.reset();
    snapshots.files.Restart(trial % 2 == 0 ? SimFileSystem::Stop::kProcess
                                           : SimFileSystem::Stop::kPower);
    ASSERT_TRUE(snapshots.Open().ok()) << at;
    EXPECT_TRUE(snapshots.store->damaged().empty()) << at;
    const std::vector<uint32_t> rounds = snapshots.Rounds();
    ASSERT_GE(rounds.size(), 2u) << at;
    for (const uint32_t round : rounds) {
      EXPECT_TRUE(
          std::ranges::equal(snapshots.store->Read({SnapshotKind::kModel, 0, 2, round})->bytes(),
                             ModelOf(round).bytes()));
    }
    // Whatever was found counts as durable: it survives the next loss of power.
    snapshots.store.reset();
    snapshots.files.Restart(SimFileSystem::Stop::kPower);
    ASSERT_TRUE(snapshots.Open().ok());
    EXPECT_EQ(snapshots.Rounds(), rounds);
    if (rounds.back() != 3) {
      EXPECT_TRUE(snapshots.Write(3).ok());
    }
    EXPECT_EQ(snapshots.Rounds().back(), 3u);
  }
}

void ExpectFailureWithoutHarm(Snapshots& snapshots, const absl::Status& status) {
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(snapshots.Rounds(), ElementsAre(1));
  EXPECT_EQ(snapshots.files.List("d/snap")->size(), 1u) << "nothing is left of it";
  snapshots.files.faults.capacity_bytes.reset();
  ASSERT_TRUE(snapshots.Write(2).ok());
  EXPECT_THAT(snapshots.Rounds(), ElementsAre(1, 2));
}

TEST(SnapshotStore, ADiskFullAtAnyByteHarmsNoOther) {
  bool fitted = false;
  for (uint64_t capacity = 500; !fitted; ++capacity) {
    Snapshots snapshots;
    ASSERT_TRUE(snapshots.Write(1).ok());
    snapshots.files.faults.capacity_bytes = capacity;
    const absl::Status status = snapshots.Write(2);
    fitted = status.ok();
    if (fitted) {
      EXPECT_GT(capacity, 1200u);
      break;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    ExpectFailureWithoutHarm(snapshots, status);
  }
}

TEST(SnapshotStore, AFailedSyncHarmsNoOther) {
  for (uint64_t sync = 0; sync < 2; ++sync) {
    Snapshots snapshots;
    ASSERT_TRUE(snapshots.Write(1).ok());
    snapshots.files.faults.failed_sync_at = snapshots.files.syncs() + sync;
    ExpectFailureWithoutHarm(snapshots, snapshots.Write(2));
  }
}

TEST(SnapshotFormat, RefusesAForgedSizeBeforeItDecompresses) {
  SnapshotHeader header;
  header.key = {SnapshotKind::kModel, 0, 1, 1};
  const Buffer stored =
      PackSnapshotContent(Buffer(std::vector<std::byte>(100'000)), Compression::kZstd, header)
          .value();
  ASSERT_LT(stored.size(), 1000u);
  EXPECT_TRUE(UnpackSnapshotContent(header, stored).ok());
  header.content_bytes = 100;
  EXPECT_THAT(UnpackSnapshotContent(header, stored).status().message(),
              HasSubstr("another size than the header"));
}

}  // namespace
}  // namespace longwave
