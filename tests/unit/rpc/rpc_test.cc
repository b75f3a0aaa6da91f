// Clients against servers on port 0, with handlers that record and answer.
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/rpc_server.h"
#include "gmock/gmock.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"
#include "tests/support/held_port.h"
#include "tests/support/idle_handlers.h"
#include "tests/support/shard_client.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAnyPort[] = "127.0.0.1:0";
constexpr absl::Duration kWait = absl::Seconds(30);
constexpr std::array<std::byte, 32> kKey = {std::byte{7}};

struct FakeCoordinator final : IdleCoordinator {
  absl::StatusOr<uint32_t> Register(const RegisterWorker& request) override {
    if (!error.ok()) return error;
    worker = request;
    return 7u;
  }
  absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) override {
    if (!error.ok()) return error;
    shard = request;
    return ShardRegistration{.run = 0xfedcba9876543210u, .restore = true, .rounds = 9};
  }
  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) override {
    if (!error.ok()) return error;
    worker_heartbeat = heartbeat;
    return WorkerHeartbeatReply{.phase = RunPhase::kTraining,
                                .run = 42,
                                .membership = Membership{1, {{7, "a", 3}}},
                                .shards = {{0, "tcp://h:1", "h:2"}},
                                .validates = true};
  }
  absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) override {
    if (!error.ok()) return error;
    shard_heartbeat = heartbeat;
    return ShardHeartbeatReply{.instruction = Instruction::kStop,
                               .reason = "the end",
                               .names = CallerNames{8, {"x", "y"}, {{"worker/a", kKey}}}};
  }
  absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from) override {
    if (!error.ok()) return error;
    RunStatus status;
    status.phase = RunPhase::kTraining;
    status.record_count = round_records_from + 1;
    status.records.push_back({.round = 5, .train_loss = 2.5});
    return status;
  }
  absl::Status StopRun(const std::string& reason) override {
    stop_reason = reason;
    return error;
  }

  absl::Status error;
  RegisterWorker worker;
  RegisterShard shard;
  WorkerHeartbeat worker_heartbeat;
  ShardHeartbeat shard_heartbeat;
  std::string stop_reason;
};

class CoordinatorRpc : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = RpcServer::Start(kAnyPort, &handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = CoordinatorClient::Connect(server_->address(), kWait);
  }

  static RegisterWorker SomeWorker() {
    return {.name = "w",
            .manifest = Manifest{{{"a", {2, 3}}, {"b", {4}}}},
            .layout_hash = 5,
            .incarnation = 6,
            .start_hashes = {7, 8}};
  }

  FakeCoordinator handler_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(CoordinatorRpc, AddressNamesTheRealPort) {
  EXPECT_THAT(server_->address(), ::testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(server_->address(), kAnyPort);
}

TEST_F(CoordinatorRpc, RegistersAWorker) {
  const auto worker = client_->Register(SomeWorker());
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(*worker, 7u);
  EXPECT_EQ(handler_.worker.name, "w");
  EXPECT_EQ(handler_.worker.manifest, SomeWorker().manifest);
  EXPECT_EQ(handler_.worker.start_hashes, SomeWorker().start_hashes);
}

TEST_F(CoordinatorRpc, RegistersAShard) {
  const auto answer = client_->Register(RegisterShard{2, "tcp://h:1", "h:2", 3, "a: 1\n", 4});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, (ShardRegistration{0xfedcba9876543210u, true, 9}));
  EXPECT_EQ(handler_.shard.run, 4u);
  EXPECT_EQ(handler_.shard.data_endpoint, "tcp://h:1");
  EXPECT_EQ(handler_.shard.settings, "a: 1\n");
}

TEST_F(CoordinatorRpc, CarriesHeartbeats) {
  WorkerHeartbeat heartbeat{.worker = 7, .failure = "the loss is not a number"};
  heartbeat.rounds.push_back({.round = 4, .segment_hashes = {1, 2}});
  const auto reply = client_->Heartbeat(heartbeat);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->membership, (Membership{1, {{7, "a", 3}}}));
  EXPECT_EQ(reply->run, 42u);
  EXPECT_TRUE(reply->validates);
  EXPECT_EQ(handler_.worker_heartbeat.failure, "the loss is not a number");
  EXPECT_EQ(handler_.worker_heartbeat.rounds.at(0).segment_hashes, (std::vector<uint64_t>{1, 2}));

  const auto shard_reply =
      client_->Heartbeat(ShardHeartbeat{.shard = 2, .known_epoch = 9, .names_version = 7});
  ASSERT_TRUE(shard_reply.ok()) << shard_reply.status();
  EXPECT_EQ(shard_reply->instruction, Instruction::kStop);
  EXPECT_EQ(shard_reply->reason, "the end");
  EXPECT_EQ(shard_reply->names, (CallerNames{8, {"x", "y"}, {{"worker/a", kKey}}}));
  EXPECT_EQ(handler_.shard_heartbeat.known_epoch, 9u);
  EXPECT_EQ(handler_.shard_heartbeat.names_version, 7u);
}

