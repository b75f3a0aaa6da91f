// Clients against servers on port 0, with handlers that record and answer.
#include <algorithm>
#include <memory>
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

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAnyPort[] = "127.0.0.1:0";
constexpr absl::Duration kWait = absl::Seconds(30);

struct FakeCoordinator final : IdleCoordinator {
  absl::StatusOr<uint32_t> Register(const RegisterWorker& request) override {
    if (!error.ok()) return error;
    worker = request;
    return 7u;
  }
  absl::StatusOr<ShardRegistration> Register(const RegisterShard&) override { return error; }
  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat&) override { return error; }
  absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat&) override { return error; }
  absl::StatusOr<RunStatus> GetStatus(uint64_t) override {
    if (!error.ok()) return error;
    return RunStatus{.phase = RunPhase::kTraining};
  }
  absl::Status StopRun(const std::string&) override { return error; }

  absl::Status error;
  RegisterWorker worker;
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

TEST_F(CoordinatorRpc, PortInUseIsUnavailableAndSaysSo) {
  const auto second = RpcServer::Start(server_->address(), &handler_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            absl::StrCat("cannot listen on ", server_->address(),
                         ": the port is in use (wanted a free one; port 0 picks one)"));
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

}  // namespace
}  // namespace longwave
