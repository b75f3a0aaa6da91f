#include "cli/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/plan/measure_kernels.h"
#include "cli/plan/methods.h"
#include "cli/plan/transfers.h"
#include "common/config/config.h"

namespace longwave {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = PlanPart::Kind;

// Segments of 256 tiles of 4096 values in fp32: 16 bytes of head and 4 for each value. A frame has
// a header of 64 bytes and two of framing, and nine of framing before a payload of that size.
constexpr double kElements = 256 * 4096;
constexpr double kPayload = 16 + 4 * kElements;
constexpr double kHeader = 64 + 2;
constexpr double kFrame = kHeader + 9 + kPayload;

// A link whose data take a second a segment.
constexpr double kSegmentASecond = kFrame / kDataShare;

RunConfig Config(const Overrides& more = {}) {
  Overrides overrides = {"preset=diloco", "model.kind=external", "run.workers=2",
                         "run.shards=1",  "run.steps=600",       "sync.inner_steps=100",
                         "train.batch=8", "model.context=64"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return ParseConfig("{}", "test", overrides).value();
}

// Two workers, one shard and two segments; a step takes a second.
PlanInputs Inputs(const Overrides& more = {}) {
  PlanInputs inputs{
      .config = Config(more), .manifest = {{{"w", {64, 64 * 512}}}}, .keeps_state = false};
  inputs.workers = {{.count = inputs.config.run.workers,
                     .link = {kSegmentASecond, kSegmentASecond},
                     .step_s = 1}};
  inputs.shards.resize(inputs.config.run.shards);
  ModelSection& model = inputs.config.model;
  model.d_model = model.layers = model.vocabulary = 0;  // no activations
  return inputs;
}

Plan Made(const PlanInputs& inputs) {
  const absl::StatusOr<Plan> plan = MakePlan(inputs);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan{.parts = std::vector<PlanPart>(9)});
}

double SecondsOf(const Plan& plan, Kind kind) {
  return plan.parts[static_cast<size_t>(kind)].seconds;
}

TEST(Plan, BytesAreThoseOfFrames) {
  const Plan plan = Made(Inputs());
  EXPECT_EQ(plan.segments, 2u);
  EXPECT_EQ(plan.parameters, 2 * kElements);
  EXPECT_EQ(plan.round.up, 2 * kFrame);
  EXPECT_EQ(plan.round.down, 2 * (kFrame + kHeader));  // with the answers of the pushes
  EXPECT_EQ(plan.rounds, 6);
  EXPECT_EQ(plan.run.up, 2 * 6 * plan.round.up + 2 * kHeader);  // a hello each
  EXPECT_EQ(plan.run.down, 2 * 6 * plan.round.down + 2 * kHeader);
  EXPECT_FALSE(plan.down_is_a_bound);
}

TEST(Plan, EncryptionHasItsBytes) {
  const Plan plan = Made(Inputs({"security.mode=on"}));
  EXPECT_EQ(plan.round.up, 2 * (kFrame + 2 * 33));  // 33 for each of the frame's two parts
}

TEST(Plan, PushesOfDifferentCoefficientsAreTheMostThatGoesDown) {
  const Plan plan = Made(Inputs({"preset=sparseloco", "sync.inner_steps=30"}));
  EXPECT_TRUE(plan.down_is_a_bound);
  // 2 · 64 of 4096 in fp32, with indices in Elias-Fano: 128 · 5 low bits, 128 + 128 high ones.
  EXPECT_EQ(plan.round.down,
            2 * (kHeader + 9 + 16 + 256 * (128 * 5 + 128 + 128) / 8.0 + 256 * 128 * 4 + kHeader));
}

TEST(Plan, SnapshotsAreInTheRunsBytes) {
  PlanInputs inputs = Inputs({"cluster.snapshot_rounds=4", "run.steps=1000"});
  inputs.keeps_state = true;
  const Plan plan = Made(inputs);
  // Ten rounds. The first segment's turns are 4 and 8, the second's 2 and 6; DiLoCo's velocity is
  // in them, and 24 bytes of head.
  EXPECT_EQ(plan.snapshot_bytes, 4 * (kHeader + 9 + 24 + 2 * 4 * kElements));
  EXPECT_EQ(plan.run.up, 2 * 10 * plan.round.up + 2 * kHeader + plan.snapshot_bytes);
  EXPECT_EQ(plan.run.down, 2 * 10 * plan.round.down + 2 * kHeader + 2 * 4 * kHeader);
}

TEST(Plan, SegmentsFollowEachOtherThroughTheLinks) {
  // Up until 1 and 2, down until 2 and 3.
  const Plan plan = Made(Inputs());
  EXPECT_NEAR(plan.sync_s, 3, 1e-3);
  EXPECT_NEAR(SecondsOf(plan, Kind::kWorkerUp), 2, 1e-9);
  EXPECT_NEAR(plan.round_s, 103, 1e-3);
  EXPECT_NEAR(plan.compute_share, 100.0 / 103, 1e-5);
  EXPECT_NEAR(plan.run_s, 6 * 103, 1e-2);
  EXPECT_EQ(plan.Binding().kind, Kind::kWorkerUp);
}

TEST(Plan, KernelsAndDiskAreInTheWay) {
  PlanInputs inputs = Inputs();
  inputs.keeps_state = true;
  // Each encoding takes a second, a merge of both pushes half of one, a decoding a quarter.
  inputs.rates = {.encode = kElements,
                  .decode = 4 * kElements,
                  .merge = 4 * kElements,
                  .disk = kUnlimited,
                  .disk_sync_s = 0.1};
  const Plan plan = Made(inputs);
  // The second segment: encoded 2, in the journal 2.1, up 3.1, merged 3.6 and durable 3.7, down
  // 4.7, decoded 4.95.
  EXPECT_NEAR(plan.sync_s, 4.95, 1e-3);
  EXPECT_NEAR(SecondsOf(plan, Kind::kEncode), 2, 1e-9);
  EXPECT_NEAR(SecondsOf(plan, Kind::kMerge), 1, 1e-9);
  EXPECT_NEAR(SecondsOf(plan, Kind::kDecode), 0.5, 1e-9);
  EXPECT_NEAR(SecondsOf(plan, Kind::kJournal), 0.2, 1e-9);
}

TEST(Plan, TwoShardsShareAWorkersLink) {
  // Both segments are on their way at once: until 2, and down until 4.
  const Plan plan = Made(Inputs({"run.shards=2"}));
  EXPECT_EQ(plan.segments, 2u);
  EXPECT_NEAR(plan.sync_s, 4, 1e-3);
}

TEST(Plan, ASlowShardsLinkIsWhatBinds) {
  PlanInputs inputs = Inputs({"run.shards=2"});
  inputs.shards[1] = {.up = kUnlimited, .down = kSegmentASecond / 4};
  const Plan plan = Made(inputs);
  // Two pushes at a quarter of the rate: until 8, then one segment down.
  EXPECT_NEAR(plan.sync_s, 9, 1e-3);
  EXPECT_EQ(plan.Binding().kind, Kind::kShardIn);
  EXPECT_EQ(Name(plan.Binding()), "shard 1's link in");
  const std::vector<PlannedMethod> all = {{inputs, plan}};
  EXPECT_THAT(BindingOf(all[0]), testing::StartsWith("shard 1's link in, at "));
  EXPECT_THAT(ChangeFor(all[0], all).value(),
              testing::StartsWith("give shard 1 the rate of the fastest one: a sync takes 4.00 s"));
}

TEST(Plan, TheSlowestWorkerIsWaitedFor) {
  PlanInputs inputs = Inputs({"run.workers=3"});
  inputs.workers[0].count = 2;
  inputs.workers.push_back(
      {.count = 1, .link = {kSegmentASecond / 2, kSegmentASecond}, .step_s = 2});
  const Plan plan = Made(inputs);
  EXPECT_NEAR(plan.sync_s, 5, 1e-3);  // up until 2 and 4
  EXPECT_NEAR(plan.round_s, 205, 1e-3);
  EXPECT_NEAR(plan.compute_share, (100 + 100 + 200) / 205.0 / 3, 1e-5);
  const std::vector<PlannedMethod> all = {{inputs, plan}};
  EXPECT_THAT(ChangeFor(all[0], all).value(),
              testing::StartsWith("a smaller train.batch on the workers whose inner steps take"));
}

TEST(Plan, AnOverlapHidesWaiting) {
  const Plan plan = Made(Inputs({"sync.overlap=2"}));
  EXPECT_NEAR(plan.sync_s, 3, 1e-3);
  EXPECT_NEAR(plan.hidden_s, 2, 1e-9);
  // A fragment has one segment: up until 1, down until 2, and all of it is hidden.
  const Plan fragments = Made(Inputs({"sync.overlap=2", "sync.fragments=2"}));
  EXPECT_NEAR(fragments.sync_s, 4, 1e-3);
  EXPECT_NEAR(fragments.held_s(), 0, 1e-3);
}

TEST(Plan, ARoundTripCostsTimeToo) {
  PlanInputs inputs = Inputs();
  inputs.workers[0].round_trip_s = 0.1;
  const double ramp = SlowStartSeconds(2 * kFrame, kFrame, 0.1);
  EXPECT_GT(ramp, 0);
  EXPECT_NEAR(Made(inputs).sync_s, 3 + 0.1 + 2 * ramp, 1e-3);
}

TEST(Plan, SlowStartDoublesUntilTheLinkIsFull) {
  EXPECT_EQ(SlowStartSeconds(14480, 1e6, 1), 0);  // ten packets are one window
  // 1 + 2 windows, and the rest with the third: two round trips in which the link was busy for 3/8.
  EXPECT_NEAR(SlowStartSeconds(7 * 14480, 8 * 14480, 1), 2 - 3.0 / 8, 1e-12);
  // The third window is what the link holds in a round trip.
  EXPECT_NEAR(SlowStartSeconds(1e9, 4 * 14480, 1), 2 - 3.0 / 4, 1e-12);
}

TEST(Plan, TransfersShareLinksFairly) {
  // Two machines with links of 3 and 1 to a shard's of 3: the second has its 1, the first the rest.
  const std::vector<Connection> connections = {
      {.own_link = 0, .shard_link = 2, .transfers = {{0, 4}, {0, 2}}},
      {.own_link = 1, .shard_link = 2, .transfers = {{0, 2}}}};
  EXPECT_THAT(TransferEnds({3, 1, 3}, connections),
              ElementsAre(ElementsAre(DoubleNear(2, 1e-9), DoubleNear(2 + 2 / 3.0, 1e-9)),
                          ElementsAre(DoubleNear(2, 1e-9))));
  const std::vector<Connection> later = {
      {.own_link = 0, .shard_link = 1, .copies = 2, .transfers = {{1, 6}, {9, 6}}}};
  EXPECT_THAT(TransferEnds({3, 4}, later),
              ElementsAre(ElementsAre(DoubleNear(4, 1e-9), DoubleNear(12, 1e-9))));
}

TEST(Plan, HIsThatAtWhichSyncsTakeTheirShare) {
  PlanInputs inputs = Inputs();
  inputs.config.sync.target_share = 0.26;
  const Plan plan = Made(inputs);
  EXPECT_EQ(*plan.wanted_inner_steps, 9);  // 3 s of 12; at 8 they are 27 %
  EXPECT_EQ(plan.auto_inner_steps, 9);
  inputs.config.sync.inner_steps = 0;  // auto
  EXPECT_EQ(Made(inputs).inner_steps, 9);
  EXPECT_EQ(Made(inputs).rounds, std::ceil(Made(inputs).steps / 9));
  inputs.config.sync.target_share = 0.02;
  EXPECT_EQ(Made(inputs).auto_inner_steps, inputs.config.sync.inner_steps_max);
  inputs.workers[0].step_s = 1000;
  EXPECT_EQ(Made(inputs).auto_inner_steps, inputs.config.sync.inner_steps_min);
  EXPECT_EQ(Made(Inputs({"preset=ddp", "sync.inner_steps=1"})).auto_inner_steps, std::nullopt);
}

TEST(Plan, TokensGiveStepsAndThePrice) {
  PlanInputs inputs = Inputs();
  inputs.tokens = 1024.0 * 3600;  // 2 workers, 8 sequences of 64
  inputs.prices = {.worker_hour = 2, .sent_gigabyte = 10};
  const Plan plan = Made(inputs);
  EXPECT_EQ(plan.steps, 3600);
  EXPECT_EQ(plan.rounds, 36);
  EXPECT_NEAR(plan.run_s, 3600 + 36 * 3, 1e-2);
  EXPECT_NEAR(*plan.price, 2 * 2 * plan.run_s / 3600 + 10 * (plan.run.up + plan.run.down) / 1e9,
              1e-9);
  EXPECT_FALSE(Made(Inputs()).price.has_value());
}

TEST(Plan, MemoryAndDiskFollowTheArrays) {
  PlanInputs inputs = Inputs({"cluster.snapshot_rounds=2"});
  inputs.keeps_state = true;
  const Plan plan = Made(inputs);
  const double array = 4 * 2 * kElements;
  EXPECT_EQ(plan.shard_memory_bytes, 6 * kPayload);  // two pushes and the update, no residual
  // Four rounds of them, and two snapshots of parameters and velocity.
  EXPECT_EQ(plan.shard_disk_bytes, 4 * 6 * kPayload + 4 * array);
  EXPECT_EQ(plan.worker_disk_bytes, 2 * 3 * array);
  // θ, gradient, AdamW's two, anchor, velocity, momentum and two payloads; and the checkpoint.
  EXPECT_NEAR(plan.worker_memory_bytes, 9 * array + 3 * array, 0.01 * array);
  inputs.keeps_state = false;
  EXPECT_EQ(Made(inputs).shard_disk_bytes, 0);
  EXPECT_EQ(Made(inputs).worker_disk_bytes, 0);
}

TEST(Plan, CountsThatDisagreeAreRefused) {
  PlanInputs inputs = Inputs();
  inputs.workers[0].count = 3;
  EXPECT_EQ(MakePlan(inputs).status().message(),
            "got 3 workers with links, wanted run.workers, which is 2");
  inputs = Inputs();
  inputs.shards.resize(2);
  EXPECT_EQ(MakePlan(inputs).status().message(),
            "got 2 shards with links, wanted run.shards, which is 1");
}

TEST(Methods, HaveThePresetsKeysAndTheCommandLines) {
  const RunConfig run = Config({"sync.inner_steps=50"});
  EXPECT_EQ(*WithMethod(run, "diloco", {}), run);
  const RunConfig other =
      WithMethod(run, "muloco", {"sync.inner_steps=20", "train.batch=3"}).value();
  EXPECT_EQ(other.run.preset, "muloco");
  EXPECT_EQ(other.sync.inner_steps, 20u);
  EXPECT_EQ(other.train, run.train);
  EXPECT_THAT(std::string(WithMethod(run, "ddp", {"sync.inner_steps=20"}).status().message()),
              HasSubstr("inner_steps"));
  EXPECT_THAT(std::string(WithMethod(run, "nothing", {}).status().message()), HasSubstr("nothing"));
}

TEST(Methods, TheCheapestChangeComesFirst) {
  PlanInputs inputs = Inputs();
  const auto change = [&inputs](double target_share) {
    inputs.config.sync.target_share = target_share;
    const std::vector<PlannedMethod> all = {{inputs, Made(inputs)}};
    return ChangeFor(all[0], all).value();
  };
  EXPECT_EQ(change(0.03), "none: syncs take 2.9 % of a round, and 3.0 % is the target");
  inputs.config.sync.inner_steps = 10;
  EXPECT_THAT(change(0.2), HasSubstr("--set sync.inner_steps=13: syncs take 20.0 %"));
  EXPECT_THAT(change(0.02), HasSubstr("Mbit/s instead of "));  // H would be 147
  PlanInputs sparse = inputs;
  sparse.config = Config({"preset=longwave", "sync.inner_steps=30"});
  const std::vector<PlannedMethod> two = {{inputs, Made(inputs)}, {sparse, Made(sparse)}};
  EXPECT_THAT(ChangeFor(two[0], two).value(), HasSubstr("--set preset=longwave: syncs take "));
}

TEST(Methods, TheEvidenceIsWhereItIsSaidToBe) {
  std::ifstream file(LONGWAVE_SOURCE_DIR "/docs/reference/benchmarks.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string heading = "## The presets on one text\n";
  const size_t begin = page.find(heading);
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  for (const std::string& preset : PresetNames()) {
    const bool has_row = section.find(absl::StrCat("\n    ", preset, " ")) != std::string::npos;
    EXPECT_EQ(EvidenceOf(preset),
              absl::StrCat("docs/reference/benchmarks.md, The presets on one text: ",
                           has_row ? "row " : "no row yet for ", preset));
  }
}

TEST(MeasureKernels, MeasuresEveryPreset) {
  for (const std::string& preset : PresetNames()) {
    const RunConfig config =
        ParseConfig("{}", "test", {absl::StrCat("preset=", preset), "run.workers=3"}).value();
    const absl::StatusOr<PlanRates> rates = MeasureKernels(config, 1);
    ASSERT_TRUE(rates.ok()) << preset << ": " << rates.status();
    // A core of any age, and the memory of any.
    for (const double rate : {rates->encode, rates->decode, rates->merge}) {
      EXPECT_GT(rate, 1e5) << preset;
      EXPECT_LT(rate, 1e11) << preset;
    }
  }
}

}  // namespace
}  // namespace longwave
