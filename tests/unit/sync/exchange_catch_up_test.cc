#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/support/held_port.h"
#include "tests/unit/sync/ledger_fixture.h"
#include "tests/unit/sync/scripted_shard.h"
#include "worker/sync/exchange.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

// The exchange's work beside contributions: catching up, snapshots, shards that move.
class ExchangeCatchUpTest : public ::testing::Test {
 protected:
  ExchangeCatchUpTest()
      : layout_(Layout::Create({.tensors = {{"w", {128, 128}}, {"b", {128}}}},
                               {.segment_tiles = 1, .shard_count = 1})
                    .value()) {}

  void Start(const ScriptedShard::Script& script, ExchangeOptions options = {},
             const std::string& endpoint = "tcp://127.0.0.1:0") {
    shard_ = std::make_unique<ScriptedShard>(script, endpoint);
    options.run = 99;
    options.shard_endpoints = {shard_->endpoint()};
    options.hello_every = hello_every_;
    exchange_ = Exchange::Connect(options, layout_).value();
  }

  uint32_t segment_count() const { return static_cast<uint32_t>(layout_.segments().size()); }

  void Fetch(uint32_t segment, uint32_t from, uint32_t until = kRoundNever) {
    const absl::Status wanted = exchange_->Fetch(segment, from, until);
    ASSERT_TRUE(wanted.ok()) << wanted;
  }
  void Post(uint32_t segment, uint32_t round) {
    const absl::Status posted = exchange_->Post(
        {.epoch = 1, .round = round, .segment = segment, .payload = Bytes("up"), .weight = 1});
    ASSERT_TRUE(posted.ok()) << posted;
  }
  std::string NextSettled() {
    for (;;) {
      const auto settled = exchange_->Next(absl::Hours(1));
      if (!settled.ok()) return settled.status().ToString();
      if (settled->has_value()) return Say(**settled);
    }
  }
  std::string NextFetched() {
    for (;;) {
      const auto event = exchange_->NextFetched(absl::Hours(1));
      if (!event.ok()) return event.status().ToString();
      if (event->has_value()) return Say(**event);
    }
  }
  SnapshotRequest NextRequest() {
    for (;;) {
      if (const auto request = exchange_->NextRequest(); request.has_value()) return *request;
      EXPECT_TRUE(exchange_->NextFetched(absl::Milliseconds(1)).ok());
    }
  }

  const Layout layout_;
  std::unique_ptr<ScriptedShard> shard_;
  std::unique_ptr<Exchange> exchange_;
  // No other hello, however long this machine takes, but where a test wants it.
  absl::Duration hello_every_ = absl::Hours(1);
};

TEST_F(ExchangeCatchUpTest, FetchesASnapshotAndWhatCameAfterIt) {
  Start({.open = 30, .kept_from = 28});
  Fetch(0, 0);
  EXPECT_EQ(NextFetched(), "snapshot 28/0 state");
  EXPECT_EQ(NextFetched(), "28/0 28");
  EXPECT_EQ(NextFetched(), "29/0 29");
  EXPECT_EQ(NextFetched(), "up to 30/0");
  // And then goes on with the others.
  Post(0, 30);
  EXPECT_EQ(NextSettled(), "30/0 accepted 30");
}

TEST_F(ExchangeCatchUpTest, SegmentsCatchUpWhileOthersContribute) {
  Start({.open = 5});
  Post(0, 5);
  Fetch(1, 3);
  Post(2, 4);
  EXPECT_EQ(NextFetched(), "3/1 3");
  EXPECT_EQ(NextFetched(), "4/1 4");
  EXPECT_EQ(NextFetched(), "up to 5/1");
  EXPECT_THAT((std::vector{NextSettled(), NextSettled()}),
              ::testing::UnorderedElementsAre("5/0 accepted 5", "4/2 late 4"));
}

