#include "server/service/shard_metrics.h"

#include <gtest/gtest.h>

#include <string_view>

namespace longwave {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

AnswerFrame Answer(Outcome outcome, uint32_t segment, uint32_t round) {
  return {.outcome = outcome, .round = round, .segment = segment, .to = FrameKind::kPush};
}

MergedFrame MergedOf(uint32_t segment, uint32_t round) {
  return {.round = round, .segment = segment};
}

class ShardMetricsTest : public testing::Test {
 protected:
  ShardMetricsTest() { series_.SetSegments(10, 2); }

  double Counted(std::string_view name, std::initializer_list<std::string_view> labels = {}) {
    return metrics_.counter(name, labels).value();
  }
  double Shown(std::string_view name) { return metrics_.gauge(name).value(); }
  Histogram::Snapshot CloseSeconds() {
    return metrics_.histogram("longwave_shard_close_seconds").Read();
  }

  Metrics metrics_{MetricPart::kShard};
  ShardMetrics series_{&metrics_, 3, "", 1000, /*writes_models=*/true};
  Refusals refusals_;
};

TEST_F(ShardMetricsTest, CountsPushesByTheirAnswer) {
  series_.Answered(Answer(Outcome::kAccepted, 10, 0), Rejection::kNone, At(0));
  series_.Answered(Answer(Outcome::kLate, 10, 0), Rejection::kNone, At(0));
  series_.Answered(Answer(Outcome::kRejected, 10, 0), Rejection::kNorm, At(0));
  AnswerFrame of_a_pull = Answer(Outcome::kCompacted, 10, 0);
  of_a_pull.to = FrameKind::kPull;
  series_.Answered(of_a_pull, Rejection::kNone, At(0));
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"accepted"}), 1);
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"late"}), 1);
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"rejected"}), 1);
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"compacted"}), 0);
  EXPECT_EQ(Counted("longwave_shard_pushes_rejected_total", {"norm"}), 1);
}

TEST_F(ShardMetricsTest, HasALabelForEachAnswerAndForEachRejection) {
  for (const Outcome outcome :
       {Outcome::kAccepted, Outcome::kDuplicate, Outcome::kLate, Outcome::kRejected, Outcome::kBusy,
        Outcome::kCompacted, Outcome::kNotMember}) {
    series_.Answered(Answer(outcome, 10, 0), Rejection::kNone, At(0));
  }
  for (const Rejection rejection : {Rejection::kAddress, Rejection::kRound, Rejection::kWeight,
                                    Rejection::kNorm, Rejection::kPayload}) {
    series_.Answered(Answer(Outcome::kRejected, 10, 0), rejection, At(0));
  }
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"compacted"}), 1);
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"not_member"}), 1);
  EXPECT_EQ(Counted("longwave_shard_pushes_total", {"rejected"}), 6);
  EXPECT_EQ(Counted("longwave_shard_pushes_rejected_total", {"payload"}), 1);
}

TEST_F(ShardMetricsTest, ACloseTakesFromTheFirstPushOn) {
  series_.Answered(Answer(Outcome::kAccepted, 10, 4), Rejection::kNone, At(1));
  series_.Answered(Answer(Outcome::kAccepted, 10, 4), Rejection::kNone, At(2));
  series_.Merged(MergedOf(10, 4), At(4));
  series_.Merged(MergedOf(10, 4), At(9));  // sent again
  series_.Merged(MergedOf(11, 4), At(9));  // of another process's pushes
  EXPECT_EQ(CloseSeconds().counts.back(), 1u);
  EXPECT_EQ(CloseSeconds().sum, 3);
}

