#include "common/rpc/health_server.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/raw_call.h"

namespace longwave {
namespace {

constexpr int kServing = 1;
constexpr int kNotServing = 2;

TEST(HealthServer, IsAliveAtOnceAndReadyWhenItIsTold) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  EXPECT_EQ(ProbeHealth(address, ""), kServing);
  EXPECT_EQ(ProbeHealth(address, HealthServer::kReadyService), kNotServing);
  (*server)->SetReady(true);
  EXPECT_EQ(ProbeHealth(address, HealthServer::kReadyService), kServing);
  (*server)->SetReady(false);
  EXPECT_EQ(ProbeHealth(address, HealthServer::kReadyService), kNotServing);
  EXPECT_EQ(ProbeHealth(address, ""), kServing);
}

TEST(HealthServer, SaysWhyItCannotListen) {
  const auto first = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = HealthServer::Start((*first)->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), ::testing::HasSubstr("the port is in use"));
  EXPECT_EQ(HealthServer::Start("nowhere").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longwave
