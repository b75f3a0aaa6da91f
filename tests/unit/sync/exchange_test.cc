#include "worker/sync/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/link/link.h"
#include "kernels/ops.h"
#include "server/shard/aggregator.h"
#include "tests/support/sent_frame.h"
#include "worker/sync/pipeline.h"
#include "worker/sync/send_order.h"

namespace longwave {
namespace {

constexpr uint64_t kRun = 99;

Manifest SmallModel() { return {.tensors = {{"w", {128, 128}}, {"b", {128}}}}; }

// A shard as small as can be: the real aggregator behind a real socket, and faults on request.
class TestShard {
 public:
  // history: the aggregator's events before the worker under test comes.
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
    router_->Wake();
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }
  // The next `count` pushes and pulls that come in are lost.
  void LoseIncoming(int count) { lose_incoming_ = count; }
  // The next `count` merged updates are lost on their way out.
  void LoseMerged(int count) { lose_merged_ = count; }
  // The next `count` pushes are answered `busy`.
  void BeBusy(int count) { busy_ = count; }

  // Waits until `done` accepts the frames received so far.
  struct Seen {
    std::vector<HelloFrame> hellos;
    std::map<uint32_t, PeerId> peers;  // by segment
    int pushes = 0;
  };
  void Await(const std::function<bool(const Seen&)>& done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done(seen_); });
  }
  Seen seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void Serve() {
    while (!stop_) {
      auto received = router_->Receive(absl::Hours(1));
      if (!received.ok() || !received->has_value()) continue;
      const PeerFrame& arrived = **received;
      const FrameHeader& header = arrived.frame.header;
      See(arrived);
      const auto* const hello = std::get_if<HelloFrame>(&header);
      if (hello == nullptr && lose_incoming_ > 0) {
        --lose_incoming_;
        continue;
      }
      const uint32_t taken = taken_[arrived.peer]++;
      if (hello != nullptr) {
        const WelcomeFrame welcome{.run = hello->run,
                                   .frames_missing = hello->frames_sent - taken,
                                   .frames_sent = hello->frames_sent,
                                   .worker = hello->worker,
                                   .incarnation = 1,
                                   .shard_frames_sent = sent_[arrived.peer]};
        Send(arrived.peer, welcome, Buffer());
      } else if (header.kind() == FrameKind::kPush && busy_ > 0) {
        --busy_;
        const AnswerFrame busy{.outcome = Outcome::kBusy,
                               .run = header.run(),
                               .round = header.round(),
                               .worker = header.worker(),
                               .segment = header.segment()};
        Send(arrived.peer, busy, Buffer());
      } else {
        routes_[{header.worker(), header.segment()}] = arrived.peer;
        const auto* const pull = std::get_if<PullFrame>(&header);
        const AggregatorEvent event =
            pull != nullptr
                ? AggregatorEvent(PullArrived{*pull})
                : AggregatorEvent(PushArrived{std::get<PushFrame>(header), arrived.frame.payload});
        for (const ShardEffect& effect : aggregator_.Step(event, absl::Now())) Do(effect);
      }
    }
  }

  void See(const PeerFrame& arrived) {
    const std::lock_guard lock(mutex_);
    const FrameHeader& header = arrived.frame.header;
    if (const auto* hello = std::get_if<HelloFrame>(&header)) seen_.hellos.push_back(*hello);
    if (header.kind() == FrameKind::kPush) {
      ++seen_.pushes;
      seen_.peers[header.segment()] = arrived.peer;
    }
    changed_.notify_all();
  }

  void Send(const PeerId& peer, const FrameHeader& header, Buffer payload) {
    ++sent_[peer];
    const absl::Status sent = router_->Send(peer, header, std::move(payload));
    // A worker whose first push was rejected may be gone before the answers to its others.
    EXPECT_TRUE(sent.ok() || absl::IsNotFound(sent)) << sent;
  }

  void Do(const ShardEffect& effect) {
    if (const auto answer = SentIn<AnswerFrame>(effect)) {
      const PeerId& peer = routes_[{answer->header.worker, answer->header.segment}];
      return Send(peer, answer->header, answer->payload);
    }
    const auto merged = SentIn<MergedFrame>(effect);
    if (!merged) return;
    for (const uint32_t worker : merged->workers) {
      const PeerId& peer = routes_[{worker, merged->header.segment}];
      if (lose_merged_ > 0) {
        --lose_merged_;
        ++sent_[peer];
        continue;
      }
      Send(peer, merged->header, merged->payload);
    }
  }

  std::unique_ptr<Router> router_;
  Aggregator aggregator_;
  std::string endpoint_;
  std::map<std::pair<uint32_t, uint32_t>, PeerId> routes_;  // by worker and segment
  std::map<PeerId, uint32_t> taken_;
  std::map<PeerId, uint32_t> sent_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> lose_incoming_ = 0;
  std::atomic<int> lose_merged_ = 0;
  std::atomic<int> busy_ = 0;
  std::thread thread_;
};

