#include "cli/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/display.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

RunConfig Config() {
  RunConfig config;
  config.run = {.preset = "longwave", .steps = 300, .workers = 2, .shards = 1};
  config.model = {.kind = "gpt", .d_model = 128, .layers = 5, .heads = 4, .context = 128};
  config.sync.inner_steps = 30;
  return config;
}

// Two workers, 130 of 300 steps and 4 of 10 rounds done, a million parameters.
RunStatus Status() {
  RunStatus status;
  status.phase = RunPhase::kTraining;
  status.parameters = 1'000'000;
  status.seconds = 65;
  status.validation_loss = 2.337;
  for (uint32_t i = 0; i < 2; ++i) {
    MemberStatus member;
    member.member = {.worker = i, .name = absl::StrCat("worker-", i)};
    member.state = {.phase = WorkerPhase::kTraining,
                    .step = 130 + i,
                    .round = 4,
                    .train_loss = 2.4 + 0.1 * i,
                    .tokens = 65'000,
                    .bytes = {73'000, 252'000, 72'000, 250'000},
                    .seconds_computing = 93,
                    .seconds_syncing = 7};
    member.heartbeat_age_s = 0.2;
    status.members.push_back(member);
  }
  ShardStatus shard;
  shard.state = {
      .pushes_accepted = 16, .open_round = 4, .bytes_received = 146'000, .bytes_sent = 504'000};
  status.shards.push_back(shard);
  for (uint32_t round = 0; round < 4; ++round) {
    RoundRecord record;
    record.round = round;
    record.step = 30 * (round + 1);
    record.train_loss = 2.6;
    record.validation_loss = 3.0 - 0.2 * round;
    record.tokens_per_second = 2000;
    record.members = 2;
    record.bytes = {36'000ull * (round + 1), 126'000ull * (round + 1), 0, 0};
    record.seconds = 15 * (round + 1);
    status.records.push_back(record);
  }
  status.record_count = 4;
  return status;
}

std::string Joined(const std::vector<std::string>& lines) { return absl::StrJoin(lines, "\n"); }

// Of a view without paths and addresses.
std::string Live(const RunStatus& status, const TextStyle& style = TextStyle(),
                 const RunConfig& config = Config()) {
  return Joined(ViewLines({.config = &config, .status = &status}, style));
}
std::string Header(const RunConfig& config) {
  const RunStatus status = Status();
  return Joined(HeaderLines({.config = &config, .status = &status}, TextStyle()));
}

// The output of `status`.
std::string Whole(const RunStatus& status, const TextStyle& style = kPlainText,
                  const RunConfig& config = Config()) {
  return Joined(ViewLines({.config = &config, .status = &status, .is_whole = true}, style)) + "\n";
}

TEST(HeaderLines, SayOfAModelThatIsTheWorkersItsSizeAlone) {
  RunConfig config = Config();
  config.model.kind = "external";
  EXPECT_THAT(Header(config), HasSubstr("\nmodel     the workers' own, 1.0 M parameters\n"));
}

TEST(LiveView, ShowProgressLossesTrafficAndMembers) {
  const RunConfig config = Config();
  const RunStatus status = Status();
  const std::string text = Joined(ViewLines({.config = &config,
                                             .status = &status,
                                             .run_folder = "runs/x",
                                             .coordinator_address = "127.0.0.1:4000",
                                             .elapsed_s = 70},
                                            TextStyle()));
  EXPECT_THAT(text, HasSubstr("preset longwave, a sync every 30 steps"));
  EXPECT_THAT(text, HasSubstr("gpt, d 128, 5 layers, 4 heads, context 128, 1.0 M parameters"));
  EXPECT_THAT(text, HasSubstr("2 workers, 1 shard, coordinator at 127.0.0.1:4000"));
  EXPECT_THAT(text, HasSubstr(" 43 %  step 130/300  round 4/10"));
  EXPECT_THAT(text, HasSubstr("elapsed 1:10   left 1:25   2.0 k tokens/s"));
  EXPECT_THAT(text, HasSubstr("training 2.450   validation 2.337  █▆▃▁"));
  EXPECT_THAT(text, HasSubstr("worker-1  training   131      4  2.500       93 %  73.0 kB"));
  EXPECT_THAT(text, HasSubstr("shard-0     up           4        16     0         0"));
  EXPECT_THAT(text, Not(HasSubstr("mended")));
}

