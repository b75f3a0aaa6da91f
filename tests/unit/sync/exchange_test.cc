#include "worker/sync/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "common/link/link.h"
#include "server/shard/aggregator.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRun = 99;

Manifest SmallModel() { return {.tensors = {{"w", {128, 128}}, {"b", {128}}}}; }

// A shard as small as can be: the real aggregator behind a real socket, and faults on request.
class TestShard {
 public:
  // history: what the aggregator has seen before the worker under test comes.
  TestShard(const AggregatorOptions& options, const Layout& layout,
            std::span<const AggregatorEvent> history)
      : router_(Router::Bind("tcp://127.0.0.1:0").value()),
        aggregator_(Aggregator::Create(options, layout).value()) {
    for (const AggregatorEvent& event : history) aggregator_.Step(event, absl::Now());
    endpoint_ = router_->endpoint();
    thread_ = std::thread([this] { Serve(); });
  }
  ~TestShard() {
    stop_ = true;
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }
  // The next `count` frames that come in are lost.
  void LoseIncoming(int count) { lose_incoming_ = count; }
  // The next `count` merged updates are lost on their way out.
  void LoseMerged(int count) { lose_merged_ = count; }

 private:
  void Serve() {
    while (!stop_) {
      auto received = router_->Receive(absl::Milliseconds(20));
      if (!received.ok() || !received->has_value()) continue;
      const PeerFrame& arrived = **received;
      if (lose_incoming_ > 0) {
        --lose_incoming_;
        continue;
      }
      peers_[arrived.frame.header.worker] = arrived.peer;
      const AggregatorEvent event =
          arrived.frame.header.kind == FrameKind::kPull
              ? AggregatorEvent(PullArrived{arrived.frame.header})
              : AggregatorEvent(PushArrived{arrived.frame.header, arrived.frame.payload});
      for (const AggregatorEffect& effect : aggregator_.Step(event, absl::Now())) Do(effect);
    }
  }

  void Do(const AggregatorEffect& effect) {
    if (const auto* answer = std::get_if<AnswerPush>(&effect)) {
      const auto* text = reinterpret_cast<const std::byte*>(answer->reason.data());
      std::vector<std::byte> reason(text, text + answer->reason.size());
      EXPECT_TRUE(
          router_->Send(peers_[answer->header.worker], answer->header, Buffer(std::move(reason)))
              .ok());
      return;
    }
    const auto& merged = std::get<SendMerged>(effect);
    for (const uint32_t worker : merged.workers) {
      if (lose_merged_ > 0) {
        --lose_merged_;
        continue;
      }
      EXPECT_TRUE(router_->Send(peers_[worker], merged.header, merged.payload).ok());
    }
  }

  std::unique_ptr<Router> router_;
  Aggregator aggregator_;
  std::string endpoint_;
  std::map<uint32_t, PeerId> peers_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> lose_incoming_ = 0;
  std::atomic<int> lose_merged_ = 0;
  std::thread thread_;
};

class ExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    layout_ = std::make_unique<Layout>(
        Layout::Create(SmallModel(), {.segment_tiles = 2, .shard_count = 1}).value());
    sync_.up = {Selection::kTopK, ValueCodec::kInt2, 64};
    sync_.beta = 0.9f;
    theta_.assign(layout_->parameter_count(), 0.5f);
    pipeline_ = SyncPipeline::Create(sync_, layout_.get(), OpsFor(BackendKind::kCpu).value(), {},
                                     {.theta = theta_.data()})
                    .value();
    StartShard({MembershipChanged{Members(1, {0})}});
  }

  static Membership Members(uint32_t epoch, std::initializer_list<uint32_t> workers) {
    Membership membership{.epoch = epoch, .members = {}};
    for (const uint32_t worker : workers) membership.members.push_back({worker, "w"});
    return membership;
  }

  void StartShard(const std::vector<AggregatorEvent>& history) {
    shard_ = std::make_unique<TestShard>(AggregatorOptions{.run = kRun, .up = sync_.up}, *layout_,
                                         history);
  }

  std::unique_ptr<Exchange> Connect(uint32_t worker = 0) {
    return Exchange::Connect({.run = kRun,
                              .worker = worker,
                              .shard_endpoints = {shard_->endpoint()},
                              .retry_after = absl::Milliseconds(200)},
                             pipeline_.get(), layout_.get())
        .value();
  }

  absl::Status Sync(Exchange& exchange, uint32_t round) {
    for (size_t e = 0; e < theta_.size(); e += 7) theta_[e] -= 0.01f;
    return exchange.Sync(1, round, 1e-3, 512, [] { return false; });
  }

  std::unique_ptr<Layout> layout_;
  SyncOptions sync_;
  std::vector<float> theta_;
  std::unique_ptr<SyncPipeline> pipeline_;
  std::unique_ptr<TestShard> shard_;
};

