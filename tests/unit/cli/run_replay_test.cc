// A run of two workers and a shard with a folder, and the replay of that folder.
#include "cli/replay/run_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/wire/crc32c.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/posix_file_system.h"
#include "tests/support/sent_frame.h"
#include "tests/support/test_folder.h"
#include "worker/member/schedule.h"
#include "worker/member/sync_options.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kRun = 0x5eed;
constexpr uint32_t kWorkers = 2;
constexpr uint32_t kRounds = 5;

RunConfig Config(const std::string& preset) {
  auto config = ParseConfig(
      "{}", "test.yaml",
      {"preset=" + preset, "run.steps=12", "run.shards=1", "run.workers=2", "train.warmup_steps=2",
       "sync.inner_steps=2", "sync.segment_tiles=1", "model.d_model=16", "model.layers=1",
       "model.heads=1", "model.context=8", "cluster.state_rounds=2"});
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

class RunReplayTest : public testing::Test {
 protected:
  explicit RunReplayTest(const std::string& preset = "longwave") : config_(Config(preset)) {
    const auto manifest = GptManifest(config_.model);
    layout_.emplace(Layout::Create(*manifest, LayoutOptionsFor(config_, *manifest)).value());
    initial_.resize(layout_->parameter_count());
    Rng rng(7);
    for (float& value : initial_) value = static_cast<float>(rng.Uniform()) - 0.5f;
  }

  void OpenShard() {
    shard_.reset();  // one process at a time holds the folder
    const MergeOptions merge = MergeOptionsOf(config_);
    DurableShardOptions options;
    options.aggregator.run = kRun;
    options.aggregator.run_seed = merge.run_seed;
    options.aggregator.up = merge.up;
    options.aggregator.down = merge.down;
    options.aggregator.rho = merge.rho;
    options.aggregator.clip = config_.sync.clip;
    options.state_rounds = config_.cluster.state_rounds;
    auto shard = DurableShard::Open(options, *layout_, [this] {
      return ShardStore::Open(files_.get(), folder_, {.identity = {kRun, 0, layout_->hash()}});
    });
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
    Membership membership{.epoch = 1};
    for (uint32_t i = 0; i < kWorkers; ++i)
      membership.members.push_back({.worker = i, .name = "w"});
    shard_->Step(MembershipChanged{membership}, now_);
  }

  // The run, as two workers live it; its hash at the end.
  uint64_t Train() {
    OpenShard();
    std::vector<std::vector<float>> theta(kWorkers, initial_);
    std::vector<std::unique_ptr<SyncPipeline>> pipelines;
    pipelines.reserve(theta.size());
    for (auto& replica : theta) {
      pipelines.push_back(SyncPipeline::Create(SyncOptionsOf(config_.sync, config_.run.seed),
                                               &*layout_, OpsFor(BackendKind::kCpu).value(), Exec{},
                                               {.theta = replica.data()})
                              .value());
    }
    const Schedule schedule(config_.train, config_.run.steps);
    Rng rng(11);
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (round == 3) OpenShard();  // the shard was killed
      for (uint32_t i = 0; i < kWorkers; ++i) {
        // A contribution is clipped by an update of the killed process.
        const float size = i == 1 && round == 3 ? 10 : 0.01f;
        for (float& value : theta[i]) value += size * (static_cast<float>(rng.Uniform()) - 0.5f);
        EXPECT_TRUE(
            pipelines[i]->BeginFragment(round, 0, schedule.LearningRate(2 * round + 1)).ok());
        for (uint32_t s = 0; s < layout_->segments().size(); ++s) Push(*pipelines[i], i, round, s);
      }
      for (const ShardEffect& effect : shard_->Commit(now_)) {
        const auto merged = SentIn<MergedFrame>(effect);
        if (!merged) continue;
        for (auto& pipeline : pipelines) {
          EXPECT_TRUE(pipeline->Apply(merged->header.segment, merged->payload).ok());
        }
      }
      shard_->Tend(now_);
      for (auto& pipeline : pipelines) EXPECT_TRUE(pipeline->EndFragment().ok());
      recorded_.push_back({round, CombineHashes(pipelines[1]->Hashes().value())});
    }
    EXPECT_GT(shard_->state().pushes_clipped, 0u);
    for (uint32_t i = 0; i < kWorkers && ends_within_round_; ++i) {
      EXPECT_TRUE(
          pipelines[i]->BeginFragment(kRounds, 0, schedule.LearningRate(2 * kRounds + 1)).ok());
      Push(*pipelines[i], i, kRounds, 1);
    }
    shard_->Commit(now_);
    return CombineHashes(pipelines[1]->Hashes().value());
  }

  void Push(SyncPipeline& pipeline, uint32_t worker, uint32_t round, uint32_t segment) {
    SyncPipeline::Push push = pipeline.Encode(segment).value();
    PushFrame header{.run = kRun, .epoch = 1, .round = round};
    header.worker = worker;
    header.segment = segment;
    header.weight = 16;
    header.norm = push.norm;
    header.payload_bytes = static_cast<uint32_t>(push.payload.size());
    header.payload_crc = Crc32c(push.payload.bytes());
    shard_->Step(PushArrived{header, std::move(push.payload)}, now_);
  }

  RunReplayReport Replay() {
    auto report = ReplayRun({.config = &config_,
                             .layout = &*layout_,
                             .shard_folders = {folder_},
                             .initial = initial_,
                             .recorded = recorded_});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(RunReplayReport());
  }

  const RunConfig config_;
  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::optional<Layout> layout_;
  std::vector<float> initial_;
  bool ends_within_round_ = false;       // one segment alone has a round more
  std::vector<RecordedRound> recorded_;  // as the coordinator would have them
  const std::unique_ptr<FileSystem> files_ = MakePosixFileSystem();
  std::unique_ptr<DurableShard> shard_;
  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
};