TEST(LiveView, ShowAFittedIntervalAndWhyItChanged) {
  RunConfig config = Config();
  config.sync.inner_steps = 0;
  config.sync.inner_steps_min = 2;
  config.sync.inner_steps_max = 100;
  RunStatus status = Status();
  EXPECT_THAT(Live(status, TextStyle(), config), HasSubstr("a sync every auto: 2 to 100 steps"));
  EXPECT_THAT(Live({}, TextStyle(), config), HasSubstr("step 0/300  round 0\n"));
  status.interval = IntervalStatus{.inner_steps = 28,
                                   .first_round = 3,
                                   .changes = 1,
                                   .reason = "a sync costs 0.3 s",
                                   .rounds = 11};
  const std::string text = Live(status, TextStyle(), config);
  EXPECT_THAT(text, HasSubstr("a sync every 28 steps (auto: 2 to 100)"));
  EXPECT_THAT(text, HasSubstr("step 130/300  round 4/11"));
  EXPECT_THAT(text, HasSubstr("interval  a sync costs 0.3 s (since round 3)"));
}

TEST(LiveView, SayWhatWasMendedAndWhatTheTroubleIs) {
  const RunConfig config = Config();
  RunStatus status = Status();
  status.repairs = 2;
  status.trouble = "waiting for shard-0, which was last heard 7 s ago";
  status.shards[0].silent = true;
  status.members[0].state.phase = WorkerPhase::kLost;
  status.members[1].state.phase = WorkerPhase::kJoining;
  const std::vector<std::string> lines =
      ViewLines({.config = &config, .status = &status, .restarts = 3}, TextStyle());
  EXPECT_EQ(lines.back(), status.trouble);
  const std::string text = Joined(lines);
  EXPECT_THAT(text, HasSubstr("mended  processes started again 3   replicas repaired 2"));
  EXPECT_THAT(text, HasSubstr("shard-0  silent"));
  EXPECT_THAT(text, HasSubstr("worker-0     lost"));
  EXPECT_THAT(text, HasSubstr("worker-1  joining"));
  status.members[1].state.phase = WorkerPhase::kExpelled;
  EXPECT_THAT(Whole(status), HasSubstr("worker-1  expelled"));
}

TEST(TroubleLines, SayNothingOfWhoIsAwaitedBeforeTheRunBegins) {
  RunStatus status = Status();
  status.phase = RunPhase::kTraining;
  status.trouble = "1 of 2 workers (worker-0) and 1 of 1 shards are registered";
  EXPECT_THAT(TroubleLines(status), ElementsAre(status.trouble));
  status.phase = RunPhase::kWaiting;  // the views have a line of their own for that
  EXPECT_TRUE(TroubleLines(status).empty());
}

TEST(TroubleLines, NameTheShardThatTakesNoPushesAndWhoseContributionWasOfNoUse) {
  RunStatus status = Status();
  EXPECT_TRUE(TroubleLines(status).empty());
  status.shards[0].trouble = "the disk is full";
  EXPECT_THAT(TroubleLines(status), ElementsAre("shard-0 takes no pushes: the disk is full"));
  EXPECT_THAT(Whole(status), HasSubstr("shard-0  trouble"));
  status.shards[0].trouble.clear();
  status.shards[0].complaint = "rejected push of worker 3";
  EXPECT_THAT(TroubleLines(status), ElementsAre("shard-0: rejected push of worker 3"));
  EXPECT_THAT(Whole(status), HasSubstr("shard-0     up"));
}

