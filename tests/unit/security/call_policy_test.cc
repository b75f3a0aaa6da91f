#include "common/security/call_policy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/new_file.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

const std::vector<Identity> kEverybody = {CoordinatorIdentity(), OperatorIdentity(),
                                          ShardIdentity(0),      ShardIdentity(1),
                                          WorkerIdentity("a"),   WorkerIdentity("b")};

bool May(const CallRights& rights, const std::vector<Identity>& caller) {
  return !CheckCall("Call", rights, caller).has_value();
}

TEST(CallPolicy, OnlyWhoWantsToJoinNeedsNoCertificate) {
  EXPECT_TRUE(May({CallKind::kAnyone, {}}, {}));
  for (const CallKind kind : {CallKind::kMember, CallKind::kSubject, CallKind::kOperator}) {
    const auto refusal = CheckCall("Call", {kind, WorkerIdentity("a")}, {});
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->reason, Refusal::kNoCertificate);
    EXPECT_EQ(refusal->status.code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST(CallPolicy, AProcessSpeaksForItselfAlone) {
  for (const Identity& subject : kEverybody) {
    for (const Identity& caller : kEverybody)
      EXPECT_EQ(May({CallKind::kSubject, subject}, {caller}), subject == caller);
  }
  EXPECT_TRUE(
      May({CallKind::kSubject, WorkerIdentity("b")}, {WorkerIdentity("a"), WorkerIdentity("b")}))
      << "a certificate with several names is good for each";
}

TEST(CallPolicy, OperatorsAndTheCoordinatorDoWhatOperatorsDo) {
  for (const Identity& caller : kEverybody) {
    EXPECT_TRUE(May({CallKind::kMember, {}}, {caller}));
    EXPECT_EQ(May({CallKind::kOperator, {}}, {caller}),
              caller.role == Role::kOperator || caller.role == Role::kCoordinator);
  }
}

TEST(CallerBook, KnowsWhoIsWhoAndRefusesByReason) {
  const absl::Time now = absl::FromUnixSeconds(1'900'000'000);
  const auto authority = Authority::Make("test", now), other = Authority::Make("other", now);
  ASSERT_TRUE(authority.ok() && other.ok());
  const std::string file =
      (std::filesystem::path(::testing::TempDir()) / absl::StrCat("longwave-ca-", getpid(), ".crt"))
          .string();
  ASSERT_TRUE(WriteFile(file, (*authority)->certificate(), kPublicFile).ok());
  const auto book = CallerBook::Open(file);
  ASSERT_TRUE(book.ok()) << book.status();
  const auto made = [&](const Authority& by) {
    return MakeCredentials(by, {WorkerIdentity("a")}, {}, {now, absl::Hours(1)})->certificate;
  };
  const std::string good = made(**authority);
  for (int i = 0; i < 2; ++i) {
    const CallerBook::Caller caller = (*book)->Look(good, good, now);
    EXPECT_FALSE(caller.refusal.has_value());
    EXPECT_EQ(caller.certificate.identities, std::vector{WorkerIdentity("a")});
    EXPECT_EQ(caller.certificate.key_fingerprint, ReadCertificate(good)->key_fingerprint);
  }
  EXPECT_EQ((*book)->Look(good, good, now + absl::Hours(2)).refusal->reason, Refusal::kExpired)
      << "also one that was good before";
  const auto reason_of = [&](const std::string& certificate) {
    return (*book)->Look(certificate, certificate, now).refusal->reason;
  };
  EXPECT_EQ(reason_of(made(**other)), Refusal::kOtherAuthority);
  EXPECT_EQ(reason_of("junk"), Refusal::kBadCertificate);
  EXPECT_EQ(reason_of((*authority)->certificate()), Refusal::kBadCertificate)
      << "an authority is nobody";
  EXPECT_TRUE((*book)->Look("", "", now).certificate.identities.empty());
  // A caller may put something else behind it each time, and the book does not keep it.
  const std::string more_than_is_read(1 << 20, 'x');
  EXPECT_FALSE((*book)->Look(good, good + more_than_is_read, now).refusal.has_value());
  const std::string unknown = made(**authority);
  EXPECT_EQ((*book)->Look(unknown, unknown + more_than_is_read, now).refusal->reason,
            Refusal::kBadCertificate);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace longwave