// A worker's rounds, as long as the shard keeps their updates.
class Syncing {
 public:
  Syncing(const ExchangeOptions& options, SyncPipeline* pipeline, const Layout& layout)
      : exchange_(Exchange::Connect(options, layout).value()),
        pipeline_(pipeline),
        order_(SendOrder(layout, options.worker)) {}

  absl::Status Send(uint32_t round, uint64_t weight = 512) {
    LONGWAVE_RETURN_IF_ERROR(pipeline_->BeginFragment(round, 0, 1e-3));
    for (const uint32_t s : order_) {
      LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push push, pipeline_->Encode(s));
      LONGWAVE_RETURN_IF_ERROR(exchange_->Post({.epoch = 1,
                                                .round = round,
                                                .segment = s,
                                                .payload = std::move(push.payload),
                                                .norm = push.norm,
                                                .weight = weight}));
    }
    return absl::OkStatus();
  }
  absl::Status Apply(const std::function<bool()>& stopped = [] { return false; }) {
    for (size_t left = order_.size(); left > 0;) {
      if (stopped()) return absl::CancelledError("stopped");
      LONGWAVE_ASSIGN_OR_RETURN(const auto settled, exchange_->Next(absl::Milliseconds(50)));
      if (!settled.has_value()) continue;
      if (settled->fate == Fate::kLate)
        LONGWAVE_RETURN_IF_ERROR(pipeline_->Restore(settled->segment));
      LONGWAVE_RETURN_IF_ERROR(pipeline_->Apply(settled->segment, settled->merged));
      --left;
    }
    return pipeline_->EndFragment();
  }
  Exchange& exchange() { return *exchange_; }

 private:
  const std::unique_ptr<Exchange> exchange_;
  SyncPipeline* const pipeline_;
  const std::vector<uint32_t> order_;
};

class ExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    layout_ = std::make_unique<Layout>(
        Layout::Create(SmallModel(), {.segment_tiles = 2, .shard_count = 1}).value());
    theta_.assign(layout_->parameter_count(), 0.5f);
    SetUpload({Selection::kTopK, ValueCodec::kInt2, 64});
  }

  void SetUpload(const PayloadFormat& up) {
    sync_.up = up;
    sync_.beta = 0.9f;
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

  std::unique_ptr<Syncing> Connect(ExchangeOptions options = {}) {
    options.run = kRun;
    options.shard_endpoints = {shard_->endpoint()};
    options.hello_every = hello_every_;
    return std::make_unique<Syncing>(options, pipeline_.get(), *layout_);
  }

  void Drift() {
    for (size_t e = 0; e < theta_.size(); e += 7) theta_[e] -= 0.01f;
  }
  absl::Status Sync(Syncing& syncing, uint32_t round) {
    Drift();
    const absl::Status sent = syncing.Send(round);
    return sent.ok() ? syncing.Apply() : sent;
  }
  uint32_t segment_count() const { return static_cast<uint32_t>(layout_->segments().size()); }
  uint64_t PayloadBytes(uint32_t segment) const {
    return PayloadLayout::Create(sync_.up, layout_->TileSizes(segment))->bytes();
  }

  std::unique_ptr<Layout> layout_;
  SyncOptions sync_;
  std::vector<float> theta_;
  std::unique_ptr<SyncPipeline> pipeline_;
  std::unique_ptr<TestShard> shard_;
  // No other hello, however long this machine takes, but where a test loses something.
  absl::Duration hello_every_ = absl::Hours(1);
};

