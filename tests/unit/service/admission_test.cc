// Admission to a coordinator's run, with its files: keys, names, and the exchange of an authority.
#include "server/service/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/new_file.h"
#include "common/config/config.h"
#include "common/security/credentials.h"
#include "common/security/token.h"
#include "server/service/names_known.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kHour = absl::Hours(1);

// A machine that joins, with its key and its certificate's content.
struct Machine {
  std::string request;
  CertificateInfo certificate;
};

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() : config_(DefaultConfig()) {}

  absl::Status TryOpen() {
    admission_.reset();
    auto opened = Admission::Open({.config = config_,
                                   .credentials = folder(),
                                   .book_folder = folder_.path(),
                                   .address = "127.0.0.1:7070",
                                   .clock = [this] { return MonotonicNow() + later_; }});
    if (!opened.ok()) return opened.status();
    admission_ = *std::move(opened);
    return absl::OkStatus();
  }
  void Open() {
    const absl::Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string CreateToken(const std::string& subject, uint32_t uses = 1) {
    const auto token = admission_->CreateToken({.life = kHour, .uses = uses, .subject = subject});
    EXPECT_TRUE(token.ok()) << token.status();
    return token.ok() ? token->token : "";
  }
  static Machine NewMachine() { return {.request = *MakeRequest(*MakeKey()), .certificate = {}}; }
  absl::StatusOr<JoinAnswer> Join(const std::string& token, const Identity& subject,
                                  Machine* machine, const std::vector<std::string>& hosts = {}) {
    auto answer = admission_->Join(
        {.token = token, .subject = subject, .request = machine->request, .hosts = hosts}, false,
        std::nullopt);
    if (answer.ok()) machine->certificate = *ReadCertificate(answer->certificate);
    return answer;
  }
  // A new machine that has joined with the token.
  Machine Joined(const std::string& token, const Identity& subject) {
    Machine machine = NewMachine();
    EXPECT_TRUE(Join(token, subject, &machine).ok());
    return machine;
  }
  Machine Joined(const std::string& worker) {
    return Joined(CreateToken("worker/"), WorkerIdentity(worker));
  }
  // A new machine whose key the authority has certified without a token.
  Machine Certified(const std::vector<Identity>& identities) const {
    Machine machine = NewMachine();
    const auto made =
        (*LoadAuthority(folder()))->Issue(machine.request, identities, {}, {absl::Now(), kHour});
    EXPECT_TRUE(made.ok()) << made.status();
    machine.certificate = *ReadCertificate(*made);
    return machine;
  }
  bool Admits(const Machine& machine) {
    return !admission_->Admit(machine.certificate).has_value();
  }
  Refusal MustRefuse(const Machine& machine) {
    const auto refusal = admission_->Admit(machine.certificate);
    EXPECT_TRUE(refusal.has_value());
    EXPECT_FALSE(refusal && refusal->status.ok());
    return refusal ? refusal->reason : Refusal::kToken;
  }
  // Until the files that were changed are read again.
  template <typename IsSo>
  static void Await(const IsSo& is_so) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (!is_so()) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(50));
    }
  }
  void Write(const char* file, const std::string& text) {
    ASSERT_TRUE(WriteFile(folder() + "/" + file, text, kSecretFile).ok());
  }

  std::string folder() const { return folder_.path() + "/security"; }
  std::string book_file() const { return folder_.path() + "/admission"; }

  RunConfig config_;
  absl::Duration later_;  // offset of the simulated clock
  TestFolder folder_;
  std::unique_ptr<Admission> admission_;
};