TEST_F(ExchangeTest, BringsTheReplicaToTheMergedState) {
  auto exchange = Connect();
  for (uint32_t round = 0; round < 3; ++round) {
    const absl::Status synced = Sync(*exchange, round);
    ASSERT_TRUE(synced.ok()) << synced;
    EXPECT_TRUE(std::equal(theta_.begin(), theta_.end(), pipeline_->anchor()));
  }
  EXPECT_LT(theta_[0], 0.5f);
}

TEST_F(ExchangeTest, CountsEveryByteOfItsFrames) {
  auto exchange = Connect();
  ASSERT_TRUE(Sync(*exchange, 0).ok());
  const ByteCounts counts = exchange->counts();
  uint64_t payload = 0;
  uint64_t wire = 0;
  for (uint32_t s = 0; s < layout_->segments().size(); ++s) {
    const uint64_t bytes = PayloadLayout::Create(sync_.up, layout_->TileSizes(s))->bytes();
    payload += bytes;
    // A header and a payload, with ZMTP's framing: 2 bytes a part up to 255 bytes, 9 above.
    wire += kFrameHeaderBytes + 2 + bytes + (bytes > 255 ? 9 : 2);
  }
  EXPECT_EQ(counts.payload_pushed, payload);
  EXPECT_EQ(counts.pushed, wire);
  EXPECT_GT(counts.pulled, counts.payload_pulled);
}

TEST_F(ExchangeTest, PushesAgainWhatWasLost) {
  auto exchange = Connect();
  shard_->LoseIncoming(2);
  EXPECT_TRUE(Sync(*exchange, 0).ok());
}

TEST_F(ExchangeTest, AsksAgainForAMergedUpdateThatWasLost) {
  auto exchange = Connect();
  shard_->LoseMerged(1);
  EXPECT_TRUE(Sync(*exchange, 0).ok());
}

// Worker 1 alone was a member when round 0 closed: worker 0's push is late. Its signal stays in the
// residual, and the round's update is asked for.
TEST_F(ExchangeTest, KeepsTheSignalOfALatePushAndTakesTheUpdate) {
  std::vector<float> other(theta_.size(), 0.5f);
  const auto pipeline =
      SyncPipeline::Create(sync_, layout_.get(), OpsFor(BackendKind::kCpu).value(), {},
                           {.theta = other.data()})
          .value();
  for (size_t e = 0; e < other.size(); e += 3) other[e] += 0.02f;
  ASSERT_TRUE(pipeline->BeginRound(0, 1e-3).ok());
  std::vector<AggregatorEvent> history = {MembershipChanged{Members(1, {1})}};
  for (uint32_t s = 0; s < layout_->segments().size(); ++s) {
    const SyncPipeline::Push push = pipeline->Encode(s).value();
    FrameHeader header{.kind = FrameKind::kPush, .run = kRun, .epoch = 1};
    header.worker = 1;
    header.segment = s;
    header.weight = 1;
    history.push_back(PushArrived{header, push.payload});
  }
  history.push_back(MembershipChanged{Members(2, {0, 1})});
  StartShard(history);

  auto exchange = Connect();
  const absl::Status synced = Sync(*exchange, 0);
  ASSERT_TRUE(synced.ok()) << synced;
  EXPECT_GT(theta_[0], 0.5f);  // worker 1's update; worker 0 alone would have lowered it
  double kept = 0;
  for (size_t at = 0; at < layout_->coefficient_count(); ++at) {
    kept += std::abs(pipeline_->momentum()[at]);
  }
  EXPECT_NEAR(kept, 0.01 * std::ceil(static_cast<double>(theta_.size()) / 7), 1e-3);
}

TEST_F(ExchangeTest, SaysWhyAPushWasRejected) {
  auto exchange = Connect(/*worker=*/5);
  const absl::Status synced = Sync(*exchange, 0);
  EXPECT_EQ(synced.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(synced.message(), HasSubstr("rejected"));
  EXPECT_THAT(synced.message(), HasSubstr("5"));
}

TEST_F(ExchangeTest, StopsWhenToldTo) {
  auto exchange = Connect();
  shard_->LoseIncoming(1 << 20);
  int asked = 0;
  const absl::Status synced = exchange->Sync(1, 0, 1e-3, 512, [&asked] { return ++asked > 2; });
  EXPECT_EQ(synced.code(), absl::StatusCode::kCancelled);
}

TEST_F(ExchangeTest, WantsOneEndpointAShard) {
  const auto exchange = Exchange::Connect({.shard_endpoints = {}}, pipeline_.get(), layout_.get());
  EXPECT_EQ(exchange.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longwave
