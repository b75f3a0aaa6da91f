#include "worker/member/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Far above the duration of any step here; a wait that reaches it has failed.
constexpr std::chrono::seconds kDeadline(60);

std::vector<uint32_t> RoundsOf(const WorkerHeartbeat& heartbeat) {
  std::vector<uint32_t> rounds;
  for (const RoundReport& report : heartbeat.rounds) rounds.push_back(report.round);
  return rounds;
}

// The parts of a heartbeat that the tests check, in a line.
std::string Describe(const WorkerHeartbeat& heartbeat) {
  const auto& rounds = heartbeat.rounds;
  std::string line =
      absl::StrCat("epoch ", heartbeat.known_epoch, ", step ", heartbeat.state.step, ", ready ",
                   heartbeat.ready_round.value_or(kRoundNever), ", ", rounds.size(), " rounds");
  if (!rounds.empty())
    absl::StrAppend(&line, " (", rounds.front().round, " to ", rounds.back().round, ")");
  if (!heartbeat.failure.empty()) absl::StrAppend(&line, ", failure ", heartbeat.failure);
  if (heartbeat.final.has_value()) absl::StrAppend(&line, ", final");
  if (heartbeat.leaving) absl::StrAppend(&line, ", leaving");
  return line;
}

// A coordinator of the test's making: `answer` decides, every heartbeat is kept.
class FakeCoordinator final : public CoordinatorClient {
 public:
  using Answer = std::function<absl::StatusOr<WorkerHeartbeatReply>(const WorkerHeartbeat&)>;
  using CoordinatorClient::Heartbeat;
  using CoordinatorClient::Register;

  absl::StatusOr<uint32_t> Register(const RegisterWorker& request) override {
    std::lock_guard lock(mutex_);
    registrations.push_back(request);
    return on_register ? on_register() : 3;
  }
  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) override {
    std::lock_guard lock(mutex_);
    heartbeats_.push_back(heartbeat);
    changed_.notify_all();
    return answer_(heartbeat);
  }
  void SetAnswer(Answer answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // The first heartbeat that is as wanted, past or future. Fails with an empty one and the last
  // heartbeat's text if none comes.
  WorkerHeartbeat AwaitHeartbeat(const std::function<bool(const WorkerHeartbeat&)>& wanted) {
    std::unique_lock lock(mutex_);
    const auto give_up = std::chrono::steady_clock::now() + kDeadline;
    size_t seen = 0;
    while (true) {
      for (; seen < heartbeats_.size(); ++seen) {
        if (wanted(heartbeats_[seen])) return heartbeats_[seen];
      }
      const bool more =
          changed_.wait_until(lock, give_up, [&] { return seen < heartbeats_.size(); });
      if (!more || std::chrono::steady_clock::now() > give_up) break;
    }
    std::string came;
    for (size_t i = seen - std::min<size_t>(seen, 20); i < seen; ++i)
      absl::StrAppend(&came, "\n  ", Describe(heartbeats_[i]));
    ADD_FAILURE() << "none of " << seen << " heartbeats was as wanted; the last:" << came;
    return {};
  }

  std::function<absl::StatusOr<uint32_t>()> on_register;
  std::vector<RegisterWorker> registrations;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Answer answer_ = [](const WorkerHeartbeat&) { return WorkerHeartbeatReply{}; };
  std::vector<WorkerHeartbeat> heartbeats_;
};

WorkerHeartbeatReply Started() {
  return {.phase = RunPhase::kTraining,
          .run = 77,
          .membership = Membership{.epoch = 1, .members = {{3, "worker-3", 0}}},
          .shards = {{1, "tcp://b:2", ""}, {0, "tcp://a:1", ""}},
          .validates = true};
}