TEST_F(AdmissionTest, ANameIsItsKeysAlone) {
  Open();
  const Machine stolen = Joined("w");
  EXPECT_TRUE(Admits(stolen));
  ASSERT_TRUE(admission_->RenewCertificate(stolen.certificate, stolen.request).ok());
  ASSERT_TRUE(admission_->Expel("w", false).ok());
  EXPECT_EQ(MustRefuse(stolen), Refusal::kExpelled);
  ASSERT_TRUE(admission_->Expel("w", true).ok());
  EXPECT_EQ(MustRefuse(stolen), Refusal::kWrongName) << "nor by the expulsion's end";
  EXPECT_FALSE(admission_->RenewCertificate(stolen.certificate, stolen.request).ok());
  EXPECT_TRUE(Admits(Joined("w")));
  // The certificate of the machine that was lost is good for years; the name is not its any more.
  EXPECT_EQ(MustRefuse(stolen), Refusal::kWrongName);
  EXPECT_FALSE(admission_->RenewCertificate(stolen.certificate, stolen.request).ok());
  Open();
  EXPECT_EQ(MustRefuse(stolen), Refusal::kWrongName) << "also after a restart";
}

// By an expulsion's end alone, where no token could be made for it.
TEST_F(AdmissionTest, WithoutTheAuthoritysKeyAnExpulsionIsUndoneWhole) {
  Open();
  const Machine worker = Joined("w");
  std::filesystem::remove(folder() + "/ca.key");
  Open();
  ASSERT_TRUE(admission_->Expel("w", false).ok());
  EXPECT_EQ(MustRefuse(worker), Refusal::kExpelled);
  ASSERT_TRUE(admission_->Expel("w", true).ok());
  EXPECT_TRUE(Admits(worker));
}

// A shard admits whom the coordinator admits.
TEST_F(AdmissionTest, ShardsHearWhoseNamesAre) {
  Open();
  NamesKnown shard;
  const auto hear = [&] {
    const auto names = admission_->NewerNames(shard.version());
    if (names) shard.Set(*names);
    return names.has_value();
  };
  EXPECT_TRUE(hear());
  EXPECT_FALSE(hear()) << "once";
  const Machine before = Joined("w");
  EXPECT_TRUE(hear());
  EXPECT_FALSE(shard.Admit(before.certificate).has_value());
  const Machine after = Joined(CreateToken("worker/w"), WorkerIdentity("w"));
  EXPECT_TRUE(hear());
  EXPECT_TRUE(shard.Admit(before.certificate).has_value());
  EXPECT_FALSE(shard.Admit(after.certificate).has_value());
  ASSERT_TRUE(admission_->Expel("w", false).ok());
  EXPECT_TRUE(hear());
  EXPECT_EQ(shard.Admit(after.certificate)->reason, Refusal::kExpelled);
  ASSERT_TRUE(admission_->Expel("w", true).ok());
  EXPECT_TRUE(hear());
  EXPECT_EQ(shard.Admit(after.certificate)->reason, Refusal::kWrongName);
}

