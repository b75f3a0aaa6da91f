#include "tests/bench/shard/figures.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/layout/layout.h"
#include "common/wire/crc32c.h"
#include "common/wire/tile_codec.h"
#include "tests/bench/shard/board.h"
#include "tests/bench/shard/machine.h"
#include "tests/bench/shard/payloads.h"

namespace longwave {
namespace {

Layout FlatLayout(int64_t parameters) {
  return *Layout::Create({{{"a", {parameters}}}}, {.tiling = Tiling::kFlat, .segment_tiles = 2});
}

class BenchPushesOfEveryCodec : public testing::TestWithParam<PayloadFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, BenchPushesOfEveryCodec,
                         testing::Values(PayloadFormat{Selection::kTopK, ValueCodec::kSign, 64},
                                         PayloadFormat{Selection::kTopK, ValueCodec::kInt2, 1},
                                         PayloadFormat{Selection::kTopK, ValueCodec::kInt8, 4096},
                                         PayloadFormat{Selection::kTopK, ValueCodec::kBf16, 9},
                                         PayloadFormat{Selection::kAll, ValueCodec::kFp32, 0}));

TEST_P(BenchPushesOfEveryCodec, AreWhatAShardAccepts) {
  const Layout layout = FlatLayout(5 * kTileSizeMax);
  const BenchPushes pushes = *BenchPushes::Create(layout, GetParam(), 3, 1000);
  ASSERT_EQ(pushes.segments(), 3u);
  std::set<uint32_t> payloads;  // by CRC
  for (uint32_t worker = 0; worker < 3; ++worker) {
    for (uint32_t segment = 0; segment < 3; ++segment) {
      const BenchPush& push = pushes.Of(worker, segment);
      const PayloadLayout& payload = pushes.layout(segment);
      EXPECT_TRUE(ValidatePayload(payload, push.payload).ok());
      EXPECT_EQ(push.crc, Crc32c(push.payload));
      EXPECT_GE(push.weight, 1u);
      double square_sum = 0;
      for (uint32_t tile = 0; tile < payload.tile_count(); ++tile) {
        std::vector<uint16_t> indices(payload.sent_count(tile));
        std::vector<float> values(indices.size());
        ReadTile(payload, tile, push.payload, 0, indices, values);
        for (const float value : values) square_sum += double{value} * value;
      }
      EXPECT_NEAR(push.norm, std::sqrt(square_sum), 1e-5 * push.norm);
      payloads.insert(push.crc);
    }
  }
  EXPECT_EQ(payloads.size(), 9u) << "two workers or segments have the same payload";
}

TEST(BenchPushes, KnowTheirSizes) {
  const Layout layout = FlatLayout(3 * kTileSizeMax);
  const BenchPushes pushes =
      *BenchPushes::Create(layout, {Selection::kTopK, ValueCodec::kSign, 64}, 2, 1000);
  EXPECT_EQ(pushes.coefficients(), 3u * 64);
  EXPECT_EQ(pushes.coefficients(0), 2u * 64);
  EXPECT_EQ(pushes.payload_bytes(),
            pushes.Of(0, 0).payload.size() + pushes.Of(0, 1).payload.size());
}

TEST(BenchPushes, RefuseASelectionThatTheRoundDraws) {
  const auto pushes =
      BenchPushes::Create(FlatLayout(4096), {Selection::kRandom, ValueCodec::kSign, 64}, 1, 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(pushes.status())) << pushes.status();
}

TEST(LoadBoard, LetsEverybodyDoTheRoundsThatWereAsked) {
  LoadBoard board(1, 0);
  for (uint64_t first : {0u, 2u}) {
    board.Open(2, absl::InfinitePast());
    EXPECT_EQ(board.first_round(), first);
    for (const uint64_t worker : {0, 1, 2}) {
      (void)worker;
      EXPECT_TRUE(board.MayBegin(first));
      EXPECT_TRUE(board.MayBegin(first + 1));
      EXPECT_FALSE(board.MayBegin(first + 2));
    }
  }
}

TEST(LoadBoard, AtTheEndOfTheTimeEverybodyDoesWhatOneHasBegun) {
  LoadBoard board(1, 0);
  board.Open(0, MonotonicNow() + absl::Hours(1));
  EXPECT_TRUE(board.MayBegin(0));
  EXPECT_TRUE(board.MayBegin(1));
  EXPECT_TRUE(board.MayBegin(2));  // by the fastest
  board.Open(0, absl::InfinitePast());
  EXPECT_TRUE(board.MayBegin(3)) << "a stretch has a round at least";
  EXPECT_FALSE(board.MayBegin(4));
  EXPECT_TRUE(board.MayBegin(3)) << "the others follow";
  EXPECT_FALSE(board.MayBegin(4));
}

TEST(LoadBoard, TellsAMergedUpdateThatDiffersAndKeepsTheFirst) {
  LoadBoard board(2, 1);
  const std::vector<std::byte> first(3, std::byte{1}), other(3, std::byte{2});
  EXPECT_TRUE(board.Agrees(0, 1, Crc32c(first), first));
  EXPECT_TRUE(board.Agrees(0, 1, Crc32c(first), first));
  EXPECT_FALSE(board.Agrees(0, 1, Crc32c(other), other));
  EXPECT_TRUE(board.Agrees(0, 0, Crc32c(other), other)) << "another segment is another matter";
  EXPECT_TRUE(board.Agrees(4, 1, Crc32c(other), other)) << "and so is a later round";
  EXPECT_EQ(board.Kept(0, 1), first);
  EXPECT_EQ(board.Kept(0, 0), other);
}

TEST(LoadBoard, KeepsTheFirstFailure) {
  LoadBoard board(1, 0);
  EXPECT_FALSE(board.failed());
  board.Fail(absl::DataLossError("first"));
  board.Fail(absl::InternalError("second"));
  EXPECT_TRUE(board.failed());
  EXPECT_EQ(board.status(), absl::DataLossError("first"));
}

TEST(Percentile, IsByNearestRank) {
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Percentile({7}, 1), 7);
  EXPECT_EQ(Percentile({3, 1, 2, 4}, 50), 2);
  EXPECT_EQ(Percentile({3, 1, 2, 4}, 51), 3);
  EXPECT_EQ(Percentile({3, 1, 2, 4}, 99), 4);
}