class SessionTest : public testing::Test {
 protected:
  std::unique_ptr<Session> Join(absl::Duration heartbeat_interval = absl::Milliseconds(1)) {
    auto session =
        Session::Join(&coordinator_, Options(heartbeat_interval), Registration(), &stop_);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  static SessionOptions Options(absl::Duration heartbeat_interval = absl::Milliseconds(1)) {
    return {.coordinator = "host:1",
            .heartbeat_interval = heartbeat_interval,
            .start_timeout = absl::Seconds(30)};
  }
  static RegisterWorker Registration() {
    return {.name = "worker-3",
            .manifest = {{{"w", {2, 2}}}},
            .layout_hash = 9,
            .settings = "sync.rho: 0.25\n",
            .start_hashes = {4, 5}};
  }

  FakeCoordinator coordinator_;
  StopSignal stop_;
};

TEST_F(SessionTest, RegistersAgainAsTheSameProcessUntilAnswered) {
  int calls = 0;
  coordinator_.on_register = [&]() -> absl::StatusOr<uint32_t> {
    if (++calls < 3) return absl::UnavailableError("nobody there");
    return 5;
  };
  EXPECT_EQ(Join()->worker(), 5u);
  ASSERT_EQ(coordinator_.registrations.size(), 3u);
  EXPECT_EQ(coordinator_.registrations[0].incarnation, coordinator_.registrations[2].incarnation);
  EXPECT_EQ(coordinator_.registrations[2].layout_hash, 9u);
  EXPECT_EQ(coordinator_.registrations[2].settings, "sync.rho: 0.25\n");
  EXPECT_THAT(coordinator_.registrations[2].start_hashes, ElementsAre(4, 5));
}

TEST_F(SessionTest, ARefusalIsFinalAndKeepsItsReason) {
  coordinator_.on_register = [] { return absl::AlreadyExistsError("worker-3 is taken"); };
  const auto session = Session::Join(&coordinator_, Options(), Registration(), &stop_);
  EXPECT_EQ(session.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("worker-3 is taken"));
  EXPECT_EQ(coordinator_.registrations.size(), 1u);
}

TEST_F(SessionTest, GivesUpOnACoordinatorThatIsSilentOrAcceptsItsCertificateNoMore) {
  const struct {
    absl::Status answer;
    const char* text;
    const char* reason = "";
  } cases[] = {
      {absl::UnavailableError("away"), "the coordinator at host:1 did not answer for 0.1 s"},
      {absl::UnauthenticatedError("old"), "did not accept this worker's certificate", "old"}};
  for (const auto& [answer, text, reason] : cases) {
    coordinator_.on_register = [reply = answer] { return reply; };
    SessionOptions options = Options();
    options.start_timeout = absl::Milliseconds(60);  // rounded
    const absl::Status status =
        Session::Join(&coordinator_, options, Registration(), &stop_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }
}

// A coordinator whose clock is wrong for a moment answers so.
TEST_F(SessionTest, ACertificateThatIsNotAcceptedForNowEndsNothing) {
  int calls = 0;
  const absl::Status expired = absl::UnauthenticatedError("the certificate has expired");
  coordinator_.on_register = [&]() -> absl::StatusOr<uint32_t> {
    if (++calls < 3) return expired;
    return 3;
  };
  int refused = 0;
  coordinator_.SetAnswer([&](const WorkerHeartbeat&) -> absl::StatusOr<WorkerHeartbeatReply> {
    if (++refused < 4) return expired;
    return Started();
  });
  ::testing::internal::CaptureStderr();
  const auto session = Join();
  const auto start = session->AwaitStart(2);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(start.ok()) << start.status();
  EXPECT_FALSE(session->ended().has_value());
  EXPECT_THAT(log, HasSubstr("the certificate has expired; trying again"));
  EXPECT_THAT(log, HasSubstr("the certificate has expired; the data plane goes on"));
  EXPECT_THAT(log, HasSubstr("answers again"));
}

TEST_F(SessionTest, AStopEndsTheWaitForRegistration) {
  coordinator_.on_register = [&]() -> absl::StatusOr<uint32_t> {
    stop_.Request();
    return absl::UnavailableError("nobody there");
  };
  EXPECT_TRUE(
      absl::IsCancelled(Session::Join(&coordinator_, Options(), Registration(), &stop_).status()));
}

TEST_F(SessionTest, StartsWithTheMembershipAndShardsInOrder) {
  const auto session = Join();
  coordinator_.SetAnswer([](const WorkerHeartbeat&) { return Started(); });
  const auto start = session->AwaitStart(2);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->run, 77u);
  EXPECT_EQ(start->shard_endpoints, (std::vector<std::string>{"tcp://a:1", "tcp://b:2"}));
  EXPECT_EQ(session->directive().epoch, 1u);
  EXPECT_TRUE(session->directive().validates);
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.known_epoch == 1; });
}