TEST_F(ExchangeTest, BringsTheReplicaToTheMergedState) {
  auto syncing = Connect();
  for (uint32_t round = 0; round < 3; ++round) {
    const absl::Status synced = Sync(*syncing, round);
    ASSERT_TRUE(synced.ok()) << synced;
    EXPECT_TRUE(std::equal(theta_.begin(), theta_.end(), pipeline_->anchor()));
  }
  EXPECT_LT(theta_[0], 0.5f);
}

TEST_F(ExchangeTest, CountsEveryByteOfItsFrames) {
  auto syncing = Connect();
  ASSERT_TRUE(Sync(*syncing, 0).ok());
  const ByteCounts counts = syncing->exchange().counts();
  uint64_t payload = 0;
  uint64_t wire = kFrameHeaderBytes + 2;  // the hello
  for (uint32_t s = 0; s < segment_count(); ++s) {
    const uint64_t bytes = PayloadBytes(s);
    payload += bytes;
    // A header and a payload, with ZMTP's framing: 2 bytes a part up to 255 bytes, 9 above.
    wire += kFrameHeaderBytes + 2 + bytes + (bytes > 255 ? 9 : 2);
  }
  EXPECT_EQ(counts.payload_pushed, payload);
  EXPECT_EQ(counts.pushed, wire);
  EXPECT_GT(counts.pulled, counts.payload_pulled);
}

TEST_F(ExchangeTest, PushesAgainWhatWasLost) {
  hello_every_ = absl::Milliseconds(200);
  auto syncing = Connect();
  shard_->LoseIncoming(2);
  EXPECT_TRUE(Sync(*syncing, 0).ok());
}

TEST_F(ExchangeTest, AsksAgainForAMergedUpdateThatWasLost) {
  hello_every_ = absl::Milliseconds(200);
  auto syncing = Connect();
  shard_->LoseMerged(1);
  EXPECT_TRUE(Sync(*syncing, 0).ok());
}

// Worker 1 alone was a member when round 0 closed, so worker 0's push is late. Its signal stays in
// the residual, and the worker requests the round's update.
TEST_F(ExchangeTest, KeepsTheSignalOfALatePushAndTakesTheUpdate) {
  std::vector<float> other(theta_.size(), 0.5f);
  const auto pipeline =
      SyncPipeline::Create(sync_, layout_.get(), OpsFor(BackendKind::kCpu).value(), {},
                           {.theta = other.data()})
          .value();
  for (size_t e = 0; e < other.size(); e += 3) other[e] += 0.02f;
  ASSERT_TRUE(pipeline->BeginFragment(0, 0, 1e-3).ok());
  std::vector<AggregatorEvent> history = {MembershipChanged{Members(1, {1})}};
  for (uint32_t s = 0; s < segment_count(); ++s) {
    const SyncPipeline::Push push = pipeline->Encode(s).value();
    PushFrame header{.run = kRun, .epoch = 1};
    header.worker = 1;
    header.segment = s;
    header.weight = 1;
    header.norm = push.norm;
    history.push_back(PushArrived{header, push.payload});
  }
  history.push_back(MembershipChanged{Members(2, {0, 1})});
  StartShard(history);

  auto syncing = Connect();
  const absl::Status synced = Sync(*syncing, 0);
  ASSERT_TRUE(synced.ok()) << synced;
  EXPECT_GT(theta_[0], 0.5f);  // worker 1's update; worker 0 alone would have lowered it
  double kept = 0;
  for (size_t at = 0; at < layout_->coefficient_count(); ++at) {
    kept += std::abs(pipeline_->momentum()[at]);
  }
  EXPECT_NEAR(kept, 0.01 * std::ceil(static_cast<double>(theta_.size()) / 7), 1e-3);
}

TEST_F(ExchangeTest, SaysWhyAPushWasRejected) {
  auto syncing = Connect();
  ASSERT_TRUE(syncing->Send(0, /*weight=*/0).ok());
  const absl::Status rejected = syncing->Apply();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(rejected.ToString(), ::testing::ContainsRegex("rejected.*weight 0"));
}

TEST_F(ExchangeTest, StopsWhenToldTo) {
  auto syncing = Connect();
  shard_->LoseIncoming(1 << 20);
  ASSERT_TRUE(syncing->Send(0).ok());
  int asked = 0;
  const absl::Status stopped = syncing->Apply([&asked] { return ++asked > 2; });
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled);
}