TEST_F(CoordinatorRpc, TellsTheRunsStatusAndStopsIt) {
  const auto status = client_->GetStatus(11);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->record_count, 12u);
  EXPECT_EQ(status->records.at(0).train_loss, 2.5);
  EXPECT_TRUE(client_->StopRun("enough").ok());
  EXPECT_EQ(handler_.stop_reason, "enough");
}

TEST_F(CoordinatorRpc, AnErrorKeepsItsCodeAndSentence) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("tensor 3: got a, wanted b"), absl::AlreadyExistsError("twice"),
        absl::FailedPreconditionError("over"), absl::NotFoundError("who"),
        absl::AbortedError("you")}) {
    handler_.error = error;
    EXPECT_EQ(client_->Register(SomeWorker()).status(), error);
    EXPECT_EQ(client_->Register(RegisterShard{}).status(), error);
    EXPECT_EQ(client_->Heartbeat(WorkerHeartbeat{}).status(), error);
    EXPECT_EQ(client_->Heartbeat(ShardHeartbeat{}).status(), error);
    EXPECT_EQ(client_->GetStatus(0).status(), error);
    EXPECT_EQ(client_->StopRun(""), error);
  }
}

TEST_F(CoordinatorRpc, ABrokenCallIsNobodysDecision) {
  // gRPC's own errors for a call whose connection broke.
  for (const absl::Status& error : {absl::CancelledError(""), absl::UnknownError("Stream removed"),
                                    absl::InternalError("Received RST_STREAM with error code 2")}) {
    handler_.error = error;
    const absl::Status seen = client_->Heartbeat(WorkerHeartbeat{}).status();
    EXPECT_EQ(seen.code(), absl::StatusCode::kUnavailable) << error;
    EXPECT_THAT(std::string(seen.message()), HasSubstr("cannot reach the coordinator"));
  }
}

TEST_F(CoordinatorRpc, ASentenceOfAnyLengthArrives) {
  handler_.error = absl::NotFoundError(std::string(1 << 20, 'x'));
  EXPECT_EQ(client_->GetStatus(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Register(RegisterWorker{.name = "\xff"}).status()));
}

TEST_F(CoordinatorRpc, ARunWithoutSecurityAdmitsNobody) {
  const absl::Status refused = client_->ListTokens().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("this run is not secured"));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->RenewCertificate({}).status()));
}

TEST_F(CoordinatorRpc, RefusesAManifestThatDoesNotValidate) {
  RegisterWorker request = SomeWorker();
  request.manifest.tensors[1].name = "a";
  EXPECT_EQ(client_->Register(request).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(handler_.worker.name, "");
}

TEST_F(CoordinatorRpc, CarriesALargeManifest) {
  RegisterWorker request = SomeWorker();
  for (size_t i = 2; i < kManifestTensorsMax; ++i) {
    request.manifest.tensors.push_back({absl::StrCat(std::string(200, 'n'), i), {8, 8}});
  }
  const auto worker = client_->Register(request);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(handler_.worker.manifest.tensors.size(), kManifestTensorsMax);
}

TEST_F(CoordinatorRpc, ManyThreadsMayCall) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) EXPECT_TRUE(client_->GetStatus(0).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CoordinatorRpc, NobodyAnswersAfterShutdown) {
  ASSERT_TRUE(client_->GetStatus(0).ok());
  server_->Shutdown();
  EXPECT_EQ(client_->GetStatus(0).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoordinatorRpc, PortInUseIsUnavailableAndSaysSo) {
  const auto second = RpcServer::Start(server_->address(), &handler_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            absl::StrCat("cannot listen on ", server_->address(),
                         ": the port is in use (wanted a free one; port 0 picks one)"));
}

TEST(RpcServer, ItsPortIsFreeAgainAfterShutdown) {
  const HeldPort port(/*listens=*/false);
  FakeCoordinator handler;
  auto first = RpcServer::Start(port.address(), &handler);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto client = CoordinatorClient::Connect(port.address(), kWait);
  ASSERT_TRUE(client->GetStatus(0).ok());
  EXPECT_FALSE(RpcServer::Start(port.address(), &handler).ok()) << "not while it is used";
  first->reset();
  const auto second = RpcServer::Start(port.address(), &handler);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->address(), port.address());
  // The client finds the new server by itself; the attempts pace themselves.
  const absl::Time deadline = absl::Now() + kWait;
  absl::Status status = client->GetStatus(0).status();
  while (!status.ok() && absl::Now() < deadline) status = client->GetStatus(0).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RpcServer, RefusesWhatIsNotAnAddress) {
  FakeCoordinator handler;
  for (const char* address :
       {"", "127.0.0.1", ":80", "127.0.0.1:port", "127.0.0.1:65536", "192.0.2.1:0", "no host:0"}) {
    const auto server = RpcServer::Start(address, &handler);
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()), HasSubstr(address));
  }
}