TEST_F(SessionTest, KeepsReportsUntilTheyAreAnswered) {
  coordinator_.SetAnswer([](const WorkerHeartbeat&) { return absl::UnavailableError("away"); });
  const auto session = Join();
  session->Report({.round = 0});
  session->Report({.round = 1});
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.rounds.size() == 2; });
  session->Report({.round = 2});  // without an answer: otherwise the two may have been taken by now
  const auto all = coordinator_.AwaitHeartbeat([](const auto& h) { return h.rounds.size() == 3; });
  EXPECT_THAT(RoundsOf(all), ElementsAre(0, 1, 2));
  coordinator_.SetAnswer([](const WorkerHeartbeat&) { return WorkerHeartbeatReply{}; });
  // Answered, they are not told again.
  session->SetState({.step = 99});
  coordinator_.AwaitHeartbeat([](const auto& h) { return h.state.step == 99 && h.rounds.empty(); });
}

TEST_F(SessionTest, AnInstructionToStopIsAnErrorWithItsReasonUnlessTheRunWasStopped) {
  for (const RunPhase phase : {RunPhase::kFailed, RunPhase::kTraining, RunPhase::kStopped}) {
    coordinator_.SetAnswer([=](const WorkerHeartbeat&) -> WorkerHeartbeatReply {
      return {.instruction = Instruction::kStop, .reason = "worker-1: lost", .phase = phase};
    });
    StopSignal stop;
    const auto session = Session::Join(&coordinator_, Options(), Registration(), &stop);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_TRUE(absl::IsCancelled((*session)->AwaitStart(2).status()));
    EXPECT_TRUE(stop.requested());
    EXPECT_EQ((*session)->ended(), phase == RunPhase::kStopped
                                       ? absl::OkStatus()
                                       : absl::AbortedError("worker-1: lost"));
  }
}

TEST_F(SessionTest, AwaitEndWaitsUntilTheCoordinatorEndsTheRun) {
  coordinator_.SetAnswer([](const WorkerHeartbeat& heartbeat) -> WorkerHeartbeatReply {
    if (!heartbeat.final.has_value()) return Started();
    return {.instruction = Instruction::kStop, .phase = RunPhase::kFinished};
  });
  const auto session = Join();
  ASSERT_TRUE(session->AwaitStart(2).ok());
  session->Finish({.validation_loss = 2.5, .model_file = "m"});
  while (!session->AwaitEnd(absl::Seconds(1)).value()) continue;
  const auto last = coordinator_.AwaitHeartbeat([](const auto& h) { return h.final.has_value(); });
  EXPECT_EQ(last.final.value_or(FinalReport{}).model_file, "m");
  EXPECT_EQ(session->ended(), absl::OkStatus());
}

// The start's limit is none of a run that has begun.
TEST_F(SessionTest, WaitsForTheEndWithoutEndUnlessTheRunHasABound) {
  for (const bool is_bounded : {false, true}) {
    coordinator_.SetAnswer([](const WorkerHeartbeat&) { return Started(); });
    SessionOptions options = Options();
    options.start_timeout = absl::Milliseconds(200);
    if (is_bounded) options.away_timeout = absl::Milliseconds(200);
    StopSignal stop;
    auto session = Session::Join(&coordinator_, options, Registration(), &stop);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->AwaitStart(2).ok());
    coordinator_.SetAnswer([](const WorkerHeartbeat&) { return absl::UnavailableError("away"); });
    absl::StatusOr<bool> ended = false;
    while (ended.ok() && (*session)->coordinator_silence() < absl::Seconds(1))
      ended = (*session)->AwaitEnd(absl::Milliseconds(5));
    if (!is_bounded) {
      ASSERT_TRUE(ended.ok()) << ended.status();
      EXPECT_FALSE(*ended);
      continue;
    }
    EXPECT_EQ(ended.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(ended.status().message()),
                HasSubstr("(cluster.away_timeout_s); wanted the run's end"));
  }
}

TEST_F(SessionTest, AFinalReportThatWasAnsweredLeavesTimeForWhatIsLeftToDo) {
  coordinator_.SetAnswer([](const WorkerHeartbeat& heartbeat) -> WorkerHeartbeatReply {
    WorkerHeartbeatReply reply = Started();
    if (!heartbeat.final.has_value()) return reply;
    if (!heartbeat.final->model_file.empty())
      return {.instruction = Instruction::kStop, .phase = RunPhase::kFinished};
    reply.repair = Repair{.round = 9, .segments = {1}};
    return reply;
  });
  const auto session = Join();
  ASSERT_TRUE(session->AwaitStart(2).ok());
  session->Finish({});
  EXPECT_FALSE(session->directive().final_answered && !session->directive().repair.has_value());
  while (!session->directive().final_answered)
    EXPECT_EQ(session->AwaitEnd(absl::Milliseconds(1)).value(), false);
  // The answer's directive counts, not an earlier one.
  EXPECT_EQ(session->directive().repair, (Repair{.round = 9, .segments = {1}}));
  session->Finish({.model_file = "m"});
  while (!session->AwaitEnd(absl::Seconds(1)).value()) continue;
  EXPECT_EQ(session->ended(), absl::OkStatus());
}

