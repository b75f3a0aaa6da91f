#include "cli/replay/model_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "server/store/snapshot_content.h"
#include "tests/support/lockstep.h"
#include "worker/member/sync_options.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kReplayedRounds = 6;

// A run of two workers, everything sent in fp32, of which a log and snapshots are kept.
class ModelReplayTest : public testing::Test {
 protected:
  ModelReplayTest() : initial_(ParameterCount(manifest_), 0.5f) {
    config_.run.steps = kReplayedRounds;
    config_.sync.inner_steps = 1;
    config_.sync.tiling = Tiling::kFlat;
    config_.sync.up = config_.sync.down = {Selection::kAll, ValueCodec::kFp32, 0};
    config_.train.learning_rate = 1e-3;
    auto cluster = Lockstep::Create(
        manifest_, {.tiling = Tiling::kFlat, .segment_tiles = 1}, SyncOptionsOf(config_.sync, 0),
        {.up = config_.sync.up, .down = config_.sync.down}, 2, initial_);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    for (uint32_t round = 0; round < kReplayedRounds; ++round) Round(round);
  }

  void Round(uint32_t round) {
    for (uint32_t s = 0; s < segments(); ++s) models_[{s, round}] = ModelOf(s);
    for (uint32_t worker = 0; worker < 2; ++worker) {
      for (size_t e = 0; e < initial_.size(); ++e)
        cluster_->theta(worker)[e] += 0.001f * static_cast<float>((e + round + worker) % 7);
    }
    const absl::Status sent = cluster_->Send(round, 0, 1e-3);
    ASSERT_TRUE(sent.ok()) << sent;
    for (const auto& merged : cluster_->merged())
      log_[{merged.header.segment, round}] = merged.payload;
    const absl::Status applied = cluster_->Apply();
    ASSERT_TRUE(applied.ok()) << applied;
  }

  // A segment of one tile is contiguous.
  Buffer ModelOf(uint32_t segment) const {
    const uint64_t begin = uint64_t{segment} * kTileSizeMax;
    const uint64_t end = std::min<uint64_t>(begin + kTileSizeMax, initial_.size());
    const std::span<const float> theta = cluster_->theta(0).subspan(begin, end - begin);
    return EncodeModelContent(std::span(&theta, 1));
  }
  uint32_t segments() const { return static_cast<uint32_t>(cluster_->layout().segments().size()); }

  // Replays the remaining log and snapshots of each segment.
  absl::StatusOr<ModelReplay::Result> Replay(uint32_t log_from, std::vector<uint32_t> snapshots) {
    auto replay = ModelReplay::Create(&config_, &cluster_->layout(), initial_, 1);
    if (!replay.ok()) return replay.status();
    std::vector<SnapshotHeader> headers;
    for (uint32_t s = 0; s < segments(); ++s) {
      for (const uint32_t round : snapshots) {
        SnapshotHeader header;
        header.key = {SnapshotKind::kModel, s, 1, round};
        headers.push_back(header);
      }
    }
    (*replay)->AddModels(headers, [this](const SnapshotHeader& header) {
      return models_.at({header.key.first_segment, header.key.round});
    });
    for (const auto& [name, merged] : log_) {
      if (name.second < log_from || name.second == without_) continue;
      const absl::Status applied = (*replay)->Apply(name.first, name.second, merged);
      if (!applied.ok()) return applied;
    }
    auto result = (*replay)->Finish();
    problems_ = (*replay)->problems();
    compared_ = (*replay)->models_compared();
    return result;
  }

  const Manifest manifest_{{{"weight", {9000}}}};
  RunConfig config_;
  std::vector<float> initial_;
  std::unique_ptr<Lockstep> cluster_;
  std::map<std::pair<uint32_t, uint32_t>, Buffer> log_;     // by segment and round
  std::map<std::pair<uint32_t, uint32_t>, Buffer> models_;  // before the round
  uint32_t without_ = kRoundNever;
  std::vector<std::string> problems_;
  uint64_t compared_ = 0;
};

TEST_F(ModelReplayTest, MakesTheReplicasAgainFromTheBeginning) {
  const auto result = Replay(0, {3});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->rounds, kReplayedRounds);
  EXPECT_EQ(result->state_hash, CombineHashes(cluster_->pipeline(0).Hashes().value()));
  EXPECT_EQ(compared_, segments());
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(ModelReplayTest, ALogWhoseBeginningWasDroppedLeadsOnFromASnapshot) {
  // The log is dropped by whole files, so the rest begins before the snapshot.
  const auto result = Replay(2, {3, 5});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->state_hash, CombineHashes(cluster_->pipeline(0).Hashes().value()));
  EXPECT_EQ(compared_, segments()) << "the second, with what leads to it from the first";
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(ModelReplayTest, AGapInTheMidstIsAProblemBySegmentAndRound) {
  without_ = 2;
  EXPECT_EQ(Replay(0, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(problems_, ElementsAre("segment 0: round 3 is in the log, but not round 2",
                                     "segment 1: round 3 is in the log, but not round 2",
                                     "segment 2: round 3 is in the log, but not round 2"));
}

TEST_F(ModelReplayTest, WithoutASnapshotWhatWasDroppedIsMissed) {
  const auto result = Replay(2, {});
  EXPECT_EQ(result.status().message(),
            "segment 0 has neither its beginning nor a snapshot that leads to the present");
}

TEST_F(ModelReplayTest, ASnapshotOfSomethingElseIsAProblem) {
  models_[{1, 3}] = models_[{1, 4}];
  const auto result = Replay(0, {3});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(problems_, ElementsAre("segment 1: its snapshot before round 3 is not what the "
                                     "updates before it make"));
}

}  // namespace
}  // namespace longwave
