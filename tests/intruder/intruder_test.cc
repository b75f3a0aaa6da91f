// Strangers and liars at the control ports of a secured run that goes on training meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/new_file.h"
#include "common/rpc/channel.h"
#include "common/rpc/join.h"
#include "common/rpc/tls.h"
#include "common/security/credentials.h"
#include "common/security/token.h"
#include "longwave/v1/coordinator.pb.h"
#include "tests/intruder/secured_run.h"
#include "tests/support/raw_call.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class Intruder : public InRun {
 protected:
  // `attack` is refused with `code` and a sentence; that is counted for its reason and stands in
  // the coordinator's log. What was said of this address a moment ago is said again only when its
  // reason's count has doubled, so that the attack may have to be repeated until then.
  template <typename Attack>
  void ExpectRefused(absl::StatusCode code, const std::string& reason, const std::string& sentence,
                     const Attack& attack) {
    const uint64_t before = run_->CoordinatorRefusals(reason);
    const size_t log = run_->LogOf("coordinator").size();
    const absl::Status status = Answer(attack);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
    EXPECT_GT(run_->CoordinatorRefusals(reason), before) << reason << " was not counted";
    EXPECT_TRUE(
        Eventually(absl::StrCat(reason, " in the log, with its sentence and its address"), [&] {
          if (run_->Logged("coordinator", log,
                           {absl::StrCat("refused (", reason, ","), sentence, "from 127.0.0.1:"}))
            return true;
          attack().IgnoreError();
          return false;
        }));
  }
};

constexpr absl::Duration kHour = absl::Hours(1);

TEST_F(Intruder, WithoutACertificateMayOnlyJoin) {
  ExpectRefused(absl::StatusCode::kUnauthenticated, "no_certificate", "without a certificate",
                [&] { return run_->StopWithoutCertificate(); });
}

TEST_F(Intruder, OfAnotherAuthorityIsNobody) {
  const auto other = Authority::Make("somebody else", absl::Now());
  ASSERT_TRUE(other.ok());
  const std::string folder = run_->Forge(**other, OperatorIdentity(), {absl::Now(), kHour});
  ExpectRefused(absl::StatusCode::kUnauthenticated, "other_authority", "another authority",
                [&] { return run_->As(folder)->StopRun("by a stranger"); });
}

TEST_F(Intruder, WithAnExpiredCertificateIsToldSo) {
  const std::string folder =
      run_->Forge(run_->authority(), OperatorIdentity(), {absl::Now() - kHour, absl::Minutes(1)});
  ExpectRefused(absl::StatusCode::kUnauthenticated, "expired", "has expired",
                [&] { return run_->As(folder)->StopRun("too late"); });
}

