#include "common/metrics/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/held_port.h"
#include "tests/support/http_get.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class MetricsServerTest : public testing::Test {
 protected:
  void SetUp() override { Listen("127.0.0.1:0"); }
  void Listen(const std::string& address) {
    auto server = MetricsServer::Start(address, &metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Metrics metrics_{MetricPart::kWorker};
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, ServesThePageOnAFreePort) {
  EXPECT_THAT(server_->address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(server_->address(), "127.0.0.1:0");
  EXPECT_EQ(server_->url(), "http://" + server_->address() + "/metrics");
  const HttpAnswer answer = Request(server_->address(), "GET", "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
  EXPECT_THAT(answer.head, HasSubstr("Content-Length: " + std::to_string(answer.body.size())));
  EXPECT_THAT(answer.body, HasSubstr("\nlongwave_worker_steps_total 0\n"));
}

TEST_F(MetricsServerTest, KnowsNothingElse) {
  for (const char* path : {"/", "/metrics/", "/metrics2", "/healthz/x", "/../etc/passwd"})
    EXPECT_EQ(Request(server_->address(), "GET", path).status, 404) << path;
  EXPECT_EQ(Request(server_->address(), "POST", "/metrics").status, 405);
  EXPECT_EQ(Request(server_->address(), "DELETE", "/metrics").status, 405);
}

TEST_F(MetricsServerTest, HeadHasNoBody) {
  const HttpAnswer answer = Request(server_->address(), "HEAD", "/healthz");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "");
  EXPECT_THAT(answer.head, HasSubstr("Content-Length: 3"));
}

TEST_F(MetricsServerTest, ListensByNameToo) {
  Listen("localhost:0");
  EXPECT_THAT(server_->address(), StartsWith("localhost:"));
  EXPECT_EQ(Request(server_->address(), "GET", "/healthz").status, 200);
}

TEST_F(MetricsServerTest, APortInUseIsNamed) {
  const auto second = MetricsServer::Start(server_->address(), &metrics_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(second.status().message()),
      StartsWith("metrics: cannot listen on " + server_->address() + ": the port is in use"));
}

TEST_F(MetricsServerTest, WhatIsNoAddressIsRefused) {
  for (const char* address : {"", "127.0.0.1", ":0", "127.0.0.1:65536", "127.0.0.1:x",
                              "no.such.host.invalid:0", "192.0.2.1:0"}) {
    const auto server = MetricsServer::Start(address, &metrics_);
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()), StartsWith("metrics: cannot listen on "));
  }
}

TEST_F(MetricsServerTest, ThePortIsFreeAgainAfterwards) {
  // The port is held, so that no other process gets it in between.
  const HeldPort port(/*listens=*/false);
  const std::string& address = port.address();
  Listen(address);
  EXPECT_EQ(Request(address, "GET", "/healthz").status, 200);
  server_.reset();
  EXPECT_EQ(Request(address, "GET", "/healthz").status, 0);
  Listen(address);
  EXPECT_EQ(Request(address, "GET", "/healthz").status, 200);
}

// Prometheus and a probe at the same time, from several machines.
TEST_F(MetricsServerTest, ManyMayAskAtOnce) {
  std::vector<std::thread> askers;
  askers.reserve(8);
  std::atomic<int> answered = 0;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&, i] {
      for (int n = 0; n < 10; ++n)
        answered +=
            Request(server_->address(), "GET", i % 2 ? "/metrics" : "/healthz").status == 200;
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(answered, 80);
}

TEST_F(MetricsServerTest, WhatIsNoRequestIsRefused) {
  for (const char* text : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "x y z\r\n\r\n",
                           "x\r\n\r\n y", "GET\r\n\r\nabc def"})
    EXPECT_EQ(SendRaw(server_->address(), text).status, 400) << text;
  EXPECT_EQ(SendRaw(server_->address(), std::string(10000, 'x')).status, 400);
}

TEST_F(MetricsServerTest, AQuestionMarkEndsThePath) {
  EXPECT_EQ(Request(server_->address(), "GET", "/healthz?probe=1").body, "ok\n");
}

TEST_F(MetricsServerTest, ARequestMayComeInPieces) {
  const int fd = ConnectTo(server_->address());
  for (const char* piece : {"GE", "T /hea", "lthz HTTP/1.1\r\n\r", "\n"})
    ASSERT_EQ(send(fd, piece, strlen(piece), MSG_NOSIGNAL), static_cast<ssize_t>(strlen(piece)));
  EXPECT_EQ(ReadAnswer(fd).status, 200);
}

// A flood of connections that say nothing: the others are answered, and the oldest give way.
TEST_F(MetricsServerTest, SilentConnectionsKeepNobodyWaiting) {
  std::vector<int> silent;
  for (size_t i = 0; i < 3 * MetricsServer::kConnectionsMax; ++i) {
    silent.push_back(ConnectTo(server_->address()));
    ASSERT_GE(silent.back(), 0);
  }
  EXPECT_EQ(Request(server_->address(), "GET", "/healthz").status, 200);
  // The first one was closed: its end can be read.
  char byte;
  EXPECT_EQ(read(silent.front(), &byte, 1), 0);
  for (const int fd : silent) close(fd);
}

}  // namespace
}  // namespace longwave
