// liblongwave.so as a program sees it: tests/abi/linear_model.c beside C++ members of the same
// arithmetic, and calls that must fail.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longwave.h"
#include "tests/abi/test_run.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr size_t kFeatures = 64;
constexpr uint64_t kRows = 8;

double Sample(uint64_t worker, uint64_t step, uint64_t row, uint64_t feature) {
  return static_cast<double>((worker * 89 + step * 31 + row * 57 + feature * feature * 7 + 3) %
                             101) /
             101 -
         0.5;
}

// linear_model.c's worker around the C++ classes; returns the line that it prints.
absl::StatusOr<std::string> FitInCpp(const RunConfig& config, const std::string& name) {
  std::vector<float> theta(kFeatures);
  StopSignal stop;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemberPlace> place,
      MemberPlace::Open({.config = config, .name = name, .manifest = {{{"weights", {kFeatures}}}}},
                        &stop));
  LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, place->Join(theta));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsFor(BackendKind::kCpu));
  LONGWAVE_ASSIGN_OR_RETURN(const MemberParts parts,
                            place->Begin({.theta = theta.data(), .ops = ops, .initial_weights = [] {
                                            return std::vector<float>(kFeatures);
                                          }}));
  TrainingMember member(parts);
  absl::StatusOr<bool> trains = member.Begin();
  uint64_t last = 0;
  while (trains.ok() && *trains) {
    last = member.step();
    std::vector<float> gradient(kFeatures);
    double loss = 0;
    for (uint64_t row = 0; row < kRows; ++row) {
      double error = 0;
      for (size_t i = 0; i < kFeatures; ++i)
        error += Sample(worker, last, row, i) * (theta[i] - (i % 3 == 0 ? 1 : -0.5));
      loss += error * error / kRows;
      for (size_t i = 0; i < kFeatures; ++i)
        gradient[i] += static_cast<float>(error * Sample(worker, last, row, i) / kRows);
    }
    for (size_t i = 0; i < kFeatures; ++i)
      theta[i] -= static_cast<float>(member.learning_rate()) * gradient[i];
    trains = member.StepDone(kRows, loss);
  }
  LONGWAVE_RETURN_IF_ERROR(place->End(trains.status()));
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : std::as_bytes(std::span(theta)))
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return absl::StrFormat("theta %016x step %d\n", hash, last);
}

std::string CProgram(const TestRun& run, const std::string& arguments) {
  return absl::StrCat("timeout 240 ", LINEAR_MODEL, " ", run.address(), " ", arguments);
}

Ran FitInC(const TestRun& run, const std::string& arguments) {
  return RunCommand(CProgram(run, arguments));
}

const Overrides kTwoWorkers = {"run.workers=2", "run.steps=200"};

struct Fitted {
  std::string one, other;
  uint64_t state_hash = 0;
  bool operator==(const Fitted&) const = default;
};

template <typename One, typename Other>
Fitted FitBoth(One one, Other other) {
  TestRun run(kTwoWorkers);
  auto others = std::async([&] { return other(run, "other"); });
  Fitted fitted;
  fitted.one = one(run, "one");
  fitted.other = others.get();
  const RunStatus status = run.status();
  EXPECT_EQ(status.phase, RunPhase::kFinished);
  EXPECT_TRUE(status.replicas_equal) << status.inequality;
  fitted.state_hash = status.state_hash;
  return fitted;
}

TEST(LongwaveH, AProgramInCFitsToTheBitWhatCppDoes) {
  const auto in_cpp = [](const TestRun& run, const std::string& name) {
    const auto fitted = FitInCpp(run.config(), name);
    return fitted.ok() ? *fitted : fitted.status().ToString();
  };
  const auto in_c = [](const TestRun& run, const std::string& name) {
    const Ran ran = FitInC(run, name);
    return ran.status == 0 ? ran.output : absl::StrCat("exit ", ran.status, ": ", ran.output);
  };
  const Fitted expected = FitBoth(in_cpp, in_cpp);
  EXPECT_EQ(expected.one, expected.other);
  EXPECT_THAT(expected.one, HasSubstr(" step 199\n"));
  EXPECT_EQ(FitBoth(in_c, in_c), expected);
  EXPECT_EQ(FitBoth(in_c, in_cpp), expected);
}

// A member of a run of one worker, of one tensor, in this process.
class OneMember : public testing::Test {
 protected:
  ~OneMember() override { lw_close(member_); }

