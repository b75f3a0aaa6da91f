// Strangers and liars at the control ports of a secured run that goes on training meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/join.h"
#include "common/security/credentials.h"
#include "common/security/token.h"
#include "tests/intruder/secured_run.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class Intruder : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = SecuredRun::Get();
    ASSERT_NE(run_, nullptr) << "there is no run to intrude into";
    ASSERT_TRUE(run_->Running()) << "the run has ended";
  }

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

  std::string MustCreateToken(const TokenWish& wish) {
    const auto token = run_->as_operator().CreateToken(wish);
    EXPECT_TRUE(token.ok()) << token.status();
    return token.ok() ? token->token : "";
  }

  absl::Status Join(const std::string& token, const std::string& name) {
    const std::string folder = run_->NewFolder();
    return Answer([&] { return JoinRun(run_->address(), token, name, folder).status(); });
  }

  SecuredRun* run_ = nullptr;
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
  // Nor is it heard in somebody else's name: one of the two indices is the other's.
  int refused = 0;
  for (const uint32_t worker : {0u, 1u}) {
    const auto reply = client->Heartbeat(WorkerHeartbeat{.worker = worker, .failure = "a lie"});
    refused += absl::IsPermissionDenied(reply.status()) ? 1 : 0;
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(Intruder, AForgedTokenLetsNobodyIn) {
  const std::string real = MustCreateToken({.life = kHour, .uses = 1, .subject = "worker/"});
  auto token = ParseToken(real);
  ASSERT_TRUE(token.ok());
  token->secret = std::string(Token::kSecretChars, 'a');
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "not one of this run's",
                [&] { return Join(FormatToken(*token), "forger"); });
  EXPECT_EQ(Join("no token at all", "nobody").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Intruder, ATokenOfAnotherRunIsNotShownToThisOne) {
  Token token{.id = std::string(Token::kIdChars, 'a'),
              .secret = std::string(Token::kSecretChars, 'b')};
  const absl::Status status = Join(FormatToken(token), "lost");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was not shown"));
}

TEST_F(Intruder, AUsedTokenLetsNobodyElseIn) {
  const std::string token = MustCreateToken({.life = kHour, .uses = 1, .subject = "worker/"});
  ASSERT_TRUE(Join(token, run_->NewName("invited")).ok());
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "was used 1 of 1",
                [&] { return Join(token, "uninvited"); });
}

TEST_F(Intruder, AnExpiredOrRevokedTokenLetsNobodyIn) {
  const std::string brief =
      MustCreateToken({.life = absl::Nanoseconds(1), .uses = 1, .subject = "worker/"});
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "it expired",
                [&] { return Join(brief, "late"); });
  const std::string revoked = MustCreateToken({.life = kHour, .uses = 1, .subject = "worker/"});
  ASSERT_TRUE(run_->as_operator().RevokeToken(ParseToken(revoked)->id).ok());
  ExpectRefused(absl::StatusCode::kPermissionDenied, "token", "was revoked",
                [&] { return Join(revoked, "unwanted"); });
}

TEST_F(Intruder, ATokenTakesNobodysName) {
  const std::string token = MustCreateToken({.life = kHour, .uses = 3, .subject = "worker/"});
  const std::string name = run_->NewName("first-come");
  ASSERT_TRUE(Join(token, name).ok());
  ExpectRefused(absl::StatusCode::kAlreadyExists, "token", "the name is another's",
                [&] { return Join(token, name); });
  ExpectRefused(absl::StatusCode::kAlreadyExists, "token", "the name is another's",
                [&] { return Join(token, "worker-0"); });
}

TEST_F(Intruder, AnExpelledWorkerIsOutAndStaysOut) {
  const std::string folder = run_->NewFolder(), name = run_->NewName("traitor");
  const std::string token = MustCreateToken({.life = kHour, .uses = 2, .subject = "worker/"});
  ASSERT_TRUE(Answer([&] { return JoinRun(run_->address(), token, name, folder).status(); }).ok());
  const auto client = run_->As(folder);
  ASSERT_TRUE(Answer([&] { return client->GetStatus(0).status(); }).ok())
      << "a member sees the status";
  ASSERT_TRUE(run_->as_operator().Expel(name, false).ok());
  ExpectRefused(absl::StatusCode::kPermissionDenied, "expelled", "was expelled",
                [&] { return client->GetStatus(0).status(); });
  EXPECT_EQ(client->RenewCertificate("").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Join(token, name).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(Intruder, AnExpelledWorkerIsRefusedByShardsToo) {
  const std::string folder = run_->NewFolder(), name = run_->NewName("spy");
  const std::string token = MustCreateToken({.life = kHour, .uses = 1, .subject = "worker/"});
  ASSERT_TRUE(Answer([&] { return JoinRun(run_->address(), token, name, folder).status(); }).ok());
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
  ASSERT_TRUE(run_->as_operator().Expel(name, true).ok());
  EXPECT_TRUE(Eventually("it may again", [&] { return client->GetStatus().ok(); }));
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