TEST(LiveView, ShowWhatATerminalWouldObey) {
  RunStatus status = Status();
  status.shards[0].trouble =
      "full\n\x1b[2J\xc2\x9b"
      "31mforged\xff";
  status.trouble = "shard 0: " + status.shards[0].trouble;
  status.inequality = "\x1b]0;title\x07";
  status.members[0].member.name = "w\x1b[1A";
  for (const RunPhase phase : {RunPhase::kTraining, RunPhase::kFailed}) {
    status.phase = phase;
    if (phase == RunPhase::kFailed) status.failure = "worker-1: \x1b[2J\r";
    const std::string text = Live(status, TextStyle{.width = 200});
    EXPECT_EQ(FindControlCharacter(text, "\n"), std::string::npos) << text;
    EXPECT_EQ(FindInvalidUtf8(text), std::string::npos) << text;
  }
}

TEST(LiveView, AreNeverWiderThanTheTerminal) {
  const RunConfig config = Config();
  RunStatus status = Status();
  status.failure = std::string(500, 'x');
  for (size_t width : {1u, 10u, 20u, 39u, 40u, 80u, 200u}) {
    const TextStyle style{.width = width};
    for (const std::string& line : ViewLines(
             {.config = &config, .status = &status, .run_folder = std::string(300, 'r')}, style)) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

// A column is there whole or not at all, and the compression at any width.
TEST(LiveView, LeaveColumnsOutWhereTheTerminalIsNarrow) {
  RunStatus status = Status();
  status.members[0].member.name = "a-machine.of-somebody.example.org";
  EXPECT_THAT(Live(status, TextStyle{.width = 200}), HasSubstr("rejected"));
  const std::string usual = Live(status);
  for (const char* there : {"heard\n", "73.0 kB", "0.2 s", "accepted", "kept", "DDP (fp32) would"})
    EXPECT_THAT(usual, HasSubstr(there));
  EXPECT_THAT(usual, Not(HasSubstr("step round")));
  const std::string narrow = Live(status, TextStyle{.width = 40});
  EXPECT_THAT(narrow, HasSubstr("bytes a worker   pushed    pulled\n"
                                "this run        73.0 kB  252.0 kB\n"
                                "DiLoCo (fp32)     219 x      63 x\n"
                                "DDP (fp32)       7123 x    2063 x\n"));
  EXPECT_THAT(narrow, HasSubstr("shard    state  open round  accepted\n"));
  // Below 40 columns the tables have what tells processes apart, and the progress has no bar.
  status.members[0].member.name = "w";
  const std::string tiny = Live(status, TextStyle{.width = 20});
  EXPECT_THAT(tiny, HasSubstr("\nshard    state\n"));
  EXPECT_THAT(tiny, HasSubstr(" %  step "));
  EXPECT_THAT(tiny, Not(HasSubstr("░")));
}

TEST(LiveView, HaveColoursForTroubleStragglersAndWhatIsDone) {
  RunStatus status = Status();
  status.members.resize(5, status.members[0]);
  const WorkerPhase phases[] = {WorkerPhase::kTraining, WorkerPhase::kSyncing, WorkerPhase::kLost,
                                WorkerPhase::kDone, WorkerPhase::kTraining};
  for (uint32_t i = 0; i < 5; ++i) {
    status.members[i].member.name = absl::StrCat("worker-", i);
    status.members[i].state.phase = phases[i];
  }
  status.members[4].state.round = 2;
  status.shards[0].silent = true;
  status.trouble = "shard 0 is silent";
  TextStyle style{.width = 200};
  EXPECT_THAT(Live(status, style), Not(HasSubstr("\033")));
  style.color = true;
  const std::string text = Live(status, style);
  for (const char* line :
       {"\nworker-0  training", "\nworker-1   syncing", "\n\033[31mworker-2      lost",
        "\n\033[32mworker-3      done", "\n\033[33mworker-4  training", "\n\033[31mshard-0  silent",
        "\n\033[31mshard 0 is silent\033[0m"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(Whole(status, style), HasSubstr("\n\033[31mworker-2      lost"));
}

TEST(HeaderLines, WarnOfFewRounds) {
  RunConfig config = Config();
  EXPECT_THAT(Header(config), Not(HasSubstr("few")));
  config.run.steps = 60;
  EXPECT_THAT(Header(config), HasSubstr("\nrounds    2 are few (run.steps 60 over "
                                        "sync.inner_steps 30): loss and bytes say"));
}

TEST(LiveView, GiveUpShardsThenWorkersButNotTheNote) {
  const RunConfig config = Config();
  RunStatus status = Status();
  status.members.resize(4, status.members[0]);
  status.shards.resize(4, status.shards[0]);
  const ViewInput input{.config = &config, .status = &status, .note = "a note"};
  const size_t whole = ViewLines(input, TextStyle()).size();
  for (size_t height = 9; height <= whole; ++height) {
    const std::vector<std::string> lines = ViewLines(input, TextStyle{.height = height});
    EXPECT_LE(lines.size(), height);
    EXPECT_EQ(lines.back(), "a note");
    EXPECT_THAT(lines, Contains(HasSubstr("step 130/300")));
    EXPECT_EQ(Joined(lines).find("shard-0") != std::string::npos, height == whole) << height;
  }
  EXPECT_THAT(ViewLines(input, TextStyle{.height = 23}), Contains(HasSubstr("worker-0")));
}

TEST(LiveView, NeedNoUtf8) {
  const std::string text = Live(Status(), TextStyle{.utf8 = false});
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
      << text;
}

TEST(LiveView, SayWhoIsAwaited) {
  RunStatus status;
  status.members.resize(1);
  EXPECT_THAT(Live(status), EndsWith("\nwaiting: 1 of 2 workers and 0 of 1 shards are here"));
}

TEST(LiveView, EndWithTheFailure) {
  RunStatus status = Status();
  status.phase = RunPhase::kFailed;
  status.failure = "worker-1: the loss of step 3 is not finite";
  EXPECT_THAT(Live(status), EndsWith("\nfailed: " + status.failure));
}

TEST(LiveView, CountTheWorkersThatHaveNoRoom) {
  RunStatus status = Status();
  status.members.resize(40, status.members[0]);
  EXPECT_THAT(Live(status), HasSubstr("\nand 24 more workers\n"));
}

TEST(LiveView, NameTheReplicaThatDiffersWhereThatIsWrong) {
  RunConfig config = Config();
  RunStatus status = Status();
  status.inequality = "round 3: worker-1 differs in segment 0";
  EXPECT_THAT(Live(status), HasSubstr("replicas differ: round 3"));
  config.sync.update = UpdateRule::kLocal;
  EXPECT_THAT(Live(status, TextStyle(), config), Not(HasSubstr("replicas differ")));
}

TEST(WorkerTable, ShowsRanksWhereAWorkerHasSeveral) {
  RunStatus status = Status();
  EXPECT_THAT(Whole(status), Not(HasSubstr("ranks")));
  status.members[0].state.ranks = 8;
  status.members[1].state.ranks = 0;  // of a worker that does not know the field
  EXPECT_THAT(Whole(status), HasSubstr("heard  ranks\n"));
  EXPECT_THAT(Whole(status), HasSubstr("0.2 s      8\n"));
  EXPECT_THAT(Whole(status), HasSubstr("0.2 s      1\n"));
  // A narrow terminal shows them, too.
  EXPECT_THAT(Whole(status, TextStyle{.width = 40}), HasSubstr("ranks\n"));
}

TEST(WorkerTable, CountsRoundsThatAreDone) {
  RunStatus status = Status();
  status.members.resize(1);
  status.members[0].state.phase = WorkerPhase::kSyncing;
  EXPECT_THAT(Whole(status), HasSubstr("syncing   130      4  "));
  status.members[0].state.phase = WorkerPhase::kDone;
  EXPECT_THAT(Whole(status), HasSubstr("done   130      5  "));
}

TEST(WorkerTable, IsInTheOrderOfTheirNumbers) {
  RunStatus status;
  for (const char* name : {"worker-10", "worker-9", "worker-2"}) {
    status.members.emplace_back().member.name = name;
  }
  EXPECT_THAT(Whole(status), testing::ContainsRegex("\nworker-2 .*\nworker-9 .*\nworker-10 "));
}

TEST(SecondsLeft, IsUnknownBeforeTheFirstStep) {
  EXPECT_TRUE(std::isnan(SecondsLeft(Config(), RunStatus())));
  EXPECT_DOUBLE_EQ(SecondsLeft(Config(), Status()), 65.0 * 170 / 130);
}

TEST(RoundLine, HasTheRoundsFiguresPerWorker) {
  EXPECT_EQ(RoundLine(Config(), Status().records[1], 2.8),
            "round  2/10  step  60/300  loss 2.600  validation 2.800     2.0 k tokens/s  pushed  "
            "36.0 kB  pulled 126.0 kB a worker  0:30");
}

TEST(ShowsRound, MakesAboutAHundredLinesOfALongRun) {
  int shown = 0;
  for (uint32_t round = 1; round <= 1234; ++round) shown += ShowsRound(round, 1234);
  EXPECT_GE(shown, 90);
  EXPECT_LE(shown, 102);
  EXPECT_TRUE(ShowsRound(1234, 1234));
  for (uint32_t round = 1; round <= 100; ++round) EXPECT_TRUE(ShowsRound(round, 100));
}

TEST(WholeView, ComparesTrafficPerWorkerWithDdpAndDiloco) {
  // 4 rounds and 130 steps of 4 MB, against 73 kB up and 252 kB down.
  EXPECT_THAT(Whole(Status()),
              HasSubstr("bytes a worker              pushed            pulled\n"
                        "this run                   73.0 kB          252.0 kB\n"
                        "DiLoCo (fp32) would have   16.0 MB   219 x   16.0 MB    63 x\n"
                        "DDP (fp32) would have     520.0 MB  7123 x  520.0 MB  2063 x\n"));
}

TEST(WholeView, SaysWhatALiveViewHasNoRoomFor) {
  RunStatus status = Status();
  status.secured = true;
  status.refusals = {{"token", 3}, {"expired", 1}};
  status.trouble = "waiting for shard-0";
  status.members.resize(40, status.members[0]);
  const std::string text = Whole(status);
  EXPECT_THAT(text, HasSubstr("progress  43 %  step 130/300  round 4/10\n"));
  EXPECT_THAT(text, HasSubstr("\nstate     training, epoch 0\n"
                              "replicas  equal, state 0000000000000000\n"));
  EXPECT_THAT(text, HasSubstr("\ntrouble   waiting for shard-0\n"
                              "security  on, refused 3 token, 1 expired\n"));
  EXPECT_THAT(text, Not(HasSubstr("more workers")));
  EXPECT_THAT(text, Not(HasSubstr("█")));
}

TEST(WholeView, KeepsAPathThatIsWiderThanTheTerminal) {
  RunStatus status = Status();
  status.model_file = "/" + std::string(100, 'p') + "/model.safetensors";
  EXPECT_THAT(Whole(status, TextStyle{.width = 40}), HasSubstr(status.model_file + "\n"));
}

TEST(WholeView, BeforeTheFirstRoundHasNoReplicas) {
  RunStatus status;
  status.trouble = "1 of 2 workers is registered";
  EXPECT_THAT(Whole(status), HasSubstr("state     waiting, epoch 0: 1 of 2 workers is registered\n"
                                       "replicas  -, state -\n"));
}

TEST(WholeView, HasEachWarningExceptAtTheEndOfUpWhichPrintsThemLast) {
  const RunConfig config = Config();
  RunStatus status = Status();
  status.warnings = {{"worker-1", "no seed"}, {"", "the same data"}};
  EXPECT_THAT(Whole(status), HasSubstr("warning   worker-1: no seed\nwarning   the same data\n"));
  const Summary end = Summarize(config, status, RunOutcome::kFinished, "", 70);
  const ViewInput input{.config = &config, .status = &status, .is_whole = true, .end = &end};
  EXPECT_THAT(Joined(ViewLines(input, kPlainText)), Not(HasSubstr("warning")));
  EXPECT_THAT(end.warnings, ElementsAre("worker-1: no seed", "the same data"));
}

TEST(LiveView, HasTheLatestWarningsAndHowManyMore) {
  const RunConfig config = Config();
  RunStatus status = Status();
  for (int i = 0; i < 5; ++i) status.warnings.push_back({"worker-1", absl::StrCat("no ", i)});
  const ViewInput input{.config = &config, .status = &status};
  EXPECT_THAT(Joined(ViewLines(input, kPlainText)),
              HasSubstr("\n\nand 3 more warnings, which longwave status shows\n"
                        "warning: worker-1: no 3\nwarning: worker-1: no 4"));
}

TEST(LiveView, ALossThatNobodyGaveIsADash) {
  const RunConfig config = Config();
  RunStatus status = Status();
  for (MemberStatus& member : status.members) member.state.train_loss.reset();
  const std::string text = Joined(ViewLines({.config = &config, .status = &status}, kPlainText));
  EXPECT_THAT(text, HasSubstr("loss    training -   validation 2.337"));
  EXPECT_THAT(text, Not(HasSubstr("0.000")));
  status.records.back().train_loss.reset();
  EXPECT_THAT(RoundLine(config, status.records.back(), std::nullopt), HasSubstr("  loss -  "));
}

TEST(WholeView, AShardWithoutSegmentsHasNoOpenRound) {
  RunStatus status = Status();
  status.shards[0].state.open_round = kRoundNever;
  EXPECT_THAT(Whole(status), Not(HasSubstr(absl::StrCat(kRoundNever))));
}

TEST(WholeView, SaysInWhatReplicasAreEqual) {
  RunStatus status = Status();
  EXPECT_THAT(Whole(status), HasSubstr("replicas  equal, state"));
  for (MemberStatus& member : status.members) member.alike = {{"frozen parameters", 5, ""}};
  EXPECT_THAT(Whole(status), HasSubstr("replicas  equal, frozen parameters too, state"));
  status.members[1].alike.push_back({"tokenizer", 6, ""});
  EXPECT_THAT(Whole(status),
              HasSubstr("replicas  equal, frozen parameters and tokenizer too, state"));
}

TEST(ClosingLine, SaysHowItEnded) {
  RunStatus status = Status();
  status.phase = RunPhase::kFinished;
  EXPECT_EQ(ClosingLine(Summarize(Config(), status, RunOutcome::kFinished, "", 70), "runs/x"),
            "longwave up: finished: 130 steps, 4 rounds, validation loss 2.337, replicas equal, "
            "runs/x");
  EXPECT_EQ(ClosingLine(Summarize(Config(), status, RunOutcome::kFailed, "worker-0: no.", 70), "r"),
            "longwave up: failed: worker-0: no.");
  EXPECT_EQ(ClosingLine(Summarize(Config(), status, RunOutcome::kStopped, "", 70), "runs/x"),
            "longwave up: stopped: 130 steps, 4 rounds, runs/x");
  EXPECT_EQ(
      ClosingLine(Summarize(Config(), status, RunOutcome::kParked, "", 70), "runs/x"),
      "longwave up: parked: 130 steps, 4 rounds; it goes on with: longwave up --resume runs/x");
}

TEST(WholeView, OfAnEndHasItsOutcomeAndTotals) {
  RunConfig config = Config();
  RunStatus status = Status();
  Summary end = Summarize(config, status, RunOutcome::kFinished, "", 70);
  end.expelled = {"worker-1"};
  const ViewInput input{
      .config = &config, .status = &status, .is_whole = true, .end = &end, .restarts = 4};
  std::string text = Joined(ViewLines(input, kPlainText));
  EXPECT_THAT(text, HasSubstr("state     finished, epoch 0\n"));
  EXPECT_THAT(text, HasSubstr("pushed 146.0 kB, pulled 504.0 kB, of them payload 144.0 kB and"));
  EXPECT_THAT(text, HasSubstr("mended  processes started again 4   replicas repaired 0\n"));
  EXPECT_THAT(text, HasSubstr("expelled  worker-1\n"));
  config.sync.update = UpdateRule::kLocal;
  status.replicas_equal = false;
  end = Summarize(config, status, RunOutcome::kFinished, "", 70);
  text = Joined(ViewLines(input, kPlainText));
  EXPECT_THAT(text, HasSubstr("replicas  differ, as sync.update: local has it, state "));
  EXPECT_THAT(ClosingLine(end, "runs/x"), HasSubstr("replicas differ, as sync.update: local"));
}

}  // namespace
}  // namespace longwave