class NesterovReplayTest : public RunReplayTest {
 protected:
  NesterovReplayTest() : RunReplayTest("diloco") {}
};

TEST_F(RunReplayTest, MakesTheRunsModelAgainWhileTheShardHasItsFolderOpen) {
  const uint64_t hash = Train();
  const RunReplayReport report = Replay();
  EXPECT_THAT(report.problems(), IsEmpty());
  EXPECT_EQ(report.run, kRun);
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_EQ(report.state_hash, hash);
  const ShardFindings& found = report.shards[0].findings;
  EXPECT_EQ(found.pushes, kRounds * kWorkers * layout_->segments().size());
  EXPECT_EQ(found.merges_recomputed, kRounds * layout_->segments().size());
}

TEST_F(RunReplayTest, OfARunThatEndedWithinARoundMakesTheLastWholeOne) {
  ends_within_round_ = true;
  const uint64_t hash = Train();
  ASSERT_GT(layout_->segments().size(), 1u);
  const RunReplayReport report = Replay();
  EXPECT_THAT(report.problems(), IsEmpty());
  EXPECT_TRUE(report.ends_within_round);
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_EQ(report.state_hash, hash);
  EXPECT_EQ(report.shards[0].findings.merges, kRounds * layout_->segments().size() + 1);
}

TEST_F(NesterovReplayTest, KeepsTheVelocityFromRoundToRound) {
  const uint64_t hash = Train();
  const RunReplayReport report = Replay();
  EXPECT_EQ(report.state_hash, hash);
}

TEST_F(RunReplayTest, OtherInitialWeightsMakeAnotherModel) {
  const uint64_t hash = Train();
  initial_[3] += 1;
  const RunReplayReport report = Replay();
  EXPECT_NE(report.state_hash, hash);
}

// A folder of an older time, from which rounds were made a second time.
TEST_F(RunReplayTest, ARoundThatIsNotAsItWasRecordedIsAProblem) {
  Train();
  EXPECT_EQ(Replay().rounds_compared, kRounds);
  recorded_[2].state_hash = 1;
  recorded_[3].state_hash.reset();  // replicas differed then
  const RunReplayReport report = Replay();
  EXPECT_EQ(report.problem_count(), 1u);
  EXPECT_THAT(report.problems().at(0), HasSubstr("round 2: the logs make a model with hash "));
  EXPECT_THAT(report.problems().at(0), HasSubstr("has recorded 0000000000000001"));
}

TEST_F(RunReplayTest, ARoundThatIsRecordedAndInNoLogIsAProblem) {
  Train();
  recorded_.push_back({kRounds, std::nullopt});
  const RunReplayReport report = Replay();
  EXPECT_EQ(report.problem_count(), layout_->segments().size());
  EXPECT_EQ(report.problems().at(0),
            "shard 0, segment 0: has the rounds before 5, and the run has finished all before 6: "
            "the folder is from an older time");
}

TEST_F(RunReplayTest, SaysWhatIsMissingWithoutABeginning) {
  Train();
  initial_.clear();
  const RunReplayReport report = Replay();
  EXPECT_FALSE(report.state_hash.has_value());
  EXPECT_THAT(report.why_no_state, HasSubstr("segment 0 has neither its beginning nor"));
  EXPECT_EQ(report.problem_count(), 0u) << "the audit needs no model";
}

TEST_F(RunReplayTest, RefusesAFolderThatIsAnotherShards) {
  Train();
  const auto report = ReplayRun({.config = &config_,
                                 .layout = &*layout_,
                                 .shard_folders = {folder_, folder_},
                                 .initial = initial_});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace longwave