TEST_F(ExchangeCatchUpTest, ASegmentIsFetchedAnewOnceItIsUpToDate) {
  Start({.open = 3});
  Fetch(1, 3);
  EXPECT_EQ(exchange_->Fetch(segment_count(), 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(NextFetched(), "up to 3/1");
  EXPECT_TRUE(exchange_->Fetch(1, 3, 3).ok());
  EXPECT_EQ(NextFetched(), "up to 3/1");
}

TEST_F(ExchangeCatchUpTest, ASegmentThatContributesIsNotFetched) {
  Start({.open = 3, .answers = false});
  Post(0, 3);
  const absl::Status refused = exchange_->Fetch(0, 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("wanted that its push of round 3 is settled before"));
}

TEST_F(ExchangeCatchUpTest, APushEndsAFetchWithAllThatItHadBrought) {
  Start({.open = 5});
  Fetch(1, 5);  // the caller does not take the fetch's end
  for (const uint32_t other : {0u, 2u}) {
    Post(other, 5);
    NextSettled();
  }
  Post(1, 5);
  NextSettled();
  Fetch(1, 5);
  const std::string first = NextFetched();
  EXPECT_THAT(first, HasSubstr("up to "));
  // An end that was the first fetch's would let this one in while the ledger still has the second.
  Fetch(1, 5);
  EXPECT_EQ(NextFetched(), first);
}

// A caller that takes nothing: the stored events are bounded, and none is lost.
TEST_F(ExchangeCatchUpTest, AsksForAsMuchAsIsTaken) {
  constexpr uint32_t kOpen = 500;
  Start({.open = kOpen});
  Fetch(0, 0);
  shard_->Await([](const auto& seen) {
    return ScriptedShard::CountOf(seen, FrameKind::kPull) >= SegmentLedger::kReadyMax;
  });
  for (uint32_t round = 0; round < kOpen; ++round) {
    EXPECT_LE(shard_->Count(FrameKind::kPull), round + 2 * SegmentLedger::kReadyMax);
    ASSERT_EQ(NextFetched(), std::to_string(round) + "/0 " + std::to_string(round));
  }
  EXPECT_EQ(NextFetched(), "up to 500/0");
}

// The first shard has taken everything and answers nothing.
TEST_F(ExchangeCatchUpTest, FollowsAShardToItsNewPort) {
  Start({.open = 4, .answers = false}, {.connections = 2});
  Post(0, 4);
  Post(1, 4);
  Fetch(2, 4);
  shard_->Await([](const auto& seen) {
    return ScriptedShard::CountOf(seen, FrameKind::kPush) >= 2 &&
           ScriptedShard::CountOf(seen, FrameKind::kFetch) >= 1;
  });
  const ByteCounts before = exchange_->counts();
  const ScriptedShard moved({.incarnation = 2, .open = 4});
  ASSERT_TRUE(exchange_->SetEndpoints({moved.endpoint()}).ok());
  EXPECT_EQ(NextFetched(), "up to 4/2");
  EXPECT_THAT((std::vector{NextSettled(), NextSettled()}),
              ::testing::UnorderedElementsAre("4/0 accepted 4", "4/1 accepted 4"));
  EXPECT_GE(exchange_->counts().pushed, before.pushed);  // bytes sent to the old port count
  EXPECT_GT(exchange_->counts().payload_pushed, before.payload_pushed);
}

// ZeroMQ connects again where a connection breaks, but not where the other end speaks another
// protocol: a server that has the port while the shard is started again.
TEST_F(ExchangeCatchUpTest, ComesBackFromAForeignServerOnAShardsPort) {
  hello_every_ = absl::Milliseconds(200);
  const HeldPort port(/*listens=*/false);
  const std::string endpoint = absl::StrCat("tcp://", port.address());
  auto foreign = Router::Bind(endpoint, {.keys = *MakeCurveKeys()}).value();
  exchange_ = Exchange::Connect(
                  {.run = 99, .shard_endpoints = {endpoint}, .hello_every = hello_every_}, layout_)
                  .value();
  Post(0, 4);
  while (exchange_->renewals() == 0) std::this_thread::yield();
  foreign.reset();
  shard_ = std::make_unique<ScriptedShard>(ScriptedShard::Script{.open = 4}, endpoint);
  EXPECT_EQ(NextSettled(), "4/0 accepted 4");
}

// The same port, another process: an answer to a hello tells.
TEST_F(ExchangeCatchUpTest, SendsEverythingToAShardThatWasStartedAgain) {
  hello_every_ = absl::Milliseconds(200);
  const HeldPort port(/*listens=*/false);
  const std::string endpoint = absl::StrCat("tcp://", port.address());
  Start({.open = 4, .answers = false}, {}, endpoint);
  Post(0, 4);
  Fetch(1, 2);
  shard_->Await([](const auto& seen) {
    return ScriptedShard::CountOf(seen, FrameKind::kPush) >= 1 &&
           ScriptedShard::CountOf(seen, FrameKind::kFetch) >= 1;
  });
  shard_.reset();
  shard_ =
      std::make_unique<ScriptedShard>(ScriptedShard::Script{.incarnation = 2, .open = 4}, endpoint);
  EXPECT_EQ(NextSettled(), "4/0 accepted 4");
  EXPECT_EQ(NextFetched(), "2/1 2");
  EXPECT_EQ(NextFetched(), "3/1 3");
  EXPECT_EQ(NextFetched(), "up to 4/1");
}

TEST_F(ExchangeCatchUpTest, AnswersAsksWithSnapshotsUnderTheUploadLimit) {
  constexpr size_t kBytes = 200'000;
  Start({.open = 7, .requests = true}, {.max_upload_mbit = 8});
  const absl::Time begin = MonotonicNow();
  for (uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(NextRequest(), (SnapshotRequest{.segment = s, .round = 7}));
    while (!exchange_->HasSnapshotRoom(s)) {
      EXPECT_TRUE(exchange_->NextFetched(absl::Milliseconds(1)).ok());
    }
    ASSERT_TRUE(exchange_->PostSnapshot(s, 7, Bytes(std::string(kBytes, 's'))).ok());
  }
  shard_->Await(
      [](const auto& seen) { return ScriptedShard::CountOf(seen, FrameKind::kSnapshot) >= 2; });
  // The second starts when the first is paid for, but for the burst of 50 ms.
  EXPECT_GE(absl::ToDoubleSeconds(MonotonicNow() - begin), kBytes / 1e6 - 0.05);
}

// Else it would be charged now and leave later, with all the rest, as fast as the link is.
TEST_F(ExchangeCatchUpTest, WhatAShardThatIsAwayCannotGetIsNotCountedAsSent) {
  const HeldPort port(/*listens=*/false);
  const std::string endpoint = absl::StrCat("tcp://", port.address());
  ExchangeOptions options;
  options.run = 99;
  options.shard_endpoints = {endpoint};
  options.hello_every = absl::Milliseconds(200);
  exchange_ = Exchange::Connect(options, layout_).value();
  Post(0, 5);
  const auto settled = exchange_->Next(absl::Milliseconds(200));
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_FALSE(settled->has_value());
  EXPECT_EQ(exchange_->counts().pushed, 0u);
  shard_ = std::make_unique<ScriptedShard>(ScriptedShard::Script{.open = 5}, endpoint);
  EXPECT_EQ(NextSettled(), "5/0 accepted 5");
  EXPECT_GT(exchange_->counts().pushed, 0u);
}

TEST_F(ExchangeCatchUpTest, RefusesWhatDoesNotFit) {
  Start({});
  EXPECT_EQ(exchange_->PostSnapshot(segment_count(), 0, Buffer()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(exchange_->SetEndpoints({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(exchange_->SetEndpoints({"nowhere"}).code(), absl::StatusCode::kInvalidArgument);
  // The endpoints are unchanged.
  Post(0, 0);
  EXPECT_EQ(NextSettled(), "0/0 accepted 0");
}

}  // namespace
}  // namespace longwave
