#include "server/service/expelled_list.h"

#include "gtest/gtest.h"

namespace longwave {
namespace {

CertificateInfo Naming(const std::vector<Identity>& identities) {
  CertificateInfo info;
  info.identities = identities;
  return info;
}

TEST(ExpelledList, RefusesWhoIsOnIt) {
  ExpelledList list;
  EXPECT_EQ(list.version(), 0u);
  EXPECT_FALSE(list.Admit(Naming({WorkerIdentity("a")})).has_value());
  list.Set({5, {"a", "b"}});
  EXPECT_EQ(list.version(), 5u);
  const auto refusal = list.Admit(Naming({WorkerIdentity("a")}));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, Refusal::kExpelled);
  EXPECT_EQ(refusal->status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(list.Admit(Naming({WorkerIdentity("c")})).has_value());
  list.Set({6, {"b"}});
  EXPECT_FALSE(list.Admit(Naming({WorkerIdentity("a")})).has_value()) << "it may again";
}

TEST(ExpelledList, RefusesACertificateWholeThatNamesAnExpelledWorker) {
  ExpelledList list;
  list.Set({5, {"a", "b"}});
  EXPECT_TRUE(list.Admit(Naming({WorkerIdentity("a"), WorkerIdentity("b")})).has_value());
  EXPECT_TRUE(list.Admit(Naming({WorkerIdentity("c"), WorkerIdentity("a")})).has_value());
  EXPECT_TRUE(list.Admit(Naming({OperatorIdentity(), WorkerIdentity("a")})).has_value());
  EXPECT_FALSE(list.Admit(Naming({WorkerIdentity("c"), WorkerIdentity("d")})).has_value());
  EXPECT_FALSE(list.Admit(Naming({ShardIdentity(1), OperatorIdentity()})).has_value());
  EXPECT_FALSE(list.Admit(Naming({})).has_value());
}

}  // namespace
}  // namespace longwave