// A stolen certificate must end with its time.
TEST_F(AdmissionTest, AnOperatorsCertificateIsNotRenewedByACall) {
  Open();
  for (const std::vector<Identity>& identities :
       {std::vector{OperatorIdentity()}, std::vector{CoordinatorIdentity()},
        std::vector{WorkerIdentity("w"), OperatorIdentity()}}) {
    const Machine machine = Certified(identities);
    const absl::Status status =
        admission_->RenewCertificate(machine.certificate, machine.request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  }
}

TEST_F(AdmissionTest, ATokenIsLookedUpBeforeTheRequestIsVerified) {
  Open();
  Token token = *ParseToken(CreateToken("worker/"));
  token.secret = std::string(Token::kSecretChars, 'a');
  Machine junk = {.request = "no request", .certificate = {}};
  EXPECT_EQ(Join(FormatToken(token), WorkerIdentity("w"), &junk).status().code(),
            absl::StatusCode::kPermissionDenied);
}

// Kubernetes mounts given certificates read-only.
TEST_F(AdmissionTest, DoesWithoutAnOperatorsFolderWhereNoneCanBeMade) {
  Open();
  std::filesystem::remove_all(folder() + "/operator");
  Write("operator", "no folder");
  Open();
  EXPECT_FALSE(CreateToken("worker/").empty());
}

TEST_F(AdmissionTest, AShardsIndexIsItsKeysAlone) {
  Open();
  const Machine before = Joined(CreateToken("shard/0"), ShardIdentity(0));
  EXPECT_TRUE(Admits(before));
  const Machine after = Joined(CreateToken("shard/0"), ShardIdentity(0));
  EXPECT_EQ(MustRefuse(before), Refusal::kWrongName);
  EXPECT_TRUE(Admits(after));
}

TEST_F(AdmissionTest, NamesThatNoTokenHasGivenAreWhoseTheCertificateSays) {
  Open();
  const Machine one = Certified({WorkerIdentity("a"), WorkerIdentity("b")});
  const Machine other = Certified({WorkerIdentity("a")});
  EXPECT_TRUE(Admits(one));
  EXPECT_TRUE(Admits(other));
  for (const Identity& identity : {OperatorIdentity(), CoordinatorIdentity()})
    EXPECT_TRUE(Admits(Certified({identity})));
  // Of several names, those that still belong to the key are renewed.
  Joined(CreateToken("worker/a"), WorkerIdentity("a"));
  EXPECT_EQ(MustRefuse(other), Refusal::kWrongName);
  EXPECT_TRUE(Admits(one));
  const auto renewed = admission_->RenewCertificate(one.certificate, one.request);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_THAT(ReadCertificate(*renewed)->identities, ElementsAre(WorkerIdentity("b")));
}

// The holder could be any of the named workers, and would come back as another.
TEST_F(AdmissionTest, ACertificateOfSeveralIsRefusedWholeOnceOneIsExpelledAndThatIsSaidBefore) {
  Open();
  const Machine shared =
      Certified({WorkerIdentity("w0"), WorkerIdentity("w1"), WorkerIdentity("w2")});
  const Machine alone = Certified({WorkerIdentity("w1")});
  EXPECT_TRUE(Admits(shared));
  EXPECT_TRUE(Admits(alone));

  const absl::Status warned = admission_->Expel("w0", false).status();
  EXPECT_EQ(warned.code(), absl::StatusCode::kFailedPrecondition) << warned;
  EXPECT_THAT(std::string(warned.message()), HasSubstr("w1, w2"));
  EXPECT_THAT(std::string(warned.message()), HasSubstr("--all-of-it"));
  EXPECT_TRUE(Admits(shared)) << "nothing has happened";

  ASSERT_TRUE(admission_->Expel("w0", false, true).ok());
  EXPECT_EQ(MustRefuse(shared), Refusal::kExpelled);
  EXPECT_TRUE(Admits(alone)) << "that is not the certificate";
  EXPECT_TRUE(admission_->Expel("w1", false).ok()) << "the shared one is refused already";
  ASSERT_TRUE(admission_->Expel("w1", true).ok());
  ASSERT_TRUE(admission_->Expel("w0", true).ok());
  EXPECT_TRUE(Admits(shared));
}

// Presented certificates of one worker do not displace those of several workers.
TEST_F(AdmissionTest, CertificatesOfOneWorkerDoNotHaveSharedOnesForgotten) {
  Open();
  uint32_t made = 0;
  const auto show = [&](const std::vector<Identity>& identities) {
    const CertificateInfo shown{.identities = identities,
                                .fingerprint = Sha256(absl::StrCat("certificate ", ++made))};
    EXPECT_FALSE(admission_->Admit(shown).has_value());
  };
  constexpr int kAsManyAsAreKept = 1024;
  for (int i = 0; i < kAsManyAsAreKept; ++i) show({WorkerIdentity("w0"), WorkerIdentity("w1")});
  show({WorkerIdentity("w2"), OperatorIdentity()});
  const absl::Status warned = admission_->Expel("w0", false).status();
  EXPECT_EQ(warned.code(), absl::StatusCode::kFailedPrecondition) << warned;
  EXPECT_THAT(std::string(warned.message()), HasSubstr("names w1 too"));
}

TEST_F(AdmissionTest, ARenewalIsForTheCallersKeyAndKeepsItsHosts) {
  Open();
  Machine shard = NewMachine();
  ASSERT_TRUE(
      Join(CreateToken("shard/1"), ShardIdentity(1), &shard, {"shard-1.example", "10.1.2.3", "::1"})
          .ok());
  const auto renewed = admission_->RenewCertificate(shard.certificate, shard.request);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_THAT(ReadCertificate(*renewed)->hosts, ElementsAre("shard-1.example", "10.1.2.3", "::1"));
  EXPECT_EQ(ReadCertificate(*renewed)->key_fingerprint, shard.certificate.key_fingerprint);
  const absl::Status other =
      admission_->RenewCertificate(shard.certificate, NewMachine().request).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied) << other;
}

