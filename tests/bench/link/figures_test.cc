#include "tests/bench/link/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/config/config.h"
#include "tests/bench/link/bench.h"
#include "tests/bench/link/network.h"
#include "tests/bench/link/report.h"
#include "tests/bench/link/torch.h"

namespace longwave {
namespace {

// A run of two workers and `rounds` rounds of ten seconds, with bytes by the formulae. Two seconds
// of validation follow, which belong to no round.
LinkRun RunOf(double mbit, uint32_t rounds, double share) {
  LinkRun run{.preset = "longwave", .mbit = mbit};
  run.status.parameters = 1'000'000;
  for (uint32_t i = 0; i < rounds; ++i) {
    run.status.records.push_back({.round = i, .step = 10 * (i + 1), .seconds = 10.0 * (i + 1)});
  }
  run.status.records.back().validation_loss = 2.25;
  run.status.records.back().seconds += 2;
  const SyncSection sync = DefaultConfig().sync;
  for (const char* name : {"worker-0", "worker-1"}) {
    LinkWorker worker{.name = name, .seconds_computing = share * 10 * rounds};
    worker.seconds_syncing = 10 * rounds - worker.seconds_computing;
    const double scale = 1e6 * rounds;
    worker.data.sent = static_cast<uint64_t>(scale * PayloadBytesPerParameter(sync.up));
    worker.data.received = static_cast<uint64_t>(scale * PayloadBytesPerParameter(sync.down));
    worker.sockets.pushed = worker.data.sent;
    worker.sockets.pulled = worker.data.received;
    run.workers.push_back(worker);
  }
  return run;
}

LinkFigures FiguresOf(double share_at_10) {
  LinkFigures figures{.config = DefaultConfig(), .parameters = 1'000'000};
  figures.runs = {RunOf(100, 8, 0.9), RunOf(0, 8, 0.9), RunOf(10, 8, share_at_10)};
  figures.mtu = 9000;
  figures.target_loss = 2.25;  // after the eighth round: 80 s
  figures.rounds_to_target = 8;
  return figures;
}

LinkBaseline BaselineOf(const char* name, uint64_t units, bool at_least) {
  LinkBaseline baseline{.name = name, .unit = "step", .units = units, .at_least = at_least};
  baseline.rates = {{.mbit = 0, .seconds_per_unit = 1}, {.mbit = 10, .seconds_per_unit = 20}};
  return baseline;
}

std::vector<Verdict> VerdictsOf(const LinkFigures& figures) {
  std::vector<Verdict> verdicts;
  for (const LinkBar& bar : Bars(figures)) verdicts.push_back(bar.verdict);
  return verdicts;
}

using testing::ElementsAre;

TEST(PayloadFormula, GivesTheFiguresOfTheDesign) {
  EXPECT_NEAR(PayloadBytesPerParameter(
                  {.selection = Selection::kTopK, .codec = ValueCodec::kSign, .k = 64}),
              0.0181, 5e-5);
  EXPECT_NEAR(PayloadBytesPerParameter(
                  {.selection = Selection::kTopK, .codec = ValueCodec::kInt2, .k = 256}),
              0.063, 5e-5);
  EXPECT_EQ(PayloadBytesPerParameter({.selection = Selection::kAll, .codec = ValueCodec::kFp32}),
            4);
}

TEST(LinkBars, AreMetByEqualSharesAndExactBytes) {
  EXPECT_THAT(VerdictsOf(FiguresOf(0.9)),
              ElementsAre(Verdict::kMet, Verdict::kMet, Verdict::kMet, Verdict::kMet));
}

TEST(LinkBars, AreNotMetByAShareBelow97Percent) {
  EXPECT_EQ(VerdictsOf(FiguresOf(0.9 * 0.971))[1], Verdict::kMet);
  EXPECT_EQ(VerdictsOf(FiguresOf(0.9 * 0.969))[1], Verdict::kNotMet);
}

TEST(LinkBars, LookAtTheWorkerThatIsFarthestFromTheFormula) {
  LinkFigures figures = FiguresOf(0.9);
  uint64_t& sent = figures.runs[1].workers[1].data.sent;
  sent += sent * 4 / 100;
  EXPECT_THAT(VerdictsOf(figures),
              ElementsAre(Verdict::kMet, Verdict::kMet, Verdict::kNotMet, Verdict::kMet));
}

TEST(LinkBars, HoldPyTorchToTwentyTimesAndPresetsToBeingSlower) {
  LinkFigures figures = FiguresOf(0.9);
  figures.baselines = {BaselineOf("torch-ddp", 79, false), BaselineOf("ddp", 5, false),
                       BaselineOf("diloco", 4, false)};
  std::vector<Verdict> verdicts = VerdictsOf(figures);  // 1580 s, 100 s, 80 s against 80 s
  verdicts.erase(verdicts.begin(), verdicts.begin() + 4);
  EXPECT_THAT(verdicts, ElementsAre(Verdict::kNotMet, Verdict::kMet, Verdict::kNotMet));
}

TEST(LinkBars, TakeALowerBoundOnlyWhereItSuffices) {
  LinkFigures figures = FiguresOf(0.9);
  figures.baselines = {BaselineOf("torch-ddp", 79, true), BaselineOf("torch-ddp", 81, true),
                       BaselineOf("ddp", 3, true)};
  std::vector<Verdict> verdicts = VerdictsOf(figures);
  verdicts.erase(verdicts.begin(), verdicts.begin() + 4);
  EXPECT_THAT(verdicts, ElementsAre(Verdict::kNotMeasured, Verdict::kMet, Verdict::kNotMeasured));
}

TEST(LinkBars, SayWhyABaselineWasNotMeasured) {
  LinkFigures figures = FiguresOf(0.9);
  figures.baselines = {{.name = "torch-ddp", .why_not_measured = "there is no torch"}};
  const LinkBar bar = Bars(figures).back();
  EXPECT_EQ(bar.verdict, Verdict::kNotMeasured);
  EXPECT_EQ(bar.measured, "there is no torch");
}

TEST(LinkTarget, IsReachedByTheFirstRoundAtOrBelowIt) {
  LinkRun run = RunOf(10, 8, 1);
  for (RoundRecord& record : run.status.records) record.validation_loss = 4.0 - 0.25 * record.round;
  EXPECT_EQ(FirstAtTarget(run.status, 3.5)->round, 2u);
  EXPECT_EQ(FirstAtTarget(run.status, 1.0), nullptr);
  EXPECT_EQ(LossAtEnd(run.status), 2.25);
}

TEST(LinkSeconds, LeaveOutTheValidationAtTheEnd) {
  const LinkRun run = RunOf(10, 8, 0.5);
  EXPECT_EQ(run.seconds(), 82);
  EXPECT_EQ(run.SecondsUnvalidated(), 80);
  EXPECT_EQ(SecondsOfRounds(run, 8), 80);
  EXPECT_EQ(SecondsOfRounds(run, 3), 30);
  EXPECT_EQ(SecondsOfRounds(run, 9), std::nullopt);
  EXPECT_EQ(ComputeShare(run), 0.5);
}

TEST(LinkSeconds, AreThoseOfTheSlowestWorkerAndNeverMoreThanTheClocks) {
  LinkRun run = RunOf(10, 8, 0.5);
  run.workers[1].seconds_syncing += 1;
  EXPECT_EQ(run.SecondsUnvalidated(), 81);
  run.workers[1].seconds_syncing += 100;
  EXPECT_EQ(run.SecondsUnvalidated(), 82);
}

TEST(LinkBars, OfTimesAreOpenWhereTheTargetWasNotReached) {
  LinkFigures figures = FiguresOf(0.9);
  figures.baselines = {BaselineOf("ddp", 5, false)};
  figures.rounds_to_target.reset();
  EXPECT_EQ(Bars(figures).back().verdict, Verdict::kNotMeasured);
}

TEST(LinkBars, NameTheMtuThatBytesWereCountedAt) {
  LinkFigures figures = FiguresOf(0.9);
  figures.mtu = 1500;
  EXPECT_EQ(Bars(figures)[2].name, "bytes up at the interface, MTU 1500");
  figures.loss_probes = false;
  EXPECT_EQ(Bars(figures)[2].name, "bytes up at the interface, MTU 1500, no loss probes");
}

TEST(LinkBars, StandWhereALaterRunFailed) {
  LinkFigures figures = FiguresOf(0.9);
  figures.runs.resize(2);  // the lower rate is missing
  EXPECT_THAT(VerdictsOf(figures), ElementsAre(Verdict::kMet, Verdict::kMet, Verdict::kMet));
  figures.failure = "shard-0 has gone";
  EXPECT_EQ(nlohmann::json::parse(LinkJson(figures))["failure"], "shard-0 has gone");
}

TEST(LinkJson, HasWhatTheReportSays) {
  LinkFigures figures = FiguresOf(0.9);
  figures.baselines = {BaselineOf("ddp", 5, false)};
  const nlohmann::json json = nlohmann::json::parse(LinkJson(figures));
  EXPECT_EQ(json["runs"].size(), 3u);
  EXPECT_NEAR(json["runs"][2]["workers"][0]["relative_compute_share"].get<double>(), 1, 1e-9);
  EXPECT_EQ(json["runs"][2]["seconds_to_target"], 80.0);
  EXPECT_EQ(json["baselines"][0]["rates"][1]["seconds_to_target"], 100.0);
  EXPECT_EQ(json["bars"].size(), 5u);
  EXPECT_EQ(json["bars"][0]["verdict"], "met");
  EXPECT_EQ(json["mtu"], 9000);
}

TEST(NetDev, GivesAnInterfacesBytesBothWays) {
  constexpr char kText[] =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "    lo:       0       0    0    0    0     0          0         0        0       0    0\n"
      "  data: 7871     113    0    0    0     0          0         0  3004034     105    0    0\n"
      " data1:12 1 0 0 0 0 0 0 34 1 0 0 0 0 0 0\n";
  const auto bytes = ParseNetDev(kText, "data");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->received, 7871u);
  EXPECT_EQ(bytes->sent, 3004034u);
  EXPECT_EQ(bytes->packets_received, 113u);
  EXPECT_EQ(bytes->packets_sent, 105u);
  EXPECT_EQ(ParseNetDev(kText, "data1")->sent, 34u);
  EXPECT_EQ(ParseNetDev(kText, "eth0").status().code(), absl::StatusCode::kNotFound);
}

TEST(ParseSegmentsSentAgain, FindsTheFigureUnderItsName) {
  constexpr char kText[] =
      "Ip: Forwarding DefaultTTL\nIp: 2 64\n"
      "Tcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 1127 11 0\nUdp: InDatagrams\nUdp: 0\n";
  EXPECT_EQ(ParseSegmentsSentAgain(kText).value_or(0), 11u);
  for (const char* text : {"", "Tcp: OutSegs\nTcp: 5\n", "Tcp: OutSegs RetransSegs\n",
                           "Tcp: OutSegs RetransSegs\nTcp: 5\n", "Tcp: RetransSegs\nTcp: x\n"}) {
    EXPECT_EQ(ParseSegmentsSentAgain(text).status().code(), absl::StatusCode::kNotFound) << text;
  }
}

TEST(TorchLines, AreTakenInAndOthersRefused) {
  TorchRun run;
  for (const char* line :
       {R"({"step": 1, "seconds": 9.0, "train_loss": 5.1, "sent": 70, "received": 80})",
        R"({"step": 2, "seconds": 2.0, "train_loss": 5.0, "sent": 10, "received": 20})",
        R"({"step": 3, "seconds": 4.0, "train_loss": 4.9, "sent": 30, "received": 40})",
        R"({"step": 3, "validation_loss": 4.8})",
        R"({"done": true, "reached": true, "step": 3})"}) {
    ASSERT_TRUE(TakeTorchLine(line, &run).ok()) << line;
  }
  EXPECT_EQ(run.SecondsPerStep(), 3);  // the first step is not counted
  EXPECT_EQ(run.BytesUpPerStep(), 20);
  EXPECT_EQ(run.BytesDownPerStep(), 30);
  EXPECT_EQ(run.steps, 3u);
  EXPECT_TRUE(run.reached);
  for (const char* line : {"", "[]", "hello", R"({"seconds": 1})", R"({"step": "one"})"}) {
    EXPECT_EQ(TakeTorchLine(line, &run).code(), absl::StatusCode::kDataLoss) << line;
  }
}

TEST(LinkBenchConfig, TrainsTenMillionParametersByDefaultAndAsManyStepsAsRounds) {
  const auto config = LinkBenchConfig({.rounds = 6});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.d_model, 320u);
  EXPECT_EQ(config->run.steps, 6u * 30);
  EXPECT_EQ(config->run.validate_every, 6u);
  EXPECT_EQ(config->train.final_learning_rate_share, 1);
}

TEST(LinkBenchConfig, RefusesARunThatEndsBeforeItsWarmUp) {
  const auto config = LinkBenchConfig({.rounds = 1});
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr("warmup_steps"));
}

TEST(LinkBenchConfig, GivesBaselinesTheSameModelAndTheirOwnMethod) {
  const auto config = LinkBenchConfig({.overrides = {"sync.up.k=32"}});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto ddp = WithPreset(*config, "ddp"), diloco = WithPreset(*config, "diloco");
  ASSERT_TRUE(ddp.ok() && diloco.ok());
  EXPECT_EQ(ddp->model, config->model);
  EXPECT_EQ(ddp->train, config->train);
  EXPECT_EQ(ddp->sync.inner_steps, 1u);
  EXPECT_EQ(ddp->sync.up.selection, Selection::kAll);
  EXPECT_EQ(diloco->sync.inner_steps, config->sync.inner_steps);
}

}  // namespace
}  // namespace longwave