  int Join(const char* state_dir = nullptr) {
    const int64_t shape[] = {2, 32};
    const lw_tensor tensor{.name = "weights", .shape = shape, .dimensions = 2};
    const std::string address = run_.address();
    const lw_alike alike{.name = "tokenizer", .hash = 77, .summary = "256 entries"};
    const lw_options options{.size = sizeof options,
                             .coordinator = address.c_str(),
                             .name = "one",
                             .state_dir = state_dir,
                             .callbacks = &callbacks_,
                             .alike = &alike,
                             .alike_count = 1};
    return lw_join(&options, &tensor, 1, &member_);
  }
  int Begin() {
    const lw_arrays arrays{.size = sizeof arrays, .theta = theta_, .device = LW_CPU};
    return lw_begin(member_, &arrays);
  }
  lw_figures Stats() {
    lw_figures figures{.size = sizeof figures};
    EXPECT_EQ(lw_stats(member_, &figures), LW_OK) << lw_error();
    return figures;
  }

  TestRun run_{{"run.workers=1", "run.steps=25"}};
  lw_callbacks callbacks_{.size = sizeof callbacks_};
  lw_member* member_ = nullptr;
  float theta_[kFeatures] = {};
};

TEST_F(OneMember, HearsBeforehandWhichStepsSync) {
  ASSERT_EQ(Join(), LW_OK) << lw_error();
  lw_run run{.size = sizeof run};
  ASSERT_EQ(lw_describe(member_, &run), LW_OK);
  EXPECT_EQ(run.parameters, kFeatures);
  EXPECT_EQ(run.rounds, 3u);
  EXPECT_EQ(run.inner_steps, 10u);
  EXPECT_EQ(run.sends_gradient, 0);
  EXPECT_EQ(lw_offset(member_, 0), 0);
  EXPECT_EQ(lw_offset(member_, 1), LW_INVALID);
  EXPECT_THAT(lw_configuration(member_), HasSubstr("kind: external"));
  int events = Begin();
  std::vector<int> seen = {events};
  while (events >= 0 && (events & LW_OVER) == 0) {
    theta_[1] += 1;
    events = lw_step(member_, /*loss=*/1, /*tokens=*/0);
    seen.push_back(events);
  }
  std::vector<int> expected(26);
  for (const size_t before : {9, 19, 24}) expected[before] |= LW_SYNCS;
  for (const size_t merged : {10, 20}) expected[merged] |= LW_MOVED;
  expected[25] = LW_MOVED | LW_OVER;
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(Stats().step, 25u);
  EXPECT_EQ(Stats().members, 1u);
  EXPECT_EQ(Stats().writes_weights, 1);
  EXPECT_EQ(lw_finish(member_), LW_OK) << lw_error();
}

TEST_F(OneMember, HearsOfARunThatWasFinishedBeforeAsOver) {
  ASSERT_EQ(Join(), LW_OK) << lw_error();
  int events = Begin();
  while (events >= 0 && (events & LW_OVER) == 0) events = lw_step(member_, /*loss=*/1, 0);
  ASSERT_EQ(lw_finish(member_), LW_OK) << lw_error();
  lw_close(std::exchange(member_, nullptr));

  ASSERT_EQ(Join(), LW_OK) << lw_error();
  theta_[1] = 7;
  EXPECT_EQ(Begin(), LW_OVER) << lw_error();
  EXPECT_EQ(theta_[1], 7);
  EXPECT_EQ(lw_step(member_, 1, 0), LW_INVALID);
  EXPECT_EQ(Stats().step, 25u);
  EXPECT_EQ(Stats().round, 2u);
  EXPECT_EQ(lw_finish(member_), LW_OK) << lw_error();
  EXPECT_EQ(Stats().step, 25u);
}

