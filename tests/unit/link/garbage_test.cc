// Garbage sent to a shard's port is refused and counted, while good frames pass.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "absl/strings/numbers.h"
#include "common/link/link.h"
#include "common/wire/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

  void ExpectRefused(const std::vector<std::string>& parts, std::string_view why) {
    SendRaw(parts);
    ExpectGoodFramePasses();
    EXPECT_EQ(router_->counts().frames_refused, 1u);
    EXPECT_THAT(router_->last_refusal(), HasSubstr(std::string(why)));
  }

  zmq::context_t context_;
  zmq::socket_t raw_;
  std::unique_ptr<Router> router_;
};

TEST_F(GarbageTest, RefusesAMessageThatIsNoHeader) {
  ExpectRefused({"hello?"}, "got 6 bytes, wanted 64");
}

TEST_F(GarbageTest, RefusesAnEmptyMessage) { ExpectRefused({""}, "got 0 bytes"); }

TEST_F(GarbageTest, RefusesHeaderWithAnotherMagic) {
  ExpectRefused({std::string(kFrameHeaderBytes, 'x')}, "magic");
}

TEST_F(GarbageTest, RefusesAHeaderWithAFlippedBit) {
  std::string header = Encoded(HeaderFor(Buffer()));
  header[20] ^= 1;
  ExpectRefused({header}, "header: CRC32C");
}

TEST_F(GarbageTest, RefusesThreeParts) {
  const Buffer payload = BufferOf("payload");
  ExpectRefused({Encoded(HeaderFor(payload)), "payload", "more"}, "3 parts");
}

TEST_F(GarbageTest, RefusesManyParts) {
  std::vector<std::string> parts(1000, "part");
  ExpectRefused(parts, "1000 parts");
}

TEST_F(GarbageTest, RefusesAPayloadShorterThanItsHeaderSays) {
  const Buffer payload = BufferOf("payload");
  ExpectRefused({Encoded(HeaderFor(payload)), "payloa"}, "got 6 bytes");
}

TEST_F(GarbageTest, RefusesAPayloadWithAFlippedBit) {
  const Buffer payload = BufferOf("payload");
  ExpectRefused({Encoded(HeaderFor(payload)), "paylobd"}, "payload: CRC32C");
}

TEST_F(GarbageTest, RefusesAHeaderWhosePayloadIsMissing) {
  const Buffer payload = BufferOf("payload");
  ExpectRefused({Encoded(HeaderFor(payload))}, "got 0 bytes");
}

TEST_F(GarbageTest, RefusesAnEmptyPayloadPart) {
  ExpectRefused({Encoded(HeaderFor(Buffer())), ""}, "payload part without bytes");
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

// A TCP connection without any ZeroMQ.
class RawTcp {
 public:
  explicit RawTcp(const std::string& endpoint) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    uint32_t port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port));
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  RawTcp(const RawTcp&) = delete;
  RawTcp& operator=(const RawTcp&) = delete;
  ~RawTcp() { close(fd_); }

  void Send(std::string_view bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Waits until the other end has closed the connection.
  void AwaitClose() {
    std::array<char, 256> bytes;
    while (recv(fd_, bytes.data(), bytes.size(), 0) > 0) {
    }
  }

 private:
  const int fd_;
};

TEST_F(GarbageTest, RefusesMessagesOfRawTcp) {
  RawTcp tcp(router_->endpoint());
  // ZMTP 1.0, which needs no greeting: an empty identity, then a message of five bytes.
  tcp.Send(std::string_view("\x01\x00\x06\x00hello", 9));
  const absl::Time deadline = absl::Now() + kWait;
  while (router_->counts().frames_refused == 0 && absl::Now() < deadline) {
    auto received = router_->Receive(absl::Milliseconds(20));
    ASSERT_TRUE(received.ok());
    ASSERT_FALSE(received->has_value());
  }
  EXPECT_EQ(router_->counts().frames_refused, 1u);
  ExpectGoodFramePasses();
}

TEST_F(GarbageTest, ClosesRawTcpThatIsNotZeroMq) {
  RawTcp tcp(router_->endpoint());
  std::string greeting(64, '\0');  // ZMTP 3 with a security mechanism that does not exist
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  greeting.replace(12, 5, "BOGUS");
  tcp.Send(greeting);
  tcp.AwaitClose();
  ExpectGoodFramePasses();
}

TEST_F(GarbageTest, SurvivesAnHttpRequest) {
  RawTcp tcp(router_->endpoint());
  tcp.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ExpectGoodFramePasses();
}

}  // namespace
}  // namespace longwave