TEST(SessionCoreTest, AReportTakesBackTheFinalOneThatIsUnderWay) {
  absl::Time now = absl::UnixEpoch();
  SessionCore core(RegisterWorker{.name = "a"}, absl::Seconds(1), now);
  const auto next = [&] {
    now = std::max(now, core.due_at());
    return core.TakeDue(now);
  };
  ASSERT_TRUE(std::holds_alternative<RegisterWorker>(next()));
  core.OnRegistered(absl::StatusOr<uint32_t>(3), now);
  core.Finish({});
  ASSERT_TRUE(std::holds_alternative<WorkerHeartbeat>(next()));
  core.Report({.round = 9});
  core.OnHeartbeatReply(absl::StatusOr<WorkerHeartbeatReply>(Started()), now);
  EXPECT_FALSE(core.told());
  ASSERT_TRUE(std::holds_alternative<WorkerHeartbeat>(next()));
  core.OnHeartbeatReply(absl::StatusOr<WorkerHeartbeatReply>(Started()), now);
  core.Finish({});
  ASSERT_TRUE(std::holds_alternative<WorkerHeartbeat>(next()));
  core.OnHeartbeatReply(absl::StatusOr<WorkerHeartbeatReply>(Started()), now);
  EXPECT_TRUE(core.told());
}

TEST_F(SessionTest, AWarningIsToldOnceAlsoWhereTheSessionEndsAtOnce) {
  {
    const auto session = Join();
    session->Warn("no seed");
    coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& heartbeat) {
      return heartbeat.warnings == std::vector<std::string>{"no seed"};
    });
    session->Warn("no seed");
    session->Warn("the last words");
    EXPECT_EQ(session->warnings(), 2u);
  }
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& heartbeat) {
    return heartbeat.warnings == std::vector<std::string>{"the last words"};
  });
}

TEST(SessionCoreTest, AWarningIsToldUntilItIsAnswered) {
  absl::Time now = absl::UnixEpoch();
  SessionCore core(RegisterWorker{.name = "a"}, absl::Seconds(1), now);
  const auto next = [&] {
    now = std::max(now, core.due_at());
    return core.TakeDue(now);
  };
  for (int i = 0; i < 100; ++i) core.Warn(absl::StrCat(i, std::string(5000, 'x')));
  ASSERT_TRUE(std::holds_alternative<RegisterWorker>(next()));
  core.OnRegistered(absl::StatusOr<uint32_t>(3), now);
  for (int i = 0; i < 2; ++i) {
    const SessionCore::Call call = next();
    ASSERT_TRUE(std::holds_alternative<WorkerHeartbeat>(call));
    const WorkerHeartbeat& heartbeat = std::get<WorkerHeartbeat>(call);
    EXPECT_EQ(heartbeat.warnings.size(), 64u);  // as many as one may have
    EXPECT_EQ(heartbeat.warnings[0].size(), 1024u);
    if (i == 0) core.OnHeartbeatReply(absl::UnavailableError("gone"), now);
  }
  core.OnHeartbeatReply(absl::StatusOr<WorkerHeartbeatReply>(Started()), now);
  EXPECT_FALSE(core.has_unanswered_warnings());
  const SessionCore::Call call = next();
  EXPECT_TRUE(std::get<WorkerHeartbeat>(call).warnings.empty());
}

TEST_F(SessionTest, FailTellsTheReason) {
  const auto session = Join();
  session->Fail("worker-3: the loss is nan");
  const auto told = coordinator_.AwaitHeartbeat([](const auto& h) { return !h.failure.empty(); });
  EXPECT_EQ(told.failure, "worker-3: the loss is nan");
  EXPECT_EQ(told.state.phase, WorkerPhase::kFailed);
}

TEST_F(SessionTest, FailDoesNotWaitOnceTheRunHasEnded) {
  coordinator_.SetAnswer([](const WorkerHeartbeat& heartbeat) {
    return heartbeat.failure.empty()
               ? absl::StatusOr<WorkerHeartbeatReply>({.instruction = Instruction::kStop,
                                                       .reason = "worker 1 (b): lost",
                                                       .phase = RunPhase::kFailed})
               : absl::UnavailableError("gone home");
  });
  const auto session = Join();
  EXPECT_TRUE(absl::IsCancelled(session->AwaitStart(2).status()));
  // Never answered: with a wait that ended by time alone, this would take seconds.
  session->Fail("a consequence");
  EXPECT_EQ(session->ended(), absl::AbortedError("worker 1 (b): lost"));
}