TEST(CoordinatorClient, NobodyListeningIsUnavailable) {
  const HeldPort port(/*listens=*/false);
  const auto client = CoordinatorClient::Connect(port.address(), kWait);
  const absl::Status status = client->GetStatus(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("cannot reach the coordinator at ", port.address())));
}

// Not by luck, when gRPC looks at its connections every five seconds.
TEST(CoordinatorClient, AServerThatComesLateIsReachedByTheNextCalls) {
  const HeldPort port(/*listens=*/false);
  FakeCoordinator handler;
  auto first = RpcServer::Start(port.address(), &handler);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto client = CoordinatorClient::Connect(port.address(), kWait);
  ASSERT_TRUE(client->GetStatus(0).ok());
  for (int times = 0; times < 3; ++times) {
    (*first)->Shutdown();
    first->reset();
    while (client->GetStatus(0).ok()) {
    }
    EXPECT_EQ(client->GetStatus(0).status().code(), absl::StatusCode::kUnavailable);
    first = RpcServer::Start(port.address(), &handler);
    ASSERT_TRUE(first.ok()) << first.status();
    // Each of these calls lends gRPC its thread; many that do not are over at once.
    constexpr int kCallsMax = 100;
    int calls = 1;
    while (!client->GetStatus(0).ok() && calls < kCallsMax) ++calls;
    EXPECT_LT(calls, kCallsMax);
  }
}

TEST(CoordinatorClient, ASilentListenerIsUnavailableAfterTheDeadline) {
  const HeldPort port(/*listens=*/true);
  const auto client = CoordinatorClient::Connect(port.address(), absl::Milliseconds(200));
  const absl::Status status = client->GetStatus(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            absl::StrCat("no answer from the coordinator at ", port.address(), " within 200ms"));
}

struct FakeShard final : IdleShard {
  absl::StatusOr<ShardReport> GetStatus() override {
    if (!error.ok()) return error;
    return ShardReport{.shard = 3,
                       .state = {.pushes_accepted = 11},
                       .segments = {{.segment = 1, .open_round = 2, .waiting_for = {4, 5}}}};
  }
  absl::Status error;
};

TEST(GrpcLog, IsOursAndHasFewLines) {
  TakeGrpcLog();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) {
    gpr_log(GPR_ERROR, "No match found for server name: %d", i);
    gpr_log(GPR_ERROR, "Handshake failed %d\n\x1b[2J", i);
    gpr_log(GPR_INFO, "nothing");
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  // Other tests of this process may have had some of the minute's lines.
  EXPECT_LE(std::ranges::count(log, '\n'), int{kGrpcLinesMax});
  EXPECT_THAT(log, Not(HasSubstr("No match found")));
  EXPECT_THAT(log, Not(HasSubstr("\x1b")));
}

TEST(ShardRpc, TellsItsStatusOrItsError) {
  FakeShard handler;
  const auto server = RpcServer::Start(kAnyPort, &handler);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = ShardClient::Connect((*server)->address(), kWait);
  const auto report = client->GetStatus();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shard, 3u);
  EXPECT_EQ(report->state.pushes_accepted, 11u);
  EXPECT_EQ(report->segments.at(0).waiting_for, (std::vector<uint32_t>{4, 5}));
  handler.error = absl::FailedPreconditionError("not yet");
  EXPECT_EQ(client->GetStatus().status(), handler.error);
}

}  // namespace
}  // namespace longwave