TEST_F(OneMember, TellsTheRunItsWarningsAndNoLossWhereItHasNone) {
  ASSERT_EQ(Join(), LW_OK) << lw_error();
  EXPECT_EQ(lw_warn(member_, nullptr), LW_INVALID);
  EXPECT_EQ(lw_warn(member_, "no seed"), LW_OK) << lw_error();  // not registered yet
  int events = Begin();
  // From another thread as well, for a loop that never comes to its next step.
  std::thread([this] { EXPECT_EQ(lw_warn(member_, "no step"), LW_OK); }).join();
  RunStatus status = run_.status();
  while (status.warnings.size() < 2) status = run_.status();
  EXPECT_EQ(SentenceOf(status.warnings[0]), "one: no seed");
  EXPECT_EQ(SentenceOf(status.warnings[1]), "one: no step");
  const std::vector<Alike> alike = {{"tokenizer", 77, "256 entries"}};
  EXPECT_EQ(status.members[0].alike, alike);
  while (events >= 0 && (events & LW_OVER) == 0) events = lw_step(member_, LW_NO_LOSS, 0);
  EXPECT_EQ(lw_warn(member_, "the last words"), LW_OK);
  ASSERT_EQ(lw_finish(member_), LW_OK) << lw_error();
  lw_close(std::exchange(member_, nullptr));
  status = run_.status();
  EXPECT_EQ(status.members[0].state.train_loss, std::nullopt);
  ASSERT_EQ(status.warnings.size(), 3u);
  EXPECT_EQ(status.warnings[2].sentence, "the last words");
}

TEST_F(OneMember, SaysWhatWasWrong) {
  lw_member* none = nullptr;
  lw_options options{.size = sizeof options, .coordinator = "nonsense", .name = "one"};
  EXPECT_EQ(lw_join(&options, nullptr, 0, &none), LW_INVALID);
  EXPECT_THAT(lw_error(), HasSubstr("wanted host:port of the coordinator"));
  std::thread([] { EXPECT_STREQ(lw_error(), ""); }).join();
  EXPECT_EQ(lw_join(nullptr, nullptr, 0, &none), LW_INVALID);
  options = {.size = sizeof options, .coordinator = "127.0.0.1:1", .name = "one", .token = "x"};
  EXPECT_EQ(lw_join(&options, nullptr, 0, &none), LW_INVALID);
  EXPECT_THAT(lw_error(), HasSubstr("state_dir: got none beside a token"));
  struct {
    lw_options options;
    size_t of_a_later_version;
  } later{{.size = sizeof later, .coordinator = "127.0.0.1:1", .name = "one"}, 7};
  EXPECT_EQ(lw_join(&later.options, nullptr, 0, &none), LW_INVALID);
  EXPECT_THAT(lw_error(), HasSubstr("newer than its liblongwave.so"));
  EXPECT_EQ(none, nullptr);

  EXPECT_EQ(lw_step(nullptr, 0, 0), LW_INVALID);
  ASSERT_EQ(Join(), LW_OK) << lw_error();
  lw_run not_set{.size = size_t{1} << 40};
  EXPECT_EQ(lw_describe(member_, &not_set), LW_INVALID);
  EXPECT_STREQ(lw_error(), "lw_run: got size 1099511627776, wanted sizeof of it");
  EXPECT_EQ(lw_step(member_, 0, 0), LW_INVALID);
  EXPECT_THAT(lw_error(), HasSubstr("out of turn, wanted after lw_begin"));
  EXPECT_EQ(lw_finish(member_), LW_INVALID);
  ASSERT_GE(Begin(), 0) << lw_error();
  EXPECT_EQ(Begin(), LW_INVALID);
  EXPECT_GE(lw_step(member_, 0.5, 1), 0) << lw_error();
  EXPECT_EQ(lw_step(member_, 0.0 / 0.0, 1), LW_DATA);
  EXPECT_THAT(lw_error(), HasSubstr("the loss is nan at step 1"));
  EXPECT_THAT(lw_error(), HasSubstr("a lower learning rate or a longer warm-up of the loop"));
  EXPECT_EQ(lw_step(member_, 0.5, 1), LW_INVALID);
  EXPECT_EQ(lw_finish(member_), LW_DATA);
  EXPECT_THAT(run_.status().failure, HasSubstr("the loss is nan"));
}