TEST_F(SessionTest, ALongBacklogIsToldInPartsWithoutWaitingAndTheEndWithTheLast) {
  std::promise<void> first_seen, go_on;
  bool first = true;
  std::vector<size_t> parts;
  coordinator_.SetAnswer(
      [&](const WorkerHeartbeat& heartbeat) -> absl::StatusOr<WorkerHeartbeatReply> {
        if (std::exchange(first, false)) {
          // The call lasts until the backlog is complete, so no heartbeat has only a part of it.
          first_seen.set_value();
          go_on.get_future().wait();
          return Started();
        }
        if (!heartbeat.rounds.empty()) parts.push_back(heartbeat.rounds.size());
        if (!heartbeat.final.has_value()) return Started();
        return WorkerHeartbeatReply{.instruction = Instruction::kStop,
                                    .phase = RunPhase::kFinished};
      });
  const auto session = Join(absl::Hours(1));
  EXPECT_EQ(first_seen.get_future().wait_for(kDeadline), std::future_status::ready);
  for (uint32_t round = 0; round < 2500; ++round) session->Report({.round = round});
  go_on.set_value();
  session->Finish({.model_file = "m"});
  while (!session->AwaitEnd(absl::Seconds(1)).value()) continue;
  const auto last = coordinator_.AwaitHeartbeat([](const auto& h) { return h.final.has_value(); });
  if (!last.rounds.empty()) {
    EXPECT_EQ(last.rounds.back().round, 2499u);
  }
  EXPECT_THAT(parts, ElementsAre(1024, 1024, 452));
}

TEST_F(SessionTest, TheFoldersIdentityIsToldAndWithoutOneTheProcesss) {
  Join();
  RegisterWorker registration = Registration();
  registration.identity = 42;
  ASSERT_TRUE(Session::Join(&coordinator_, Options(), registration, &stop_).ok());
  ASSERT_EQ(coordinator_.registrations.size(), 2u);
  EXPECT_EQ(coordinator_.registrations[0].identity, coordinator_.registrations[0].incarnation);
  EXPECT_EQ(coordinator_.registrations[1].identity, 42u);
  EXPECT_NE(coordinator_.registrations[1].incarnation, 42u);
}

TEST_F(SessionTest, AwaitsAMembershipThatItIsIn) {
  const auto session = Join();
  WorkerHeartbeatReply others = Started();
  others.membership->members = {{0, "worker-0", 0}};
  coordinator_.SetAnswer([=](const WorkerHeartbeat&) { return others; });
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.known_epoch == 1; });
  EXPECT_EQ(session->directive().first_round, kRoundNever);
  WorkerHeartbeatReply joining = Started();
  joining.membership = {.epoch = 2, .members = {{0, "worker-0", 0}, {3, "worker-3", kRoundNever}}};
  coordinator_.SetAnswer([=](const WorkerHeartbeat&) { return joining; });
  const auto start = session->AwaitStart(2);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(session->directive().first_round, kRoundNever);
}

TEST_F(SessionTest, TellsAtOnceThatItIsReadyAndGetsItsFirstRound) {
  coordinator_.SetAnswer([](const WorkerHeartbeat& heartbeat) {
    WorkerHeartbeatReply reply = Started();
    reply.membership->epoch = heartbeat.ready_round.has_value() ? 2 : 1;
    reply.membership->members[0].first_round =
        heartbeat.ready_round.has_value() ? *heartbeat.ready_round + 1 : kRoundNever;
    return reply;
  });
  const auto session = Join(absl::Hours(1));
  ASSERT_TRUE(session->AwaitStart(2).ok());
  session->SetReadyRound(7);  // long before the next heartbeat is due
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.ready_round == 7; });
  session->Report({});  // whose heartbeat comes after the answer to that
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.known_epoch == 2; });
  EXPECT_EQ(session->directive().first_round, 8u);
}

