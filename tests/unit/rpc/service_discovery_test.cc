// What a stranger with gRPC's own tools meets: health and reflection, beside the service.
#include <memory>
#include <string>

#include "common/rpc/rpc_server.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

struct IdleShard final : ShardHandler {
  absl::StatusOr<ShardReport> GetStatus() override { return ShardReport{}; }
};

// The bytes that `method` answers to the bytes `request`.
std::string CallRaw(const std::string& address, const std::string& method,
                    const std::string& request) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  queue.Next(&tag, &ok);
  call->Write(sent, &tag);
  queue.Next(&tag, &ok);
  call->WritesDone(&tag);
  queue.Next(&tag, &ok);
  call->Read(&received, &tag);
  queue.Next(&tag, &ok);
  call->Finish(&status, &tag);
  queue.Next(&tag, &ok);
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (received.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) {
      bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  return bytes;
}

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
