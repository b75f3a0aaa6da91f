#include "common/link/link.h"

#include <sys/resource.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/descriptor.h"
#include "common/base/rng.h"
#include "common/link/endpoint.h"
#include "common/wire/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_port.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

// Long enough for any machine; every wait ends with its event.
constexpr absl::Duration kWait = absl::Seconds(30);
constexpr char kAnyPort[] = "tcp://127.0.0.1:0";

Buffer RandomPayload(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Next());
  return Buffer(std::move(bytes));
}

bool SameBytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && std::memcmp(a.bytes().data(), b.bytes().data(), a.size()) == 0;
}

PushFrame Push(uint32_t worker, uint32_t segment) {
  PushFrame header;
  header.run = 0x0123456789abcdef;
  header.epoch = 1;
  header.round = 7;
  header.worker = worker;
  header.segment = segment;
  header.weight = 4096;
  header.norm = 1.5f;
  return header;
}

MergedFrame Merged(uint32_t segment) {
  return {.run = 0x0123456789abcdef, .round = 7, .segment = segment};
}

// Of any kind, with a payload if the kind has one.
SealedFrame AnyFrame(uint32_t worker, Rng& rng) {
  const FrameHeader kinds[] = {
      HelloFrame{.worker = worker},
      WelcomeFrame{.worker = worker},
      Push(worker, 1),
      AnswerFrame{.outcome = Outcome::kAccepted, .worker = worker},
      Merged(1),
      PullFrame{.worker = worker},
      FetchFrame{.worker = worker},
      SnapshotFrame{.worker = worker},
      RequestFrame{.worker = worker},
  };
  const FrameHeader& header = kinds[rng.Below(std::size(kinds))];
  auto frame = Seal(header, RandomPayload(rng.Below(600), rng.Next()));
  return frame.ok() ? *std::move(frame) : Seal(header, Buffer()).value();
}

class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto router = Router::Bind(kAnyPort);
    ASSERT_TRUE(router.ok()) << router.status();
    router_ = *std::move(router);
    dealer_ = NewDealer();
  }

  std::unique_ptr<Dealer> NewDealer() {
    auto dealer = Dealer::Connect(router_->endpoint());
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    return *std::move(dealer);
  }

  PeerFrame MustReceive() {
    auto received = router_->Receive(kWait);
    EXPECT_TRUE(received.ok()) << received.status();
    EXPECT_TRUE(received.ok() && received->has_value()) << "nothing came";
    if (!received.ok() || !received->has_value()) return {};
    return **std::move(received);
  }

  Frame MustReceive(Dealer& dealer) {
    auto received = dealer.Receive(kWait);
    EXPECT_TRUE(received.ok()) << received.status();
    EXPECT_TRUE(received.ok() && received->has_value()) << "nothing came";
    if (!received.ok() || !received->has_value()) return {};
    return **std::move(received);
  }

  std::unique_ptr<Router> router_;
  std::unique_ptr<Dealer> dealer_;
};

TEST_F(LinkTest, EndpointNamesTheRealPort) {
  EXPECT_THAT(router_->endpoint(), ::testing::StartsWith("tcp://127.0.0.1:"));
  EXPECT_THAT(router_->endpoint(), ::testing::Not(::testing::EndsWith(":0")));
}

TEST_F(LinkTest, CarriesHeaderAndPayloadBothWays) {
  const Buffer up = RandomPayload(1000, 1);
  ASSERT_TRUE(dealer_->Send(Push(3, 2), up).ok());
  const PeerFrame at_router = MustReceive();
  PushFrame wanted = Push(3, 2);
  wanted.payload_bytes = 1000;
  wanted.payload_crc = Crc32c(up.bytes());
  EXPECT_EQ(at_router.frame.header, wanted);
  EXPECT_TRUE(SameBytes(at_router.frame.payload, up));

  const Buffer down = RandomPayload(5, 2);
  ASSERT_TRUE(router_->Send(at_router.peer, Merged(2), down).ok());
  const Frame at_dealer = MustReceive(*dealer_);
  EXPECT_EQ(at_dealer.header.kind(), FrameKind::kMerged);
  EXPECT_TRUE(SameBytes(at_dealer.payload, down));
}

