// Workers that join a run, and their check of the coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/refusals.h"
#include "common/rpc/join.h"
#include "common/rpc/rpc_server.h"
#include "common/security/credentials.h"
#include "common/security/token.h"
#include "tests/support/idle_handlers.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

std::unique_ptr<Authority> NewAuthority(const std::string& label) {
  auto authority = Authority::Make(label, absl::Now());
  EXPECT_TRUE(authority.ok()) << authority.status();
  return *std::move(authority);
}

// Answers a joining worker only. The test sets the certificates that it shows and hands out.
struct FakeAdmission final : IdleCoordinator {
  std::string shown;                   // the answer to GetAuthority
  std::string handed_out;              // with the certificate
  const Authority* signing = nullptr;  // signs the certificate
  std::atomic<int> joins = 0;

  absl::StatusOr<std::string> GetAuthority() override { return shown; }
  absl::Status CheckToken(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<JoinAnswer> Join(const JoinWish& wish) override {
    ++joins;
    auto certificate =
        signing->Issue(wish.request, {wish.subject}, {}, {absl::Now(), absl::Hours(1)});
    EXPECT_TRUE(certificate.ok()) << certificate.status();
    return JoinAnswer{.certificate = *certificate, .authority = handed_out};
  }
};

class JoinRunTest : public ::testing::Test {
 protected:
  // The coordinator, with a certificate by `by`.
  void Serve(const Authority& by) {
    const auto made =
        MakeCredentials(by, {CoordinatorIdentity()}, {"localhost"}, {absl::Now(), absl::Hours(1)});
    ASSERT_TRUE(made.ok() && WriteCredentials(server_folder(), *made).ok());
    auto server = RpcServer::Start("127.0.0.1:0", &coordinator_,
                                   {.credentials = server_folder(), .refusals = &refusals_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string TokenOf(const Authority& authority) const {
    return FormatToken({.id = std::string(Token::kIdChars, 'a'),
                        .secret = std::string(Token::kSecretChars, 'b'),
                        .authority = TokenFingerprint(authority.info())});
  }
  absl::Status Join() {
    return JoinRun(server_->address(), TokenOf(*own_), WorkerIdentity("w"), folder(), {},
                   absl::Seconds(60))
        .status();
  }
  std::string server_folder() const { return folder_.path() + "/server"; }
  std::string folder() const { return folder_.path() + "/worker"; }

  TestFolder folder_;
  const std::unique_ptr<Authority> own_ = NewAuthority("the run's");
  const std::unique_ptr<Authority> other_ = NewAuthority("somebody else's");
  Refusals refusals_;
  FakeAdmission coordinator_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(JoinRunTest, TheTokenIsNotShownToWhomeverStandsBehindTheRunsAuthority) {
  Serve(*other_);
  coordinator_.shown = own_->certificate() + other_->certificate();
  coordinator_.handed_out = coordinator_.shown;
  coordinator_.signing = other_.get();
  const absl::Status status = Join();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(coordinator_.joins, 0) << "the token's secret was told to a stranger";
  EXPECT_TRUE(absl::IsNotFound(ReadTextFile(folder() + "/ca.crt").status()));
}

TEST_F(JoinRunTest, NobodyIsTrustedForStandingBehindTheRunsAuthority) {
  Serve(*own_);
  coordinator_.shown = own_->certificate() + other_->certificate();
  coordinator_.handed_out = "";  // so only `shown` remains
  coordinator_.signing = own_.get();
  const absl::Status status = Join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(coordinator_.joins, 1);
  EXPECT_EQ(ReadTextFile(folder() + "/ca.crt").value(), own_->certificate());
}

TEST_F(JoinRunTest, AllWhomTheRunTrustsAreTrusted) {
  // While one authority replaces another; by the coordinator's own word, over its channel.
  Serve(*own_);
  coordinator_.shown = own_->certificate();
  coordinator_.handed_out = other_->certificate() + own_->certificate();
  coordinator_.signing = other_.get();
  const absl::Status status = Join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadTextFile(folder() + "/ca.crt").value(), coordinator_.handed_out);
}

}  // namespace
}  // namespace longwave