TEST_F(Intruder, InPlainTextHearsNothing) {
  const absl::Status status =
      CoordinatorClient::Connect(run_->address(), absl::Seconds(2))->StopRun("plain");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(Intruder, AWorkerMayNotDoWhatAnOperatorMay) {
  const auto client = run_->As(run_->credentials("worker-0"));
  ExpectRefused(absl::StatusCode::kPermissionDenied, "wrong_name", "wanted one for an operator",
                [&] { return client->StopRun("for fun"); });
  EXPECT_EQ(client->CreateToken({.life = kHour, .uses = 1, .subject = "worker/"}).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(client->Expel("worker-1", false).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(Intruder, AWorkerRegistersInNobodyElsesName) {
  const auto client = run_->As(run_->credentials("worker-0"));
  ExpectRefused(absl::StatusCode::kPermissionDenied, "wrong_name", "worker-1", [&] {
    return client->Register(RegisterWorker{.name = "worker-1", .incarnation = 7}).status();
  });
  ExpectRefused(absl::StatusCode::kPermissionDenied, "wrong_name", "shard 0", [&] {
    return client->Register(RegisterShard{.shard = 0, .data_endpoint = "tcp://h:1"}).status();
  });
  // Heartbeats in another's name are refused: one of the two indices is the other's.
  int refused = 0;
  for (const uint32_t worker : {0u, 1u}) {
    const auto reply = client->Heartbeat(WorkerHeartbeat{.worker = worker, .failure = "a lie"});
    refused += absl::IsPermissionDenied(reply.status()) ? 1 : 0;
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(Intruder, AForgedTokenLetsNobodyIn) {
  const std::string real = run_->NewToken();
  auto token = ParseToken(real);
  ASSERT_TRUE(token.ok());
  token->secret = std::string(Token::kSecretChars, 'a');
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "not one of this run's",
                [&] { return run_->Join(FormatToken(*token), "forger"); });
  EXPECT_EQ(run_->Join("no token at all", "nobody").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Intruder, ATokenOfAnotherRunIsNotShownToThisOne) {
  Token token{.id = std::string(Token::kIdChars, 'a'),
              .secret = std::string(Token::kSecretChars, 'b')};
  const absl::Status status = run_->Join(FormatToken(token), "lost");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was not shown"));
}

TEST_F(Intruder, AUsedTokenLetsNobodyElseIn) {
  const std::string token = run_->NewToken();
  ASSERT_TRUE(run_->Join(token, run_->NewName("invited")).ok());
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "was used 1 of 1",
                [&] { return run_->Join(token, "uninvited"); });
}

TEST_F(Intruder, AnExpiredOrRevokedTokenLetsNobodyIn) {
  const std::string brief =
      run_->NewToken({.life = absl::Nanoseconds(1), .uses = 1, .subject = "worker/"});
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "it expired",
                [&] { return run_->Join(brief, "late"); });
  const std::string revoked = run_->NewToken();
  ASSERT_TRUE(run_->as_operator().RevokeToken(ParseToken(revoked)->id).ok());
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "was revoked",
                [&] { return run_->Join(revoked, "unwanted"); });
}

TEST_F(Intruder, ATokenTakesNobodysName) {
  const std::string token = run_->NewToken({.life = kHour, .uses = 3, .subject = "worker/"});
  const std::string name = run_->NewName("first-come");
  ASSERT_TRUE(run_->Join(token, name).ok());
  ExpectRefused(absl::StatusCode::kAlreadyExists, "token", "the name is another's",
                [&] { return run_->Join(token, name); });
  ExpectRefused(absl::StatusCode::kAlreadyExists, "token", "the name is another's",
                [&] { return run_->Join(token, "worker-0"); });
}

TEST_F(Intruder, AnExpelledWorkerIsOutAndStaysOut) {
  const std::string folder = run_->NewFolder(), name = run_->NewName("traitor");
  const std::string token = run_->NewToken({.life = kHour, .uses = 2, .subject = "worker/"});
  ASSERT_TRUE(run_->Join(token, name, folder).ok());
  const auto client = run_->As(folder);
  ASSERT_TRUE(Answer([&] { return client->GetStatus(0).status(); }).ok())
      << "a member sees the status";
  ASSERT_TRUE(run_->as_operator().Expel(name, false).ok());
  ExpectRefused(absl::StatusCode::kPermissionDenied, "expelled", "was expelled",
                [&] { return client->GetStatus(0).status(); });
  EXPECT_EQ(client->RenewCertificate({}).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(run_->Join(token, name).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(Intruder, AnExpelledWorkerIsRefusedByShardsToo) {
  const std::string folder = run_->NewFolder(), name = run_->NewName("spy");
  const std::string token = run_->NewToken();
  ASSERT_TRUE(run_->Join(token, name, folder).ok());
  const auto client = run_->ShardAs(0, folder);
  ASSERT_TRUE(Answer([&] { return client->GetStatus().status(); }).ok())
      << "a member sees the status";
  const uint64_t before = run_->ShardRefusals(0, "expelled");
  const size_t log = run_->LogOf("shard-0").size();
  ASSERT_TRUE(run_->as_operator().Expel(name, false).ok());
  absl::Status status;
  EXPECT_TRUE(Eventually("the shard hears of it", [&] {
    status = client->GetStatus().status();
    return !status.ok() && !absl::IsUnavailable(status);
  }));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was expelled"));
  EXPECT_GT(run_->ShardRefusals(0, "expelled"), before);
  EXPECT_TRUE(Eventually("a line in the shard's log", [&] {
    if (run_->Logged("shard-0", log, {"refused (expelled,", "worker " + name, "from 127.0.0.1:"}))
      return true;
    client->GetStatus().status().IgnoreError();
    return false;
  }));
  // The expulsion's end does not bring its certificate back; a new token brings another.
  const auto at_coordinator = run_->As(folder);
  const uint64_t wrong = run_->ShardRefusals(0, "wrong_name");
  ASSERT_TRUE(run_->as_operator().Expel(name, true).ok());
  EXPECT_EQ(Answer([&] { return at_coordinator->GetStatus(0).status(); }).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Eventually("the shard hears of that, too", [&] {
    EXPECT_FALSE(client->GetStatus().ok());
    return run_->ShardRefusals(0, "wrong_name") > wrong;
  }));
  const std::string again = run_->NewFolder();
  const std::string fresh = run_->NewToken();
  ASSERT_TRUE(run_->Join(fresh, name, again).ok());
  const auto newcomer = run_->ShardAs(0, again);
  EXPECT_TRUE(Eventually("it may again", [&] { return newcomer->GetStatus().ok(); }));
  EXPECT_FALSE(client->GetStatus().ok()) << "with its former key it may not";
}

TEST_F(Intruder, AShardRefusesWhoseNameWasGivenToAnotherKey) {
  const std::string before = run_->NewFolder(), after = run_->NewFolder();
  const std::string name = run_->NewName("lost-machine");
  for (const auto& [subject, folder] :
       {std::pair{std::string("worker/"), before}, std::pair{"worker/" + name, after}}) {
    const absl::Status joined =
        run_->Join(run_->NewToken({.life = kHour, .uses = 1, .subject = subject}), name, folder);
    ASSERT_TRUE(joined.ok()) << joined;
  }
  const auto lost = run_->ShardAs(0, before), found = run_->ShardAs(0, after);
  EXPECT_TRUE(Eventually("the shard hears of it",
                         [&] { return absl::IsPermissionDenied(lost->GetStatus().status()); }));
  EXPECT_TRUE(Answer([&] { return found->GetStatus().status(); }).ok());
}

// A stolen one ends with its time.
TEST_F(Intruder, AnOperatorsCertificateIsNotRenewedByACall) {
  const auto credentials = ReadCredentials(run_->credentials("operator"));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  const auto status =
      run_->as_operator().RenewCertificate({.request = *MakeRequest(credentials->key)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
}

TEST_F(Intruder, HugeRequestsOfStrangersTakeNoMemoryAndTheRunGoesOn) {
  constexpr int kConnections = 20;
  constexpr double kGrowthMax = 96e6;
  const auto memory = [&] {
    return run_->MetricOf("coordinator", "process_resident_memory_bytes", "").value_or(0);
  };
  v1::JoinRequest join;
  join.set_worker("stranger");
  join.set_request(std::string(63 << 20, 'x'));
  const grpc::Slice slice(join.SerializeAsString());
  join.Clear();
  const std::string token = FormatToken(
      {.id = std::string(Token::kIdChars, 'a'), .secret = std::string(Token::kSecretChars, 'b')});
  const uint64_t refused = run_->CoordinatorRefusals("token");
  const uint64_t rounds = run_->Status().record_count;
  const double before = memory();
  ASSERT_GT(before, 0);
  std::atomic<bool> ending{false};
  std::vector<std::thread> strangers;
  strangers.reserve(kConnections);
  for (int i = 0; i < kConnections; ++i) {
    strangers.emplace_back([&] {
      grpc::ChannelArguments alone;
      alone.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto channel = grpc::CreateCustomChannel(
          run_->address(), JoiningCredentials(run_->authority().certificate(), Role::kCoordinator),
          alone);
      const grpc::ByteBuffer request(&slice, 1);
      while (!ending) {
        grpc::ClientContext context;
        context.AddMetadata(kTokenKey, token);
        grpc::ByteBuffer received;
        const grpc::Status status = TryRaw(channel, "/longwave.v1.Coordinator/Join", &request,
                                           &received, std::chrono::seconds(20), &context);
        EXPECT_FALSE(status.ok());
      }
    });
  }
  double most = before;
  const absl::Time end = absl::Now() + absl::Seconds(5);
  while (absl::Now() < end) {
    most = std::max(most, memory());
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_TRUE(Eventually("two more rounds", [&] {
    most = std::max(most, memory());
    return run_->Status().record_count >= rounds + 2;
  }));
  ending = true;
  for (std::thread& stranger : strangers) stranger.join();
  EXPECT_LT(most - before, kGrowthMax) << "bytes more than the " << before << " before";
  EXPECT_GT(run_->CoordinatorRefusals("token"), refused);
  EXPECT_TRUE(run_->Running());
}

// A coordinator with a wrong clock, or a half-replaced ca.crt, answers so.
TEST_F(Intruder, ACoordinatorThatAcceptsNobodysCertificateForAMomentEndsNobody) {
  const std::string file = run_->credentials("coordinator") + "/ca.crt";
  const auto own = ReadTextFile(file);
  const auto other = Authority::Make("somebody else", absl::Now());
  ASSERT_TRUE(own.ok() && other.ok()) << own.status();
  const std::vector<std::string> processes = {"worker-0", "worker-1", "shard-0", "shard-1"};
  std::vector<size_t> logs;
  logs.reserve(processes.size());
  for (const std::string& process : processes) logs.push_back(run_->LogOf(process).size());
  ASSERT_TRUE(WriteFile(file, (*other)->certificate(), kPublicFile).ok());
  for (size_t i = 0; i < processes.size(); ++i) {
    EXPECT_TRUE(Eventually(processes[i] + " says so", [&] {
      return run_->Logged(
          processes[i], logs[i],
          {"does not accept the certificate", "a clock that is wrong", "trying again"});
    }));
  }
  ASSERT_TRUE(WriteFile(file, *own, kPublicFile).ok());
  ExpectTheRunGoesOn();
}

TEST_F(Intruder, ACertificateIsExchangedWithoutARestart) {
  const std::string folder = run_->Forge(run_->authority(), WorkerIdentity("short-lived"),
                                         {absl::Now() - kHour, absl::Minutes(1)});
  const auto client = run_->As(folder);
  ASSERT_EQ(Answer([&] { return client->GetStatus(0).status(); }).code(),
            absl::StatusCode::kUnauthenticated);
  auto fresh =
      MakeCredentials(run_->authority(), {WorkerIdentity("short-lived")}, {}, {absl::Now(), kHour});
  ASSERT_TRUE(fresh.ok() && WriteCredentials(folder, *fresh).ok());
  // By the same client, in a new connection: the server lets none grow old.
  EXPECT_TRUE(Eventually("the new certificate is used", [&] { return client->GetStatus(0).ok(); }));
}

}  // namespace
}  // namespace longwave