TEST(Seal, FillsInWhatThePayloadSays) {
  const Buffer payload = RandomPayload(1000, 1);
  const auto frame = Seal(Push(3, 2), payload);
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(std::get<PushFrame>(frame->header()).payload_bytes, 1000u);
  EXPECT_EQ(frame->payload().bytes().data(), payload.bytes().data()) << "shared, not copied";
  EXPECT_EQ(frame->wire_bytes(Encryption::kNone), kFrameHeaderBytes + 2 + 1000 + 9);
  const auto decoded = DecodeFrameHeader(frame->head());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, frame->header());
  EXPECT_TRUE(VerifyPayload(*decoded, frame->payload().bytes()).ok());
}

TEST(Seal, AFrameWithoutPayloadIsItsHeader) {
  const auto frame = Seal(Push(3, 2), Buffer());
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->wire_bytes(Encryption::kNone), kFrameHeaderBytes + 2);
}

TEST(Seal, RefusesAPayloadWhereTheKindHasNone) {
  const auto frame = Seal(PullFrame(), RandomPayload(7, 1));
  EXPECT_EQ(frame.status().message(), "pull frame: payload bytes: got 7, wanted 0");
}

TEST_F(LinkTest, OneSealedFrameGoesToMany) {
  constexpr uint32_t kDealers = 5;
  std::vector<std::unique_ptr<Dealer>> dealers;
  std::vector<PeerId> peers;
  for (uint32_t i = 0; i < kDealers; ++i) {
    dealers.push_back(NewDealer());
    ASSERT_TRUE(dealers.back()->Send(Push(i, 0), Buffer()).ok());
    peers.push_back(MustReceive().peer);
  }
  const Buffer payload = RandomPayload(100'000, 3);
  const auto frame = Seal(Merged(4), payload);
  ASSERT_TRUE(frame.ok());
  for (const PeerId& peer : peers) ASSERT_TRUE(router_->Send(peer, *frame).ok());
  for (const auto& dealer : dealers) {
    const Frame received = MustReceive(*dealer);
    EXPECT_EQ(received.header, frame->header());
    EXPECT_TRUE(SameBytes(received.payload, payload));
  }
}

TEST_F(LinkTest, BothEndsCountTheSameByKind) {
  // Two peers, frames of each kind and of sizes on both sides of ZMTP's long length.
  const auto second = NewDealer();
  Rng rng(5);
  for (uint32_t i = 0; i < 60; ++i) {
    const uint32_t from = i % 2;
    Dealer& dealer = from == 0 ? *dealer_ : *second;
    ASSERT_TRUE(dealer.Send(AnyFrame(from, rng)).ok());
    const PeerFrame received = MustReceive();
    ASSERT_TRUE(router_->Send(received.peer, AnyFrame(from, rng)).ok());
    MustReceive(dealer);
  }
  LinkTraffic ends;  // as the router sees them
  for (const Dealer* const dealer : {dealer_.get(), second.get()}) {
    const LinkCounts& counts = dealer->counts();
    ends += {counts.received_by_kind, counts.sent_by_kind};
    EXPECT_EQ(counts.sent_by_kind.Total().frames, 30u);
  }
  const LinkCounts total = router_->counts();
  EXPECT_EQ(total.sent_by_kind, ends.sent);
  EXPECT_EQ(total.received_by_kind, ends.received);
  EXPECT_EQ(total.sent, ends.sent.Total().bytes);
  EXPECT_EQ(total.received, ends.received.Total().bytes);
  EXPECT_EQ(total.payload_sent, ends.sent.Total().payload_bytes);
  EXPECT_EQ(total.payload_received, ends.received.Total().payload_bytes);
}

// A router at a port that the last one may have had: a closed socket's port is free a moment later.
std::unique_ptr<Router> BoundAgain(const std::string& endpoint) {
  const absl::Time give_up = absl::Now() + kWait;
  absl::StatusOr<std::unique_ptr<Router>> router;
  do {
    router = Router::Bind(endpoint);
  } while (absl::IsUnavailable(router.status()) && absl::Now() < give_up);
  EXPECT_TRUE(router.ok()) << "not within " << kWait << ": " << router.status();
  return router.ok() ? *std::move(router) : nullptr;
}

TEST(LinkOptions, OnlyWhileConnectedNothingIsTakenThatCannotLeave) {
  // The port is held, so that no other process gets it while the router is away.
  const HeldPort port(false);
  const std::string endpoint = absl::StrCat("tcp://", port.address());
  std::unique_ptr<Router> router = BoundAgain(endpoint);
  ASSERT_NE(router, nullptr);
  const auto dealer = Dealer::Connect(endpoint, {.only_while_connected = true});
  ASSERT_TRUE(dealer.ok()) << dealer.status();
  const auto send_until = [&](absl::StatusCode wanted) {
    const absl::Time deadline = absl::Now() + kWait;
    while ((*dealer)->Send(Push(0, 0), Buffer()).code() != wanted && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_LT(absl::Now(), deadline);
  };
  send_until(absl::StatusCode::kOk);
  EXPECT_TRUE(router->Receive(kWait)->has_value());
  router.reset();
  send_until(absl::StatusCode::kUnavailable);
  // Frames sent before the end was noticed are lost. From here on the dealer takes none.
  const uint64_t sent = (*dealer)->counts().sent;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(absl::IsUnavailable((*dealer)->Send(Push(0, 0), RandomPayload(10, 1))));
  }
  EXPECT_EQ((*dealer)->counts().sent, sent);
  router = BoundAgain(endpoint);
  ASSERT_NE(router, nullptr);
  send_until(absl::StatusCode::kOk);
  const auto first = router->Receive(kWait);
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_TRUE((*first)->frame.payload.empty()) << "something was queued while nobody was there";
}

// ZeroMQ learns of the end at every hundredth part that is read, which may be a frame's second.
TEST(LinkOptions, OnlyWhileConnectedTheConnectionMayEndWhileItsFramesAreRead) {
  const HeldPort port(false);
  const std::string endpoint = absl::StrCat("tcp://", port.address());
  for (const int before : {0, 1}) {
    std::unique_ptr<Router> router = BoundAgain(endpoint);
    ASSERT_NE(router, nullptr);
    const auto dealer = Dealer::Connect(endpoint, {.only_while_connected = true});
    ASSERT_TRUE(dealer.ok()) << dealer.status();
    const auto greet = [&] {
      for (;;) {
        static_cast<void>((*dealer)->Send(HelloFrame(), Buffer()));
        const auto hello = router->Receive(absl::Milliseconds(10));
        if (hello.ok() && hello->has_value()) return (*hello)->peer;
      }
    };
    const PeerId peer = greet();
    for (int i = 0; i < before; ++i) {
      ASSERT_TRUE(router->Send(peer, RequestFrame(), Buffer()).ok());
    }
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(router->Send(peer, Merged(1), RandomPayload(300, 1)).ok());
    }
    ASSERT_TRUE((*dealer)->Receive(kWait)->has_value());
    absl::SleepFor(absl::Milliseconds(100));  // for the others to arrive
    router.reset();
    absl::SleepFor(absl::Milliseconds(100));  // for the end to arrive
    while ((*dealer)->Receive(absl::ZeroDuration())->has_value()) continue;
    EXPECT_EQ((*dealer)->counts().frames_refused, 0u) << "half a frame was read";
    router = BoundAgain(endpoint);
    ASSERT_NE(router, nullptr);
    greet();
    EXPECT_FALSE((*dealer)->Receive(absl::ZeroDuration())->has_value());
  }
}