TEST_F(ExchangeTest, PushesAgainWhereTheShardWasBusy) {
  auto syncing = Connect();
  shard_->BeBusy(2);
  EXPECT_TRUE(Sync(*syncing, 0).ok());
  EXPECT_EQ(shard_->seen().pushes, static_cast<int>(segment_count()) + 2);
}

// While the caller is away, everything is sent and settled. Afterwards it takes all results.
TEST_F(ExchangeTest, SendsAndReceivesWhileTheCallerComputes) {
  auto syncing = Connect();
  Drift();
  ASSERT_TRUE(syncing->Send(0).ok());
  shard_->Await([&](const auto& seen) { return seen.pushes >= static_cast<int>(segment_count()); });
  EXPECT_TRUE(syncing->Apply().ok());
}

TEST_F(ExchangeTest, SettlesAPush) {
  auto syncing = Connect();
  Exchange& exchange = syncing->exchange();
  ASSERT_TRUE(pipeline_->BeginFragment(0, 0, 1e-3).ok());
  const SyncPipeline::Push encoded = pipeline_->Encode(1).value();
  const SegmentPush push = {
      .epoch = 1, .segment = 1, .payload = encoded.payload, .norm = encoded.norm, .weight = 1};
  ASSERT_TRUE(exchange.Post(push).ok());
  EXPECT_EQ(exchange.Post({.segment = 99}).code(), absl::StatusCode::kInvalidArgument);
  std::optional<Settled> settled;
  while (!settled.has_value()) settled = exchange.Next(absl::Seconds(1)).value();
  EXPECT_EQ(settled->segment, 1u);
  EXPECT_TRUE(settled->fate == Fate::kAccepted);
  EXPECT_FALSE(settled->merged.empty());
}

TEST_F(ExchangeTest, OpensEveryConnectionAndSpreadsTheSegments) {
  auto syncing = Connect({.connections = 2, .max_download_mbit = 8});
  for (uint32_t round = 0; round < 2; ++round) {
    const absl::Status synced = Sync(*syncing, round);
    ASSERT_TRUE(synced.ok()) << synced;
  }
  shard_->Await([](const auto& seen) { return seen.hellos.size() >= 2; });
  const TestShard::Seen seen = shard_->seen();
  for (const HelloFrame& hello : seen.hellos) EXPECT_EQ(hello.bytes_per_second_max, 1'000'000u);
  ASSERT_GE(segment_count(), 3u);
  EXPECT_NE(seen.peers.at(0), seen.peers.at(1));
  EXPECT_EQ(seen.peers.at(0), seen.peers.at(2));
}

// Bytes beyond the burst, and beyond the frame that may start in debt, take their time at the rate.
TEST_F(ExchangeTest, KeepsToItsUploadLimit) {
  SetUpload({});
  auto syncing = Connect({.max_upload_mbit = 8});
  const absl::Time begin = MonotonicNow();
  for (uint32_t round = 0; round < 4; ++round) ASSERT_TRUE(Sync(*syncing, round).ok());
  const double seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  const ByteCounts counts = syncing->exchange().counts();
  uint64_t payload = 0;
  for (uint32_t s = 0; s < segment_count(); ++s) payload += PayloadBytes(s);
  EXPECT_EQ(counts.payload_pushed, 4 * payload);
  // The last frame starts when all before it are paid for but the burst of 50 ms.
  const double paid = static_cast<double>(counts.pushed - PayloadBytes(segment_count() - 1)) - 200;
  EXPECT_GE(seconds, paid / 1e6 - 0.05);
}

// Ends though nothing is answered: a wait for the thread would hang the test.
TEST_F(ExchangeTest, EndsWithPushesOnTheirWay) {
  auto syncing = Connect({.max_upload_mbit = 1e-5});
  shard_->LoseIncoming(1 << 20);
  ASSERT_TRUE(syncing->Send(0).ok());
  syncing.reset();
  EXPECT_LT(shard_->seen().pushes, static_cast<int>(segment_count()));
}

TEST_F(ExchangeTest, WantsOneEndpointAShardAndAConnection) {
  EXPECT_EQ(Exchange::Connect({.shard_endpoints = {}}, *layout_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Exchange::Connect({.shard_endpoints = {"tcp://127.0.0.1:1"}, .connections = 0}, *layout_)
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longwave