TEST_F(ShardMetricsTest, MeasuresResidualsInTurnsAndSeldom) {
  EXPECT_FALSE(series_.WantsResidual(At(0)));  // nothing has closed
  series_.Merged(MergedOf(10, 0), At(1));
  ASSERT_TRUE(series_.WantsResidual(At(1)));
  EXPECT_EQ(series_.residual_segment(), 10u);
  series_.ObserveResidual(9, At(1), At(1.5));
  EXPECT_FALSE(metrics_.gauge("longwave_shard_residual_norm").is_set());  // of one alone
  series_.Merged(MergedOf(11, 0), At(2));
  EXPECT_FALSE(series_.WantsResidual(At(50)));  // half a second is one percent of fifty
  ASSERT_TRUE(series_.WantsResidual(At(51.6)));
  EXPECT_EQ(series_.residual_segment(), 11u);
  series_.ObserveResidual(16, At(52), At(52));
  EXPECT_EQ(Shown("longwave_shard_residual_norm"), 5);
}

TEST_F(ShardMetricsTest, ShowsHowItsDataPlaneIs) {
  ShardFigures figures;
  figures.state.open_round = 4;
  figures.state.newest_round = 6;
  figures.open = {.segments = 2, .bytes = 300, .waited_for = 1};
  figures.frames_refused = 5;
  figures.traffic.sent[FrameKind::kMerged] = {.frames = 2, .bytes = 30, .payload_bytes = 20};
  refusals_.Count(Refusal::kDataWorker);
  refusals_.Count(Refusal::kDataConnection);
  series_.Show(figures, refusals_, absl::Seconds(7));
  EXPECT_EQ(Shown("longwave_shard_round"), 4);
  EXPECT_EQ(Shown("longwave_shard_newest_round"), 6);
  EXPECT_EQ(Shown("longwave_shard_open_bytes"), 300);
  EXPECT_EQ(Shown("longwave_shard_waited_for"), 1);
  EXPECT_EQ(Shown("longwave_shard_memory_limit_bytes"), 1000);
  EXPECT_EQ(Shown("longwave_shard_coordinator_silence_seconds"), 7);
  EXPECT_EQ(Counted("longwave_shard_bytes_total", {"sent", "merged"}), 30);
  EXPECT_EQ(Counted("longwave_shard_payload_bytes_total", {"sent", "merged"}), 20);
  EXPECT_EQ(Counted("longwave_shard_frames_total", {"sent", "merged"}), 2);
  EXPECT_EQ(Counted("longwave_shard_frames_refused_total", {"malformed"}), 4);
  EXPECT_EQ(Counted("longwave_shard_frames_refused_total", {"identity"}), 1);
  EXPECT_EQ(Counted("longwave_shard_connections_refused_total", {}), 1);
}

TEST_F(ShardMetricsTest, ADiskIsOnThePageOfAShardThatHasOne) {
  series_.Show({}, refusals_, absl::ZeroDuration());
  EXPECT_FALSE(metrics_.gauge("longwave_shard_disk_free_bytes").is_set());
  EXPECT_FALSE(metrics_.gauge("longwave_shard_snapshot_age_seconds", {"state"}).is_set());
  Metrics other(MetricPart::kShard);
  ShardMetrics durable(&other, 0, testing::TempDir(), 1000, /*writes_models=*/true);
  durable.Show({.states_written = 2}, refusals_, absl::ZeroDuration());
  EXPECT_GT(other.gauge("longwave_shard_disk_size_bytes").value(), 0);
  EXPECT_LE(other.gauge("longwave_shard_disk_free_bytes").value(),
            other.gauge("longwave_shard_disk_size_bytes").value());
  EXPECT_EQ(other.counter("longwave_shard_snapshots_written_total", {"state"}).value(), 2);
  EXPECT_TRUE(other.gauge("longwave_shard_snapshot_age_seconds", {"model"}).is_set());
  Metrics without(MetricPart::kShard);
  ShardMetrics of_local(&without, 0, testing::TempDir(), 1000, /*writes_models=*/false);
  of_local.Show({}, refusals_, absl::ZeroDuration());
  EXPECT_TRUE(without.gauge("longwave_shard_snapshot_age_seconds", {"state"}).is_set());
  EXPECT_FALSE(without.gauge("longwave_shard_snapshot_age_seconds", {"model"}).is_set());
}

}  // namespace
}  // namespace longwave
