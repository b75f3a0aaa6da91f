#include "common/security/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/new_file.h"
#include "common/security/credentials.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kCertificateTime = absl::FromUnixSeconds(1'900'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

std::unique_ptr<Authority> NewAuthority() {
  auto authority = Authority::Make("test", kCertificateTime);
  EXPECT_TRUE(authority.ok()) << authority.status();
  return *std::move(authority);
}

Credentials Make(const Authority& authority, const std::vector<Identity>& identities,
                 const std::vector<std::string>& hosts = {}) {
  auto made = MakeCredentials(authority, identities, hosts, {kCertificateTime, kDay});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

TEST(Certificates, SayWhoseTheyAreAndHowLong) {
  const auto authority = NewAuthority();
  const Credentials made =
      Make(*authority, {WorkerIdentity("a,b URI:longwave:operator"), ShardIdentity(3)},
           {"host.example", "10.1.2.3", "::1"});
  const auto trust = Trust::Create(made.authority);
  ASSERT_TRUE(trust.ok());
  const auto info = (*trust)->Verify(made.certificate, kCertificateTime);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->identities,
              ElementsAre(WorkerIdentity("a,b URI:longwave:operator"), ShardIdentity(3)));
  EXPECT_THAT(info->hosts, ElementsAre("host.example", "10.1.2.3", "::1"));
  EXPECT_EQ(info->not_after, kCertificateTime + kDay);
  EXPECT_FALSE(info->is_authority);
  EXPECT_GT(RenewalDue(*info), kCertificateTime + kDay / 2);
  EXPECT_LT(RenewalDue(*info), kCertificateTime + kDay);
  EXPECT_TRUE(CheckPair(made.certificate, made.key).ok());
  EXPECT_FALSE(CheckPair(made.certificate, authority->key()).ok());
}

