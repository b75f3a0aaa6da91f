#ifndef LONGWAVE_TESTS_SUPPORT_RAW_CALL_H_
#define LONGWAVE_TESTS_SUPPORT_RAW_CALL_H_

// gRPC as a stranger speaks it: a method's name and bytes.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace longwave {

// Calls `method` with the bytes `request`. Null: sends only the head of the call, and the request
// never comes. Returns the answer within `deadline`, and its bytes.
inline grpc::Status TryRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           const grpc::ByteBuffer* request, grpc::ByteBuffer* received,
                           std::chrono::seconds deadline, grpc::ClientContext* context) {
  grpc::GenericStub stub(channel);
  context->set_deadline(std::chrono::system_clock::now() + deadline);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(context, method, &queue);
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  queue.Next(&tag, &ok);
  if (request != nullptr) {
    call->WriteLast(*request, grpc::WriteOptions(), &tag);
    queue.Next(&tag, &ok);
  }
  call->Read(received, &tag);
  queue.Next(&tag, &ok);
  call->Finish(&status, &tag);
  queue.Next(&tag, &ok);
  return status;
}

inline grpc::Status CallWithoutRequest(const std::shared_ptr<grpc::Channel>& channel,
                                       const std::string& method) {
  grpc::ClientContext context;
  grpc::ByteBuffer received;
  return TryRaw(channel, method, nullptr, &received, std::chrono::seconds(60), &context);
}

// The bytes that `method` answers to the bytes `request`.
inline std::string CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           const std::string& request) {
  grpc::ClientContext context;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  const grpc::Status status =
      TryRaw(channel, method, &sent, &received, std::chrono::seconds(600), &context);
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

inline std::string CallRaw(const std::string& address, const std::string& method,
                           const std::string& request) {
  return CallRaw(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()), method, request);
}

// The answer of the health service to a probe of `service`: 1 serving, 2 not; 0 no answer.
inline int ProbeHealth(const std::string& address, const std::string& service) {
  // HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1}.
  const std::string request =
      service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
  const std::string answer = CallRaw(address, "/grpc.health.v1.Health/Check", request);
  return answer.size() == 2 && answer[0] == 8 ? answer[1] : 0;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_RAW_CALL_H_