TEST(LongwaveH, ThinMatricesAreWarnedOfWithThePresetThatPadsNothing) {
  for (const int64_t columns : {2, 64}) {
    const TestRun run({"run.workers=1", "run.steps=10", "run.preset=longwave"});
    const std::string address = run.address();
    const int64_t shape[] = {4096, columns};
    const lw_tensor tensor{.name = "thin", .shape = shape, .dimensions = 2};
    const lw_options options{.size = sizeof options, .coordinator = address.c_str(), .name = "one"};
    lw_member* member = nullptr;
    ASSERT_EQ(lw_join(&options, &tensor, 1, &member), LW_OK) << lw_error();
    std::vector<float> theta(static_cast<size_t>(4096 * columns));
    const lw_arrays arrays{.size = sizeof arrays, .theta = theta.data(), .device = LW_CPU};
    int events = lw_begin(member, &arrays);
    while (events >= 0 && (events & LW_OVER) == 0) events = lw_step(member, LW_NO_LOSS, 0);
    EXPECT_EQ(lw_finish(member), LW_OK) << lw_error();
    lw_close(member);
    const std::vector<Warning> warnings = run.status().warnings;
    ASSERT_EQ(warnings.size(), columns == 2 ? 1u : 0u);
    if (columns != 2) continue;
    EXPECT_THAT(warnings[0].sentence, HasSubstr("8.2 k parameters are padded to 131.1 k"));
    EXPECT_THAT(warnings[0].sentence, HasSubstr("the preset muloco_int4 pads nothing"));
  }
}

TEST_F(OneMember, AStepOfMoreTokensThanTheConfigurationHasWeighsAsTheMost) {
  ASSERT_EQ(Join(), LW_OK) << lw_error();
  lw_run run{.size = sizeof run};
  ASSERT_EQ(lw_describe(member_, &run), LW_OK);
  int events = Begin();
  while (events >= 0 && (events & LW_OVER) == 0) events = lw_step(member_, 1, 1'000'000);
  EXPECT_EQ(events, LW_MOVED | LW_OVER) << lw_error();
  EXPECT_EQ(Stats().tokens, 25 * run.tokens_max);
  ASSERT_EQ(lw_finish(member_), LW_OK) << lw_error();
  const RunStatus status = run_.status();
  ASSERT_EQ(status.warnings.size(), 1u);
  EXPECT_THAT(status.warnings[0].sentence,
              HasSubstr(absl::StrCat("tokens: got 1000000 for a step, which counts as ",
                                     run.tokens_max, ", the most")));
}

TEST_F(OneMember, AForkedChildTouchesNothing) {
  ASSERT_EQ(Join(), LW_OK) << lw_error();
  ASSERT_GE(Begin(), 0) << lw_error();
  const pid_t child = fork();
  if (child == 0) {
    lw_figures figures{.size = sizeof figures};
    const bool refused = lw_step(member_, 0, 0) == LW_FORKED &&
                         lw_stats(member_, &figures) == LW_FORKED &&
                         std::strstr(lw_error(), "forked") != nullptr;
    lw_stop(member_);
    lw_close(member_);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int i = 0; i < 25; ++i) ASSERT_GE(lw_step(member_, 0, 0), 0) << lw_error();
  EXPECT_EQ(lw_finish(member_), LW_OK) << lw_error();
}

TEST_F(OneMember, AnInterruptEndsACallThatWaits) {
  TestRun lonely(kTwoWorkers);  // no other worker comes
  const std::string address = lonely.address();
  int asked = 0;
  callbacks_ = {.size = sizeof callbacks_, .context = &asked, .interrupted = [](void* context) {
                  return ++*static_cast<int*>(context) == 3 ? 1 : 0;
                }};
  const int64_t shape[] = {kFeatures};
  const lw_tensor tensor{.name = "weights", .shape = shape, .dimensions = 1};
  const lw_options options{.size = sizeof options,
                           .coordinator = address.c_str(),
                           .name = "one",
                           .callbacks = &callbacks_};
  ASSERT_EQ(lw_join(&options, &tensor, 1, &member_), LW_OK) << lw_error();
  EXPECT_EQ(Begin(), LW_STOPPED);
  EXPECT_EQ(lw_finish(member_), LW_OK) << lw_error();
}

TEST(LongwaveH, AProgramMayExitWithItsMemberOpen) {
  TestRun run({"run.workers=1", "run.steps=25"});
  const pid_t child = fork();
  if (child == 0) {
    execl(LEAVES_OPEN, LEAVES_OPEN, run.address().c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LongwaveH, ShowsNothingButItsFunctions) {
  const Ran symbols = RunCommand(absl::StrCat("nm -D --defined-only ", LIBLONGWAVE,
                                              " | awk '$2 != \"A\" {print $3}' | grep -v '^lw_'"));
  EXPECT_EQ(symbols.output, "");
  const Ran needed =
      RunCommand(absl::StrCat("ldd ", LIBLONGWAVE, " | grep -E 'libtorch|libc10|libpython'"));
  EXPECT_EQ(needed.output, "");
}

}  // namespace
}  // namespace longwave