TEST(Certificates, OfAnotherAuthorityOrTimeAreRefusedForIt) {
  const auto authority = NewAuthority(), other = NewAuthority();
  const Credentials made = Make(*authority, {OperatorIdentity()});
  const auto trust = Trust::Create(authority->certificate());
  const auto stranger = Trust::Create(other->certificate());
  ASSERT_TRUE(trust.ok() && stranger.ok());
  EXPECT_EQ((*stranger)->Verify(made.certificate, kCertificateTime).status().code(),
            absl::StatusCode::kUnauthenticated);
  const auto late = (*trust)->Verify(made.certificate, kCertificateTime + kDay + absl::Seconds(1));
  EXPECT_EQ(late.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("has expired"));
  const auto years_late = (*trust)->Verify(made.certificate, kCertificateTime + 100 * 365 * kDay);
  EXPECT_THAT(std::string(years_late.status().message()), HasSubstr("authority that has expired"));
  const auto early = (*trust)->Verify(made.certificate, kCertificateTime - kDay);
  EXPECT_THAT(std::string(early.status().message()), HasSubstr("not valid yet"));
  EXPECT_EQ((*trust)->Verify("no certificate", kCertificateTime).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Certificates, OfAProcessSignNoOthers) {
  const auto authority = NewAuthority();
  const Credentials made = Make(*authority, {WorkerIdentity("a")});
  EXPECT_FALSE(Authority::Load(made.certificate, made.key).ok());
  EXPECT_FALSE(Authority::Load(authority->certificate(), made.key).ok());
  EXPECT_TRUE(Authority::Load(authority->certificate(), authority->key()).ok());
}

TEST(Certificates, OfOldAndNewAuthorityAreGoodWhileTheFileHasBoth) {
  const auto before = NewAuthority(), after = NewAuthority();
  const auto trust = Trust::Create(before->certificate() + after->certificate());
  ASSERT_TRUE(trust.ok());
  EXPECT_TRUE(
      (*trust)->Verify(Make(*before, {OperatorIdentity()}).certificate, kCertificateTime).ok());
  EXPECT_TRUE(
      (*trust)->Verify(Make(*after, {OperatorIdentity()}).certificate, kCertificateTime).ok());
}

TEST(Certificates, OfAnAuthorityAreFoundByItsKeyWhereverTheyStand) {
  const auto before = NewAuthority(), after = NewAuthority();
  for (const std::string& file : {before->certificate() + after->certificate(),
                                  after->certificate() + before->certificate()}) {
    for (const Authority* const one : {before.get(), after.get()}) {
      const auto loaded = Authority::Load(file, one->key());
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ((*loaded)->certificate(), one->certificate());
    }
    EXPECT_FALSE(Authority::Load(file, NewAuthority()->key()).ok());
  }
}

TEST(Certificates, AreTakenFromATextWithoutWhatElseIsInIt) {
  const auto one = NewAuthority(), other = NewAuthority();
  const std::string text =
      absl::StrCat("# ours\n", one->certificate(), one->key(), other->certificate());
  EXPECT_EQ(FirstCertificate(text).value(), one->certificate());
  EXPECT_EQ(CertificatesAlone(text).value(), one->certificate() + other->certificate());
  const auto infos = ReadCertificates(text);
  ASSERT_TRUE(infos.ok() && infos->size() == 2);
  EXPECT_EQ(infos->back().fingerprint, other->info().fingerprint);
  EXPECT_FALSE(FirstCertificate("none").ok());
  EXPECT_FALSE(CertificatesAlone("none").ok());
}

TEST(Certificates, AreIssuedToRequestsThatAreSignedAlone) {
  const auto authority = NewAuthority();
  const auto key = MakeKey();
  ASSERT_TRUE(key.ok());
  auto request = MakeRequest(*key);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(ReadRequest(*request).ok());
  EXPECT_EQ(*ReadRequest(*request), *ReadRequest(*MakeRequest(*key))) << "a key is the same key";
  EXPECT_FALSE(authority->Issue("junk", {OperatorIdentity()}, {}, {kCertificateTime, kDay}).ok());
  EXPECT_FALSE(authority->Issue(*request, {}, {}, {kCertificateTime, kDay}).ok());
  EXPECT_FALSE(
      authority
          ->Issue(std::string(1 << 20, 'a'), {OperatorIdentity()}, {}, {kCertificateTime, kDay})
          .ok());
}

class CredentialsFolderTest : public ::testing::Test {
 protected:
  const TestFolder temporary_;
  const std::string folder_ = temporary_.path() + "/credentials";
};

TEST_F(CredentialsFolderTest, IsReadAsItWasWrittenAndTheKeyIsItsOwnersAlone) {
  const auto authority = NewAuthority();
  const Credentials made = Make(*authority, {ShardIdentity(1)});
  ASSERT_TRUE(WriteCredentials(folder_, made).ok());
  const auto read = ReadCredentials(folder_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key, made.key);
  EXPECT_EQ(read->certificate, made.certificate);
  struct stat status {};
  ASSERT_EQ(stat((folder_ + "/tls.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CredentialsFolderTest, IsRefusedWithWhatIsWrongInIt) {
  const auto missing = CheckCredentials(folder_, ShardIdentity(1), kCertificateTime);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("longwave join"));
  const auto authority = NewAuthority();
  Credentials made = Make(*authority, {ShardIdentity(1)});
  ASSERT_TRUE(WriteCredentials(folder_, made).ok());
  EXPECT_TRUE(CheckCredentials(folder_, ShardIdentity(1), kCertificateTime).ok());
  const auto refused = [&](const Identity& identity, absl::Time now) {
    return std::string(CheckCredentials(folder_, identity, now).status().message());
  };
  EXPECT_THAT(refused(ShardIdentity(2), kCertificateTime),
              HasSubstr("names shard 1, wanted shard 2"));
  EXPECT_THAT(refused(ShardIdentity(1), kCertificateTime + 2 * kDay), HasSubstr("has expired"));
  made.key = *MakeKey();
  ASSERT_TRUE(WriteCredentials(folder_, made).ok());
  EXPECT_THAT(refused(ShardIdentity(1), kCertificateTime), HasSubstr("not a pair"));
  made.authority = NewAuthority()->certificate();
  ASSERT_TRUE(WriteCredentials(folder_, made).ok());
  EXPECT_THAT(refused(ShardIdentity(1), kCertificateTime), HasSubstr("another authority"));
}

TEST_F(CredentialsFolderTest, GetsAnAuthorityOnce) {
  const auto made = LoadOrMakeAuthority(folder_, kCertificateTime);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto again = LoadOrMakeAuthority(folder_, kCertificateTime);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->certificate(), (*made)->certificate());
  EXPECT_EQ((*again)->key(), (*made)->key());
}

TEST_F(CredentialsFolderTest, WithAnAuthoritysKeyAloneGetsItsCertificate) {
  // A process ended between the two writes, or an operator gave the key alone, which must not be
  // lost.
  const auto before = NewAuthority();
  ASSERT_TRUE(MakeSecretFolder(folder_).ok());
  ASSERT_TRUE(WriteFile(folder_ + "/ca.key", before->key(), kSecretFile).ok());
  const auto made = LoadOrMakeAuthority(folder_, kCertificateTime);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->key(), before->key());
  const auto loaded = LoadAuthority(folder_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->certificate(), (*made)->certificate());
  EXPECT_TRUE((*Trust::Create((*made)->certificate()))
                  ->Verify(Make(**loaded, {ShardIdentity(1)}).certificate, kCertificateTime)
                  .ok());
  ASSERT_TRUE(WriteFile(folder_ + "/ca.key", "half a k", kSecretFile).ok());
  std::filesystem::remove(folder_ + "/ca.crt");
  const auto refused = LoadOrMakeAuthority(folder_, kCertificateTime);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("without ca.crt"));
}

TEST_F(CredentialsFolderTest, AnAuthoritysCertificateAloneIsKept) {
  const std::string certificate = NewAuthority()->certificate();
  ASSERT_TRUE(MakeSecretFolder(folder_).ok());
  ASSERT_TRUE(WriteFile(folder_ + "/ca.crt", certificate, kPublicFile).ok());
  const auto refused = LoadOrMakeAuthority(folder_, kCertificateTime);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("without ca.key"));
  EXPECT_EQ(ReadTextFile(folder_ + "/ca.crt").value(), certificate);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/ca.key"));
}

TEST_F(CredentialsFolderTest, AFileIsReadUpToItsLimit) {
  ASSERT_TRUE(MakeSecretFolder(folder_).ok());
  const std::string path = folder_ + "/file", text(kTextFileBytesMax + 1, 'a');
  ASSERT_TRUE(WriteFile(path, text, kPublicFile).ok());
  EXPECT_EQ(ReadTextFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadTextFile(path, text.size()).value().size(), text.size());
}

}  // namespace
}  // namespace longwave
