#include "common/rpc/certificate_keeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/security/credentials.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

std::unique_ptr<Authority> NewAuthority() {
  auto authority = Authority::Make("test", absl::Now() - absl::Hours(48));
  EXPECT_TRUE(authority.ok()) << authority.status();
  return *std::move(authority);
}

class CertificateKeeperTest : public ::testing::Test {
 protected:
  // Credentials that are good, and due to be renewed.
  Credentials DueForRenewal(const Authority& by) const {
    auto made = MakeCredentials(by, {WorkerIdentity("w")}, {},
                                {absl::Now() - absl::Hours(3), absl::Hours(4)});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  // Lets a keeper renew once, with `answer` as the reply to its request.
  void RenewBy(const std::function<std::string(const std::string&)>& answer) const {
    std::promise<void> asked;
    bool first = true;  // the keeper's thread's
    const auto keeper = CertificateKeeper::Start(
        folder_.path(), [&](const std::string& request) -> absl::StatusOr<std::string> {
          if (!std::exchange(first, false)) return absl::UnavailableError("once is enough");
          std::string certificate = answer(request);
          asked.set_value();
          return certificate;
        });
    asked.get_future().wait();
  }  // waits for the renewal to end
  std::string Issue(const Authority& by, const std::string& request) const {
    auto certificate = by.Issue(request, {WorkerIdentity("w")}, {}, {absl::Now(), absl::Hours(4)});
    EXPECT_TRUE(certificate.ok()) << certificate.status();
    return *std::move(certificate);
  }
  Credentials Read() const {
    auto read = ReadCredentials(folder_.path());
    EXPECT_TRUE(read.ok()) << read.status();
    return *std::move(read);
  }

  TestFolder folder_;
  const std::unique_ptr<Authority> authority_ = NewAuthority();
};

TEST_F(CertificateKeeperTest, RenewsWhatIsDueWithTheSameKey) {
  const Credentials before = DueForRenewal(*authority_);
  ASSERT_TRUE(WriteCredentials(folder_.path(), before).ok());
  std::string renewed;
  RenewBy([&](const std::string& request) { return renewed = Issue(*authority_, request); });
  EXPECT_EQ(Read().certificate, renewed);
  EXPECT_EQ(Read().key, before.key);
}

// As of a coordinator that is started at the same time.
TEST_F(CertificateKeeperTest, AsksAgainSoonAfterItWasNotAnswered) {
  ASSERT_TRUE(WriteCredentials(folder_.path(), DueForRenewal(*authority_)).ok());
  std::promise<void> asked_again;
  int requests = 0;  // the keeper's thread's
  const auto keeper = CertificateKeeper::Start(
      folder_.path(), [&](const std::string&) -> absl::StatusOr<std::string> {
        if (++requests == 2) asked_again.set_value();
        return absl::UnavailableError("nobody answers");
      });
  EXPECT_EQ(asked_again.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

// A coordinator issues such a certificate while its clock is ahead.
TEST_F(CertificateKeeperTest, RenewsACertificateThatIsNotValidYet) {
  const auto early = MakeCredentials(*authority_, {WorkerIdentity("w")}, {},
                                     {absl::Now() + absl::Hours(3), absl::Hours(4)});
  ASSERT_TRUE(early.ok() && WriteCredentials(folder_.path(), *early).ok());
  std::string renewed;
  RenewBy([&](const std::string& request) { return renewed = Issue(*authority_, request); });
  EXPECT_EQ(Read().certificate, renewed);
}

TEST_F(CertificateKeeperTest, KeepsAGoodCertificateRatherThanOneThatNobodyTrusts) {
  // The coordinator signs with a key whose certificate ca.crt no longer has.
  const Credentials before = DueForRenewal(*authority_);
  ASSERT_TRUE(WriteCredentials(folder_.path(), before).ok());
  const auto retired = NewAuthority();
  RenewBy([&](const std::string& request) { return Issue(*retired, request); });
  EXPECT_EQ(Read().certificate, before.certificate);
}

TEST_F(CertificateKeeperTest, LeavesCredentialsThatWereExchangedMeanwhile) {
  ASSERT_TRUE(WriteCredentials(folder_.path(), DueForRenewal(*authority_)).ok());
  const Credentials exchanged = DueForRenewal(*authority_);
  RenewBy([&](const std::string& request) {
    EXPECT_TRUE(WriteCredentials(folder_.path(), exchanged).ok());
    return Issue(*authority_, request);
  });
  EXPECT_EQ(Read().certificate, exchanged.certificate);
  EXPECT_EQ(Read().key, exchanged.key);
  EXPECT_TRUE(CheckCredentials(folder_.path(), WorkerIdentity("w"), absl::Now()).ok());
}

}  // namespace
}  // namespace longwave