TEST_F(AdmissionTest, ItsOwnCertificateKeepsItsHosts) {
  Open();
  const auto before = ReadCredentials(folder());
  ASSERT_TRUE(before.ok());
  const auto renewed =
      admission_->RenewOwn(CoordinatorIdentity(), folder(), *MakeRequest(before->key));
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_THAT(ReadCertificate(*renewed)->hosts, Contains("localhost"));
  EXPECT_EQ(ReadCertificate(*renewed)->hosts, ReadCertificate(before->certificate)->hosts);
  EXPECT_THAT(ReadCertificate(*renewed)->identities, ElementsAre(CoordinatorIdentity()));
}

TEST_F(AdmissionTest, ExpellingRevokesWhatTheWorkerHasJoinedWith) {
  Open();
  const std::string token = CreateToken("worker/", 5);
  Joined(token, WorkerIdentity("w"));
  const auto expulsion = admission_->Expel("w", false);
  ASSERT_TRUE(expulsion.ok()) << expulsion.status();
  ASSERT_EQ(expulsion->revoked.size(), 1u);
  EXPECT_EQ(expulsion->revoked.front().id, ParseToken(token)->id);
  EXPECT_EQ(expulsion->revoked.front().uses - expulsion->revoked.front().used, 4u);
  EXPECT_TRUE(expulsion->also_joined.empty());
  Machine again = NewMachine();
  EXPECT_EQ(Join(token, WorkerIdentity("another"), &again).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(admission_->CheckWorker("w").ok());
  EXPECT_TRUE(admission_->CheckWorker("another").ok());
}

// A machine with a token of several uses may have put an identity by.
TEST_F(AdmissionTest, ExpellingTellsWhoElseTheTokensLetIn) {
  Open();
  const std::string token = CreateToken("worker/", 3);
  Joined(token, WorkerIdentity("a"));
  const Machine spare = Joined(token, WorkerIdentity("b"));
  Joined("c");
  const auto first = admission_->Expel("a", false);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->also_joined, ElementsAre("b"));
  EXPECT_TRUE(Admits(spare));
  const auto second = admission_->Expel("b", false);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->also_joined.empty()) << "a is out already";
}

TEST_F(AdmissionTest, OneAuthorityTakesThePlaceOfAnotherWithoutARestart) {
  Open();
  const auto before = LoadAuthority(folder());
  const auto after = Authority::Make("the new one", absl::Now());
  ASSERT_TRUE(before.ok() && after.ok());
  const auto signs = [&](const Authority& authority) {
    const auto shown = admission_->GetAuthority();
    return shown.ok() && *shown == authority.certificate();
  };
  EXPECT_TRUE(signs(**before));
  // Both are trusted, the new one first; the old one signs as long as its key is there.
  const std::string both = (*after)->certificate() + (*before)->certificate();
  Write("ca.crt", both);
  Machine early = NewMachine(), late = NewMachine();
  const auto answer = Join(CreateToken("worker/"), WorkerIdentity("early"), &early);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->authority, both);
  EXPECT_TRUE(
      (*Trust::Create((*before)->certificate()))->Verify(answer->certificate, absl::Now()).ok());
  // The new key replaces the file: it signs from then on, also renewals of the old one's
  // certificates.
  Write("ca.key", (*after)->key());
  Await([&] { return signs(**after); });
  Write("ca.crt", (*after)->certificate());
  const auto trust = Trust::Create((*after)->certificate());
  const auto renewed = admission_->RenewCertificate(early.certificate, early.request);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_TRUE((*trust)->Verify(*renewed, absl::Now()).ok());
  const auto joined = Join(CreateToken("worker/"), WorkerIdentity("late"), &late);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE((*trust)->Verify(joined->certificate, absl::Now()).ok());
  EXPECT_EQ(joined->authority, (*after)->certificate());
}