// With `workers`, at 1 M merged coefficients and so many GB of payload a second.
ShardFigures FiguresOf(uint32_t workers, double processor_seconds) {
  ShardFigures figures;
  figures.workers = workers;
  figures.parameters = 1'000'000;
  figures.coefficients = 500'000'000 / workers;
  figures.shard.processor_seconds = processor_seconds;
  figures.shard.load.seconds = 2;
  figures.shard.load.rounds = 1;
  figures.shard.load.accepted = workers;
  figures.shard.load.payload_sent = 600;
  figures.counted.bytes_received = 18'200ull * workers;
  figures.counted.bytes_sent = 70'000ull * workers;
  figures.raw.emplace();
  figures.raw->load.seconds = 1;
  figures.raw->load.payload_received = 400;
  return figures;
}

TEST(Bars, SayWhatIsMetWhatIsNotAndWhatWasNotMeasured) {
  const BenchShardOptions options{.params = 1'000'000};
  std::vector<std::string> lines;
  for (const Bar& bar : BarsOf(options, {FiguresOf(8, 1.0), FiguresOf(512, 80.0)})) {
    lines.push_back(DescribeBar(bar));
  }
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_TRUE(lines[0].starts_with("met      merged coefficients")) << lines[0];    // 500 M/s
  EXPECT_TRUE(lines[1].starts_with("met      payload throughput")) << lines[1];     // 0.75
  EXPECT_TRUE(lines[2].starts_with("not met  merged coefficients")) << lines[2];    // 6 M/s
  EXPECT_TRUE(lines[4].starts_with("not met  processor time a push")) << lines[4];  // 1.25
  EXPECT_TRUE(lines[5].starts_with("met      bytes up")) << lines[5];               // 0.0182
  EXPECT_TRUE(lines[6].starts_with("not met  bytes down")) << lines[6];             // 0.07
  for (const Bar& bar : BarsOf({.shards = 2, .params = 999'999}, {FiguresOf(8, 1.0)})) {
    EXPECT_TRUE(DescribeBar(bar).starts_with("not measured  ")) << DescribeBar(bar);
  }
}

TEST(Machine, KnowsWhatAProcessHasUsed) {
  const double before = *ProcessorSeconds(getpid());
  volatile uint64_t sum = 0;
  while (*ProcessorSeconds(getpid()) < before + 0.001) sum = sum + 1;
  EXPECT_GT(*ResidentBytesMax(getpid()), 1'000'000u);
  constexpr pid_t kNobody = 1 << 22;  // above the largest that Linux gives
  EXPECT_TRUE(absl::IsNotFound(ProcessorSeconds(kNobody).status()));
  EXPECT_TRUE(absl::IsNotFound(ResidentBytesMax(kNobody).status()));
}

TEST(Machine, BindsAThreadForAScope) {
  const std::vector<int> all = AllowedProcessors();
  ASSERT_FALSE(all.empty());
  {
    const ScopedProcessors bound({all.back()});
    EXPECT_EQ(AllowedProcessors(), std::vector<int>{all.back()});
    const ScopedProcessors unbound({});
    EXPECT_EQ(AllowedProcessors(), std::vector<int>{all.back()});
  }
  EXPECT_EQ(AllowedProcessors(), all);
}

}  // namespace
}  // namespace longwave
