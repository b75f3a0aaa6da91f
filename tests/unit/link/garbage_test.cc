// Garbage sent to a shard's port is refused and counted, while good frames pass.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/link/link.h"
#include "common/wire/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(30);

Buffer BufferOf(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return Buffer(std::move(bytes));
}

PushFrame HeaderFor(const Buffer& payload) {
  PushFrame header;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.bytes());
  return header;
}

std::string Encoded(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  EncodeFrameHeader(header, bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class GarbageTest : public ::testing::Test {
 protected:
  GarbageTest() : raw_(context_, zmq::socket_type::dealer) {}

  void SetUp() override {
    auto router = Router::Bind("tcp://127.0.0.1:0");
    ASSERT_TRUE(router.ok()) << router.status();
    router_ = *std::move(router);
    raw_.set(zmq::sockopt::linger, 0);
    raw_.connect(router_->endpoint());
  }

  // Sends one message of these parts from a plain ZeroMQ socket.
  void SendRaw(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto flags = i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      ASSERT_TRUE(raw_.send(zmq::buffer(parts[i]), flags).has_value());
    }
  }

  // A good frame on the same connection arrives, and is the first frame that does.
  void ExpectGoodFramePasses() {
    const Buffer payload = BufferOf("good");
    PushFrame header = HeaderFor(payload);
    header.round = 99;
    SendRaw({Encoded(header), "good"});
    auto received = router_->Receive(kWait);
    ASSERT_TRUE(received.ok() && received->has_value());
    EXPECT_EQ((*received)->frame.header.round(), 99u);
  }

  zmq::context_t context_;
  zmq::socket_t raw_;
  std::unique_ptr<Router> router_;
};

TEST_F(GarbageTest, RefusesWhatIsNoFrameAndSaysWhy) {
  std::string flipped = Encoded(HeaderFor(Buffer()));
  flipped[20] ^= 1;
  const std::string header = Encoded(HeaderFor(BufferOf("payload")));
  const struct {
    std::vector<std::string> parts;
    const char* why;
  } cases[] = {{{"hello?"}, "got 6 bytes, wanted 64"},
               {{""}, "got 0 bytes"},
               {{std::string(kFrameHeaderBytes, 'x')}, "magic"},
               {{flipped}, "header: CRC32C"},
               {{header, "payload", "more"}, "3 parts"},
               {std::vector<std::string>(1000, "part"), "1000 parts"},
               {{header, "payloa"}, "got 6 bytes"},
               {{header, "paylobd"}, "payload: CRC32C"},
               {{header}, "got 0 bytes"},
               {{Encoded(HeaderFor(Buffer())), ""}, "payload part without bytes"}};
  uint64_t refused = 0;
  for (const auto& each : cases) {
    SCOPED_TRACE(each.why);
    SendRaw(each.parts);
    ExpectGoodFramePasses();
    EXPECT_EQ(router_->counts().frames_refused, ++refused);
    EXPECT_THAT(router_->last_refusal(), HasSubstr(each.why));
  }
}

TEST_F(GarbageTest, CountsBytesOfRefusedFrames) {
  SendRaw({"hello?"});
  ExpectGoodFramePasses();
  EXPECT_EQ(router_->counts().received, (6 + 2) + (kFrameHeaderBytes + 2) + (4 + 2));
  EXPECT_EQ(router_->counts().payload_received, 4u);
  EXPECT_EQ(router_->counts().received,
            router_->counts().received_by_kind.Total().bytes + router_->counts().refused);
}

TEST_F(GarbageTest, WorksOffAFloodOfRefusals) {
  for (int i = 0; i < 2000; ++i) SendRaw({"x"});
  const Buffer payload = BufferOf("good");
  SendRaw({Encoded(HeaderFor(payload)), "good"});
  // A call returns early while it only refuses, so that its caller stays responsive.
  int calls = 0;
  for (;; ++calls) {
    auto received = router_->Receive(kWait);
    ASSERT_TRUE(received.ok());
    if (received->has_value()) break;
    ASSERT_LT(calls, 100);
  }
  EXPECT_GT(calls, 0);
  EXPECT_EQ(router_->counts().frames_refused, 2000u);
}

void SendTcp(int fd, std::string_view bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

TEST_F(GarbageTest, RefusesMessagesOfRawTcp) {
  const int tcp = ConnectTo(router_->endpoint());
  // ZMTP 1.0, which needs no greeting: an empty identity, then a message of five bytes.
  SendTcp(tcp, std::string_view("\x01\x00\x06\x00hello", 9));
  const absl::Time deadline = absl::Now() + kWait;
  while (router_->counts().frames_refused == 0 && absl::Now() < deadline) {
    auto received = router_->Receive(absl::Milliseconds(20));
    ASSERT_TRUE(received.ok());
    ASSERT_FALSE(received->has_value());
  }
  EXPECT_EQ(router_->counts().frames_refused, 1u);
  ExpectGoodFramePasses();
  close(tcp);
}

TEST_F(GarbageTest, ClosesRawTcpThatIsNotZeroMq) {
  const int tcp = ConnectTo(router_->endpoint());
  SendTcp(tcp, ZmtpGreeting("BOGUS"));  // a security mechanism that does not exist
  EXPECT_TRUE(HungUp(tcp, kWait));
  ExpectGoodFramePasses();
  close(tcp);
}

TEST_F(GarbageTest, SurvivesAnHttpRequest) {
  const int tcp = ConnectTo(router_->endpoint());
  SendTcp(tcp, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ExpectGoodFramePasses();
  close(tcp);
}

}  // namespace
}  // namespace longwave