TEST_F(AdmissionTest, AnAuthorityThatIsTrustedNoMoreSignsNothing) {
  Open();
  const auto before = LoadAuthority(folder());
  const auto after = Authority::Make("the new one", absl::Now());
  ASSERT_TRUE(before.ok() && after.ok());
  const std::string token = CreateToken("worker/");
  Machine worker = Joined(token, WorkerIdentity("w"));
  // ca.key is forgotten.
  Write("ca.crt", (*after)->certificate());
  const absl::Status status =
      admission_->RenewCertificate(worker.certificate, worker.request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ca.key"));
  EXPECT_EQ(Join(token, WorkerIdentity("w"), &worker).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(admission_->GetAuthority().status().code(), absl::StatusCode::kFailedPrecondition);
  // With the key back, all calls work again.
  Write("ca.key", (*after)->key());
  Await([&] { return admission_->GetAuthority().ok(); });
}

TEST_F(AdmissionTest, FilesThatAreHalfExchangedLeaveTheAuthorityThatIsKnown) {
  Open();
  const std::string known = admission_->GetAuthority().value();
  const std::string key = ReadTextFile(folder() + "/ca.key").value();
  Write("ca.key", key.substr(0, key.size() / 2));
  later_ += absl::Seconds(2);  // the files are looked at again
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(admission_->GetAuthority().value(), known);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("cannot be used"));
  std::filesystem::remove(folder() + "/ca.key");
  later_ += absl::Seconds(2);
  EXPECT_EQ(admission_->GetAuthority().value(), known);
}

TEST_F(AdmissionTest, StartsWhereTheOneBeforeEndedBetweenItsTwoFiles) {
  ASSERT_TRUE(MakeSecretFolder(folder()).ok());
  const std::string key = MakeKey().value();
  Write("ca.key", key);
  Open();
  EXPECT_EQ(ReadTextFile(folder() + "/ca.key").value(), key);
  const Machine worker = Joined("w");
  Open();
  EXPECT_TRUE(Admits(worker));
}

TEST_F(AdmissionTest, StartsAgainWithABookOfManyWorkers) {
  Open();
  AdmissionBook book;
  constexpr uint32_t kJoined = 6000;
  const absl::Time now = absl::Now();
  ASSERT_TRUE(book.Create("t", {}, AdmissionBook::kAnyWorker, kHour, kJoined, now).ok());
  for (uint32_t i = 0; i < kJoined; ++i) {
    const std::string subject = absl::StrCat("worker/", std::string(100, 'w'), i);
    ASSERT_TRUE(book.Redeem("t", {}, subject, Sha256(subject), false, now).ok());
  }
  const std::vector<std::byte> bytes = book.Encode();
  ASSERT_GT(bytes.size(), kTextFileBytesMax);
  ASSERT_TRUE(WriteFile(book_file(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                        kSecretFile)
                  .ok());
  Open();
  const Machine one_more = Joined("w");
  EXPECT_EQ(std::filesystem::status(book_file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Open();
  EXPECT_TRUE(Admits(one_more));
  EXPECT_EQ(admission_->ListTokens()->tokens.size(), 2u);
}

}  // namespace
}  // namespace longwave
