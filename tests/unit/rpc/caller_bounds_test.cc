#include "common/rpc/caller_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/grpc_services.h"
#include "grpcpp/generic/generic_stub.h"

namespace longwave {
namespace {

TEST(CallerBounds, MessagesLeaveTheProcessMostOfItsMemory) {
  constexpr size_t kGibibyte = size_t{1} << 30;
  EXPECT_EQ(CallBytesMax(kGibibyte), kGibibyte / 4) << "the chart's coordinator";
  EXPECT_EQ(CallBytesMax(4.0 * kGibibyte), kGibibyte);
  EXPECT_EQ(CallBytesMax(256.0 * kGibibyte), kGibibyte) << "and no more, however much there is";
}

int ThreadsOfThisProcess() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    absl::string_view rest = line;
    if (int threads = 0; absl::ConsumePrefix(&rest, "Threads:") && absl::SimpleAtoi(rest, &threads))
      return threads;
  }
  return 0;
}

// A call whose head was sent, and whose request never comes.
struct OpenCall {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
};

TEST(CallerBounds, CallsWhoseRequestNeverComesTakeNoThreadsWithoutEnd) {
  constexpr int kThreadsMax = 8, kCalls = 30;
  const auto probe = MakeProbeService(CallGuard());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  BoundCallers(kThreadsMax * kCallThreadBytes, absl::Seconds(5), builder);
  builder.RegisterService(probe.get());
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const int threads_before = ThreadsOfThisProcess();

  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<OpenCall>> calls;
  int refused = 0;
  for (int i = 0; i < kCalls; ++i) {
    auto& open = *calls.emplace_back(std::make_unique<OpenCall>());
    open.call = stub.PrepareCall(&open.context, "/longwave.v1.Probe/Measure", &queue);
    open.call->StartCall(&open);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  }
  const auto until = std::chrono::system_clock::now() + std::chrono::seconds(60);
  std::vector<grpc::Status> ends(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) calls[i]->call->Finish(&ends[i], &ends[i]);
  void* tag = nullptr;
  bool ok = false;
  while (refused < kCalls - kThreadsMax &&
         queue.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::GOT_EVENT)
    refused +=
        static_cast<grpc::Status*>(tag)->error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  EXPECT_GE(refused, kCalls - kThreadsMax);
  EXPECT_LE(ThreadsOfThisProcess(), threads_before + 2 * kThreadsMax);

  for (const auto& open : calls) open->context.TryCancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  server->Shutdown();
}

}  // namespace
}  // namespace longwave
