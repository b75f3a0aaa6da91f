#include "worker/sync/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
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
  TestShard(const AggregatorOptions& options, const Layout& layout, const Membership& membership)
      : router_(Router::Bind("tcp://127.0.0.1:0").value()),
        aggregator_(Aggregator::Create(options, layout).value()) {
    aggregator_.Step(MembershipChanged{membership}, absl::Now());
    endpoint_ = router_->endpoint();
    thread_ = std::thread([this] { Serve(); });
  }
  ~TestShard() {
    stop_ = true;
    router_->Wake();
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }
  // From now on pushes and pulls are lost.
  void LoseIncoming() { loses_ = true; }
  // From now on merged updates lack their last byte.
  void CutUpdates() { cuts_ = true; }

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
      if (hello != nullptr) {
        Send(arrived.peer,
             WelcomeFrame{.run = hello->run, .worker = hello->worker, .incarnation = 1}, Buffer());
      } else if (!loses_) {
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
    const auto whole = merged->payload.bytes();
    const Buffer payload =
        cuts_ ? Buffer(std::vector(whole.begin(), whole.end() - 1)) : merged->payload;
    for (const uint32_t worker : merged->workers) {
      Send(routes_[{worker, merged->header.segment}], merged->header, payload);
    }
  }

  std::unique_ptr<Router> router_;
  Aggregator aggregator_;
  std::string endpoint_;
  std::map<std::pair<uint32_t, uint32_t>, PeerId> routes_;  // by worker and segment
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> loses_ = false;
  std::atomic<bool> cuts_ = false;
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
    shard_ = std::make_unique<TestShard>(AggregatorOptions{.run = kRun, .up = sync_.up}, *layout_,
                                         Membership{.epoch = 1, .members = {{0, "w"}}});
  }

  std::unique_ptr<Syncing> Connect(ExchangeOptions options = {}) {
    options.run = kRun;
    options.shard_endpoints = {shard_->endpoint()};
    options.hello_every = absl::Hours(1);  // no other hello, however long this machine takes
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

TEST_F(ExchangeTest, SaysWhyAPushWasRejected) {
  auto syncing = Connect();
  ASSERT_TRUE(syncing->Send(0, /*weight=*/0).ok());
  const absl::Status rejected = syncing->Apply();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(rejected.ToString(), ::testing::ContainsRegex("rejected.*weight 0"));
}

TEST_F(ExchangeTest, StopsWhenToldTo) {
  auto syncing = Connect();
  shard_->LoseIncoming();
  ASSERT_TRUE(syncing->Send(0).ok());
  int asked = 0;
  const absl::Status stopped = syncing->Apply([&asked] { return ++asked > 2; });
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled);
}

// While the caller is away, everything is sent and settled. Afterwards it takes all results.
TEST_F(ExchangeTest, SendsAndReceivesWhileTheCallerComputes) {
  auto syncing = Connect();
  Drift();
  ASSERT_TRUE(syncing->Send(0).ok());
  shard_->Await([&](const auto& seen) { return seen.pushes >= static_cast<int>(segment_count()); });
  EXPECT_TRUE(syncing->Apply().ok());
}

TEST_F(ExchangeTest, ValidatesUpdatesBesideTheCaller) {
  auto syncing = Connect();
  for (const bool cuts : {false, true}) {
    if (cuts) shard_->CutUpdates();
    ASSERT_TRUE(syncing->Send(cuts ? 1 : 0).ok());
    for (uint32_t taken = 0; taken < segment_count();) {
      const auto settled = *syncing->exchange().Next(absl::Seconds(1));
      if (!settled.has_value()) continue;
      ++taken;
      EXPECT_EQ(settled->is_valid, !cuts);
      const SyncPipeline::Merged update{settled->segment, settled->merged, settled->is_valid};
      EXPECT_EQ(pipeline_->Apply({&update, 1}).code(),
                cuts ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk);
    }
    EXPECT_EQ(pipeline_->EndFragment().ok(), !cuts);
  }
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
  shard_->LoseIncoming();
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
