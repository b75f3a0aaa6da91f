// The services that a stranger with gRPC's tools finds: health and reflection.
#include <memory>
#include <string>

#include "common/rpc/rpc_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/idle_handlers.h"
#include "tests/support/raw_call.h"

namespace longwave {
namespace {

TEST(ServiceDiscovery, HealthSaysServing) {
  IdleShard handler;
  const auto server = RpcServer::Start("127.0.0.1:0", &handler);
  ASSERT_TRUE(server.ok()) << server.status();
  // HealthCheckResponse{status = SERVING (1)}.
  EXPECT_EQ(CallRaw((*server)->address(), "/grpc.health.v1.Health/Check", ""), "\x08\x01");
}

TEST(ServiceDiscovery, ReflectionListsTheService) {
  IdleShard handler;
  const auto server = RpcServer::Start("127.0.0.1:0", &handler);
  ASSERT_TRUE(server.ok()) << server.status();
  // ServerReflectionRequest{list_services = ""}: field 7, of length 0.
  EXPECT_THAT(CallRaw((*server)->address(),
                      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                      std::string("\x3a\x00", 2)),
              ::testing::HasSubstr("longwave.v1.ShardService"));
}

}  // namespace
}  // namespace longwave