TEST_F(SessionTest, ShardsThatMoveAreToldOnce) {
  coordinator_.SetAnswer([](const WorkerHeartbeat&) { return Started(); });
  const auto session = Join();
  ASSERT_TRUE(session->AwaitStart(2).ok());
  EXPECT_FALSE(session->TakeNewEndpoints().has_value());
  WorkerHeartbeatReply moved = Started();
  moved.membership->epoch = 2;
  moved.shards[0].data_endpoint = "tcp://c:3";
  coordinator_.SetAnswer([=](const WorkerHeartbeat&) { return moved; });
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.known_epoch == 2; });
  EXPECT_EQ(session->TakeNewEndpoints(), (std::vector<std::string>{"tcp://a:1", "tcp://c:3"}));
  EXPECT_FALSE(session->TakeNewEndpoints().has_value());
}

TEST_F(SessionTest, PassesOnWhatIsToBeRepairedWhileItIsSaid) {
  const Repair repair = {.round = 4, .segments = {1, 2}};
  coordinator_.SetAnswer([=](const WorkerHeartbeat&) {
    WorkerHeartbeatReply reply = Started();
    reply.repair = repair;
    return reply;
  });
  const auto session = Join();
  coordinator_.AwaitHeartbeat(
      [&](const WorkerHeartbeat&) { return session->directive().repair == repair; });
  coordinator_.SetAnswer([](const WorkerHeartbeat&) { return Started(); });
  coordinator_.AwaitHeartbeat([&](const WorkerHeartbeat&) { return !session->directive().repair; });
}

TEST_F(SessionTest, LeavingIsToldOnceTheAnswerIsThere) {
  coordinator_.SetAnswer([](const WorkerHeartbeat& heartbeat) -> WorkerHeartbeatReply {
    if (!heartbeat.leaving) return Started();
    return {.instruction = Instruction::kStop, .reason = "left", .phase = RunPhase::kTraining};
  });
  const auto session = Join(absl::Hours(1));
  ASSERT_TRUE(session->AwaitStart(2).ok());
  session->Leave();
  coordinator_.AwaitHeartbeat([](const WorkerHeartbeat& h) { return h.leaving; });
}

TEST_F(SessionTest, ARefusedHeartbeatEndsTheRun) {
  coordinator_.SetAnswer([](const WorkerHeartbeat& heartbeat) {
    return heartbeat.known_epoch == 0 ? absl::StatusOr<WorkerHeartbeatReply>(Started())
                                      : absl::NotFoundError("no worker 3");
  });
  const auto session = Join();
  ASSERT_TRUE(session->AwaitStart(2).ok());
  while (!stop_.requested()) std::this_thread::yield();
  EXPECT_EQ(session->ended(),
            absl::AbortedError("the coordinator refused a heartbeat: no worker 3"));
  EXPECT_EQ(coordinator_.registrations.size(), 1u);
}

TEST_F(SessionTest, WhoLosesItsPlaceBeforeTheRunBeginsRegistersAgain) {
  // The index belongs to another worker at the second registration.
  int calls = 0;
  coordinator_.on_register = [&]() -> absl::StatusOr<uint32_t> {
    if (++calls == 2) return absl::UnavailableError("nobody there");
    return calls >= 4 ? 3 : calls;
  };
  coordinator_.SetAnswer(
      [](const WorkerHeartbeat& heartbeat) -> absl::StatusOr<WorkerHeartbeatReply> {
        if (heartbeat.worker == 1) return absl::NotFoundError("no worker 1");
        if (heartbeat.known_epoch == 0 && heartbeat.ready_round != 7)
          return absl::AbortedError("another incarnation");
        return Started();
      });
  const auto session = Join();
  while (session->worker() != 3) std::this_thread::yield();
  session->SetReadyRound(7);
  ASSERT_TRUE(session->AwaitStart(2).ok());
  EXPECT_EQ(session->worker(), 3u);
  for (const RegisterWorker& request : coordinator_.registrations)
    EXPECT_EQ(request.incarnation, coordinator_.registrations[0].incarnation);
}

TEST_F(SessionTest, WhosePlaceIsTakenForGoodEndsWithTheReason) {
  int calls = 0;
  coordinator_.on_register = [&]() -> absl::StatusOr<uint32_t> {
    if (++calls > 1) return absl::AbortedError("another process has the place");
    return 3;
  };
  coordinator_.SetAnswer([](const WorkerHeartbeat&) { return absl::NotFoundError("no worker 3"); });
  const auto session = Join();
  EXPECT_TRUE(absl::IsCancelled(session->AwaitStart(2).status()));
  EXPECT_EQ(session->ended(), absl::AbortedError("the coordinator refused a registration: another "
                                                 "process has the place"));
}

}  // namespace
}  // namespace longwave