TEST_F(LinkTest, CarriesThePayloadLimitAndRefusesToSendMore) {
  const Buffer payload(std::vector<std::byte>(kPayloadBytesMax, std::byte{0x5a}));
  ASSERT_TRUE(dealer_->Send(Push(0, 0), payload).ok());
  const PeerFrame received = MustReceive();
  EXPECT_TRUE(SameBytes(received.frame.payload, payload));

  const Buffer larger(std::vector<std::byte>(size_t{kPayloadBytesMax} + 1));
  EXPECT_EQ(dealer_->Send(Push(0, 0), larger).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LinkTest, ReleasesThePayloadsOwnerOnceSent) {
  std::promise<void> released;
  auto* const bytes = new std::vector<std::byte>(100'000, std::byte{7});
  std::shared_ptr<const void> owner(bytes, [&released, bytes](const void*) {
    delete bytes;
    released.set_value();
  });
  const std::span<const std::byte> view(*bytes);
  ASSERT_TRUE(dealer_->Send(Push(0, 0), Buffer(view, std::move(owner))).ok());
  EXPECT_EQ(MustReceive().frame.payload.size(), 100'000u);
  EXPECT_EQ(released.get_future().wait_for(absl::ToChronoSeconds(kWait)),
            std::future_status::ready);
}

TEST_F(LinkTest, ReceivedPayloadOutlivesTheSocket) {
  const Buffer sent = RandomPayload(50'000, 9);
  ASSERT_TRUE(dealer_->Send(Push(0, 0), sent).ok());
  const PeerFrame received = MustReceive();
  dealer_.reset();
  router_.reset();
  EXPECT_TRUE(SameBytes(received.frame.payload, sent));
}

TEST_F(LinkTest, FramesQueuedAtTheEndStillArrive) {
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(dealer_->Send(Push(0, i), RandomPayload(10'000, i)).ok());
  }
  dealer_.reset();
  for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(MustReceive().frame.header.segment(), i);
}

// As run.shards 70 and cluster.connections 16 want.
TEST_F(LinkTest, AProcessHasMoreThanAThousandDealers) {
  RaiseFileLimit();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 4096)
    GTEST_SKIP() << "it needs 4096 open files, may have " << limit.rlim_cur;
  std::vector<std::unique_ptr<Dealer>> dealers;
  for (int i = 0; i < 1120; ++i) {
    auto dealer = Dealer::Connect(router_->endpoint());
    ASSERT_TRUE(dealer.ok()) << "number " << i << ": " << dealer.status();
    dealers.push_back(*std::move(dealer));
  }
  ASSERT_TRUE(dealers.back()->Send(Push(0, 0), {}).ok());
  EXPECT_TRUE(router_->Receive(kWait).ok());
}

TEST_F(LinkTest, WakeEndsTheWaitOfAnotherThread) {
  // Whether the call comes before or during the wait, the wait of a day ends.
  auto waiting = std::async(std::launch::async, [&] { return router_->Receive(absl::Hours(24)); });
  router_->Wake();
  auto received = waiting.get();
  ASSERT_TRUE(received.ok());
  EXPECT_FALSE(received->has_value());
}

TEST_F(LinkTest, SendingToAnUnknownPeerIsNotFound) {
  EXPECT_EQ(router_->Send("nobody", Push(0, 0), Buffer()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(router_->counts().sent, 0u);
}

TEST_F(LinkTest, FullSendQueueIsUnavailable) {
  // A port that is taken but not listened on never answers, whatever else runs.
  const HeldPort port(false);
  for (const int frames : {kSendQueueFramesMax, 3}) {
    auto dealer =
        Dealer::Connect(absl::StrCat("tcp://", port.address()), {.send_queue_frames = frames});
    ASSERT_TRUE(dealer.ok());
    absl::Status status;
    int sent = 0;
    for (; status.ok() && sent <= 2 * frames; ++sent) {
      status = (*dealer)->Send(Push(0, 0), RandomPayload(1, 0));
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(sent, frames + 1);
  }
}

// More round trips than the queue has places, in less time than ZeroMQ takes to look for those that
// became free.
TEST_F(LinkTest, AQueueThatThePeerHasEmptiedIsNotFull) {
  router_ = Router::Bind(kAnyPort, {.send_queue_frames = 4}).value();
  dealer_ = NewDealer();
  for (uint32_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(dealer_->Send(Push(0, i), Buffer()).ok());
    const PeerFrame received = MustReceive();
    const absl::Status sent = router_->Send(received.peer, Push(0, i), Buffer());
    ASSERT_TRUE(sent.ok()) << i << ": " << sent;
    ASSERT_EQ(MustReceive(*dealer_).header.segment(), i);
  }
}

// Many more frames than the receive queue and the kernel's buffers hold wait at the sender.
TEST_F(LinkTest, NothingIsDroppedWhileNobodyReceives) {
  constexpr uint32_t kFrames = 20 * kReceiveQueueFramesMax;
  static_assert(kFrames < kSendQueueFramesMax);
  router_ = Router::Bind(kAnyPort, {.receive_queue_frames = 2}).value();
  dealer_ = NewDealer();
  const Buffer payload = RandomPayload(30'000, 1);
  for (uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(dealer_->Send(Push(0, i), payload).ok()) << i;
  }
  PeerId peer;
  for (uint32_t i = 0; i < kFrames; ++i) {
    const PeerFrame received = MustReceive();
    ASSERT_EQ(received.frame.header.segment(), i);
    peer = received.peer;
  }
  for (uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(router_->Send(peer, Push(0, i), payload).ok()) << i;
  }
  for (uint32_t i = 0; i < kFrames; ++i) {
    const Frame received = MustReceive(*dealer_);
    ASSERT_EQ(received.header.segment(), i);
    ASSERT_TRUE(SameBytes(received.payload, payload)) << i;
  }
}

TEST_F(LinkTest, PortInUseIsUnavailableAndSaysSo) {
  auto second = Router::Bind(router_->endpoint());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            absl::StrCat("cannot listen on ", router_->endpoint(),
                         ": the port is in use (wanted a free one; port 0 picks one)"));
}

TEST(LinkEndpoint, RefusesWhatIsNotAnEndpoint) {
  for (const char* endpoint :
       {"", "127.0.0.1:5555", "ipc:///tmp/socket", "tcp://127.0.0.1", "tcp://:5555",
        "tcp://host:port", "tcp://host:-1", "tcp://host:65536", "tcp://host:", "tcp://host:0"}) {
    const auto dealer = Dealer::Connect(endpoint);
    EXPECT_EQ(dealer.status().code(), absl::StatusCode::kInvalidArgument) << endpoint;
    EXPECT_THAT(std::string(dealer.status().message()), HasSubstr(endpoint));
  }
  EXPECT_EQ(Router::Bind("127.0.0.1:0").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Router::Bind("tcp://192.0.2.1:0").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LinkEndpoint, AnAddressToConnectToMayLackItsScheme) {
  EXPECT_EQ(EndpointToConnectTo("shard-0.example:7072").value_or(""), "tcp://shard-0.example:7072");
  EXPECT_EQ(EndpointToConnectTo("tcp://[::1]:7072").value_or(""), "tcp://[::1]:7072");
  for (const char* address : {"", "host", "host:0", "host:*", ":1", "udp://host:1", "0.0.0.0:7072",
                              "tcp://0.0.0.0:7072", "[::]:7072", "*:7072"}) {
    const auto endpoint = EndpointToConnectTo(address);
    EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr(address));
  }
}

// cluster.shard_host: localhost. ZeroMQ itself binds addresses alone.
TEST(LinkEndpoint, ANameIsBoundAtItsAddress) {
  const auto router = Router::Bind("tcp://localhost:0");
  ASSERT_TRUE(router.ok()) << router.status();
  const auto dealer = Dealer::Connect((*router)->endpoint());
  ASSERT_TRUE(dealer.ok()) << dealer.status();
  ASSERT_TRUE((*dealer)->Send(HelloFrame(), Buffer()).ok());
  const auto received = (*router)->Receive(kWait);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->has_value());
  EXPECT_THAT(std::string(Router::Bind("tcp://no-such-host.invalid:0").status().message()),
              HasSubstr("the host is not an address of this machine"));
}

TEST(LinkEndpoint, StarIsAnyFreePort) {
  const auto router = Router::Bind("tcp://127.0.0.1:*");
  ASSERT_TRUE(router.ok()) << router.status();
  EXPECT_THAT((*router)->endpoint(), ::testing::Not(::testing::EndsWith("*")));
}

}  // namespace
}  // namespace longwave
