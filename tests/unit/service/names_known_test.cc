#include "server/service/names_known.h"

#include "gtest/gtest.h"

namespace longwave {
namespace {

CertificateInfo Naming(const std::vector<Identity>& identities) {
  CertificateInfo info;
  info.identities = identities;
  info.key_fingerprint = Sha256("a key");
  return info;
}

TEST(NamesKnown, RefusesACertificateWholeThatNamesAnExpelledWorker) {
  NamesKnown names;
  names.Set({5, {"a", "b"}, {}});
  EXPECT_TRUE(names.Admit(Naming({WorkerIdentity("a"), WorkerIdentity("b")})).has_value());
  EXPECT_TRUE(names.Admit(Naming({WorkerIdentity("c"), WorkerIdentity("a")})).has_value());
  EXPECT_TRUE(names.Admit(Naming({OperatorIdentity(), WorkerIdentity("a")})).has_value());
  EXPECT_FALSE(names.Admit(Naming({WorkerIdentity("c"), WorkerIdentity("d")})).has_value());
  EXPECT_FALSE(names.Admit(Naming({ShardIdentity(1), OperatorIdentity()})).has_value());
  EXPECT_FALSE(names.Admit(Naming({})).has_value());
}

TEST(NamesKnown, RefusesACertificateOfANameThatIsAnotherKeys) {
  NamesKnown names;
  CertificateInfo before = Naming({WorkerIdentity("a")}), after = before;
  before.key_fingerprint = Sha256("before");
  after.key_fingerprint = Sha256("after");
  names.Set({5, {}, {{"worker/a", Sha256("after")}, {"worker/b", kNoKey}, {"shard/1", kNoKey}}});
  const auto refusal = names.Admit(before);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, Refusal::kWrongName);
  EXPECT_FALSE(names.Admit(after).has_value());
  // A readmitted name belongs to no key until it has joined again.
  EXPECT_TRUE(names.Admit(Naming({WorkerIdentity("b")})).has_value());
  EXPECT_TRUE(names.Admit(Naming({ShardIdentity(1)})).has_value());
  EXPECT_FALSE(names.Admit(Naming({WorkerIdentity("c")})).has_value()) << "no token has given it";
  before.identities.push_back(WorkerIdentity("c"));
  EXPECT_FALSE(names.Admit(before).has_value()) << "it is another, too";
}

}  // namespace
}  // namespace longwave
