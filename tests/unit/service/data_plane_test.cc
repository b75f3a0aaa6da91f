// A shard's data plane over real sockets; the workers are this test.
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/wire/snapshot_payload.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/shard_data_plane.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/wrapped_file_system.h"
#include "tests/unit/service/shard_worker.h"

namespace longwave {
namespace {

constexpr uint64_t kIncarnation = 0xfeed;

std::string Text(const Buffer& payload) {
  return std::string(reinterpret_cast<const char*>(payload.bytes().data()), payload.size());
}

// A tile each, so that ZeroPayload fits all of them.
Layout FourSegments(const RunConfig& config) {
  const Manifest manifest{{{"w", {256, 64}}}};
  LayoutOptions options = LayoutOptionsFor(config, manifest);
  options.segment_tiles = 1;
  auto layout = Layout::Create(manifest, options);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// A disk that may stop answering.
class HangingFiles final : public WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;

  void SetHangs(bool hangs) {
    const std::lock_guard lock(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }
  void AwaitHanging() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waits_; });
  }

 private:
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, HangingFiles* disk)
        : file_(std::move(file)), disk_(disk) {}
    absl::Status Append(BytePieces pieces) override { return file_->Append(pieces); }
    absl::Status Sync() override {
      disk_->Wait();
      return file_->Sync();
    }

   private:
    const std::unique_ptr<WritableFile> file_;
    HangingFiles* const disk_;
  };
  std::unique_ptr<WritableFile> Wrap(const std::string&,
                                     std::unique_ptr<WritableFile> file) override {
    return std::make_unique<File>(std::move(file), this);
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    waits_ = hangs_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  bool waits_ = false;
};

class DataPlaneTest : public ::testing::Test {
 protected:
  DataPlaneTest() : config_(OneRoundConfig()), layout_(FourSegments(config_)) {}

  void SetUp() override { SetUp({}, {}); }
  // With keys of the shard and of worker 0, on encrypted connections.
  void SetUp(const CurveKeys& shard, const CurveKeys& worker) {
    auto router = Router::Bind("tcp://127.0.0.1:0", {.send_queue_frames = 8, .keys = shard});
    ASSERT_TRUE(router.ok()) << router.status();
    shard_key_ = shard.public_key;
    keys_ = worker;
    plane_ = std::make_unique<ShardDataPlane>(*std::move(router), nullptr, ask_patience_);
    serving_ = std::async(std::launch::async, [this] { return plane_->Serve(); });
    dealer_ = NewDealer();
  }
  void TearDown() override {
    if (plane_ != nullptr) plane_->Stop();
    EXPECT_TRUE(serving_.get().ok());
  }

  std::unique_ptr<Dealer> NewDealer() {
    auto dealer = Dealer::Connect(WithKey(plane_->endpoint(), shard_key_), {.keys = keys_});
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    return *std::move(dealer);
  }

  // With a folder if `open_store` is one. The first member says hello, without a limit.
  void Begin(const std::vector<Member>& members, OpenStore open_store = {}) {
    BeginUngreeted(members, std::move(open_store));
    Hello(*dealer_, members.at(0).worker, 0);
  }
  void BeginUngreeted(std::vector<Member> members, OpenStore open_store = {}) {
    DurableShardOptions options;
    options.aggregator = {
        .run = kRun, .up = config_.sync.up, .rho = config_.sync.rho, .down = config_.sync.down};
    options.snapshot_rounds = snapshot_rounds_;
    auto shard = DurableShard::Open(options, layout_, std::move(open_store));
    ASSERT_TRUE(shard.ok()) << shard.status();
    if (disk_is_full_) files_.faults.capacity_bytes = 1;
    plane_->Begin(kRun, kIncarnation, *std::move(shard));
    plane_->SetMembership({.epoch = 1, .members = std::move(members)});
  }

  OpenStore Folder() {
    ShardStoreOptions options;
    options.identity = {kRun, 0, layout_.hash()};
    return [this, options] { return ShardStore::Open(&disk_, "state", options); };
  }

  void Push(Dealer& from, uint32_t worker, uint32_t segment, uint32_t round = 0) {
    PushFrame header = Header<PushFrame>(kRun, worker);
    header.segment = segment;
    header.round = round;
    EXPECT_TRUE(from.Send(header, ZeroPayload(config_, layout_)).ok());
    EXPECT_EQ(OutcomeOf(MustReceive(from)), Outcome::kAccepted);
  }

  void Hello(Dealer& from, uint32_t worker, uint64_t bytes_per_s) {
    HelloFrame header = Header<HelloFrame>(kRun, worker);
    header.bytes_per_second_max = bytes_per_s;
    EXPECT_TRUE(from.Send(header, Buffer()).ok());
    EXPECT_EQ(OutcomeOf(MustReceive(from)), Outcome::kAccepted);
  }

  static void ExpectMerged(Dealer& at, uint32_t segment, uint32_t round = 0) {
    const Frame frame = MustReceive(at);
    EXPECT_EQ(frame.header.kind(), FrameKind::kMerged);
    EXPECT_EQ(frame.header.segment(), segment);
    EXPECT_EQ(frame.header.round(), round);
  }

  // The merged update, and then the request for a snapshot: the first time, with
  // snapshot_rounds_ 1.
  static void ExpectAsked(Dealer& at, uint32_t segment, uint32_t round) {
    ExpectMerged(at, segment, round);
    const Frame request = MustReceive(at);
    EXPECT_EQ(request.header.kind(), FrameKind::kRequest);
    EXPECT_EQ(request.header.round(), round + 1);
  }

  const RunConfig config_;
  const Layout layout_;
  SimFileSystem files_{1};  // the serving thread's, once it serves
  HangingFiles disk_{&files_};
  bool disk_is_full_ = false;
  uint32_t snapshot_rounds_ = 1'000;
  absl::Duration ask_patience_ = absl::Seconds(60);
  std::string shard_key_;  // empty: plain connections
  CurveKeys keys_;
  std::unique_ptr<ShardDataPlane> plane_;
  std::future<absl::Status> serving_;
  std::unique_ptr<Dealer> dealer_;
};

TEST_F(DataPlaneTest, FramesThatComeBeforeTheMembershipWait) {
  ASSERT_TRUE(dealer_->Send(Header<HelloFrame>(kRun, 0), Buffer()).ok());
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  // There is no answer yet. The frames may arrive now or later.
  EXPECT_FALSE(dealer_->Receive(absl::Milliseconds(20))->has_value());
  BeginUngreeted({{0, "a", 0}});
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  EXPECT_EQ(MustReceive(*dealer_).header.kind(), FrameKind::kMerged);
  EXPECT_EQ(plane_->status().state.pushes_accepted, 1u);
  EXPECT_EQ(plane_->status().segments.at(0).open_round, 1u);
}

TEST_F(DataPlaneTest, MergedUpdateGoesToEveryMember) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto other = NewDealer();
  Hello(*other, 1, 0);
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  EXPECT_EQ(plane_->status().segments.at(0).waiting_for, std::vector<uint32_t>{1});
  ASSERT_TRUE(other->Send(Header<PushFrame>(kRun, 1), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*other)), Outcome::kAccepted);
  const Frame here = MustReceive(*dealer_);
  const Frame there = MustReceive(*other);
  EXPECT_EQ(here.header.kind(), FrameKind::kMerged);
  EXPECT_EQ(std::get<MergedFrame>(here.header).weight, 200u);
  EXPECT_EQ(here.header, there.header);
}

TEST_F(DataPlaneTest, AMemberThatLeavesIsNotWaitedFor) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  // The thread that serves waits for frames; the membership alone must wake it.
  plane_->SetMembership({.epoch = 2, .members = {{0, "a", 0}}});
  EXPECT_EQ(MustReceive(*dealer_).header.kind(), FrameKind::kMerged);
}

TEST_F(DataPlaneTest, AnswersFollowAWorkerToItsNewConnection) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  dealer_ = NewDealer();
  Hello(*dealer_, 0, 0);
  ASSERT_TRUE(dealer_->Send(Header<PullFrame>(kRun, 0), Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.kind(), FrameKind::kMerged);
}

TEST_F(DataPlaneTest, HelloIsAcceptedFromMembersOfThisRunAlone) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header<HelloFrame>(kRun, 0), Buffer()).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  ASSERT_TRUE(dealer_->Send(Header<HelloFrame>(kRun + 1, 0), Buffer()).ok());
  Frame answer = MustReceive(*dealer_);
  EXPECT_EQ(OutcomeOf(answer), Outcome::kRejected);
  EXPECT_EQ(Text(answer.payload),
            "hello of run 0000000000001235, this shard serves run 0000000000001234");
  ASSERT_TRUE(dealer_->Send(Header<HelloFrame>(kRun, 7), Buffer()).ok());
  answer = MustReceive(*dealer_);
  EXPECT_EQ(OutcomeOf(answer), Outcome::kRejected);
  EXPECT_EQ(Text(answer.payload), "worker 7 is not a member of epoch 1");
}

TEST_F(DataPlaneTest, TheAnswerToAHelloSaysNothingThatAnswersDoNot) {
  Begin({{3, "a", 0}});
  HelloFrame hello = Header<HelloFrame>(kRun, 3);
  hello.frames_sent = 3;  // of which Begin's hello has come
  hello.bytes_per_second_max = 1'000'000;
  ASSERT_TRUE(dealer_->Send(hello, Buffer()).ok());
  WelcomeFrame wanted = Header<WelcomeFrame>(kRun, 3);
  wanted.frames_sent = 3;
  wanted.frames_missing = 2;
  wanted.shard_frames_sent = 1;
  wanted.incarnation = kIncarnation;  // a worker learns by it that the shard began anew
  EXPECT_EQ(MustReceive(*dealer_).header, wanted);
}

// Useless frames, perhaps a stranger's, do not fill the disk with log lines.
TEST_F(DataPlaneTest, RejectionsAreLoggedAtDoublingNumbers) {
  Begin({{0, "a", 0}});
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 9; ++i) {
    FrameHeader header = PushFrame{.run = kRun, .segment = 9, .weight = 100};
    if (i == 3) header = PullFrame{.run = kRun, .segment = 9};
    ASSERT_TRUE(dealer_->Send(header, Buffer()).ok());
    EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kRejected);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  size_t lines = 0;
  for (size_t at = 0; (at = log.find("rejected pu", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 4u) << log;
  EXPECT_THAT(log, ::testing::HasSubstr("rejected push of worker 0, round 0, segment 9: wanted"));
  EXPECT_THAT(log, ::testing::HasSubstr("rejected pull of worker 0, round 0, segment 9: wanted"));
}

// The worker does not know yet that the shard was restarted.
TEST_F(DataPlaneTest, WhoHasSaidNoHelloIsAskedForOneAndItsUpdatesWaitForIt) {
  BeginUngreeted({{0, "a", 0}, {1, "b", 0}});
  const auto other = NewDealer();
  Hello(*other, 1, 0);
  const PushFrame push = Header<PushFrame>(kRun, 0);
  ASSERT_TRUE(dealer_->Send(push, ZeroPayload(config_, layout_)).ok());
  RequestFrame wanted = Header<RequestFrame>(kRun, 0);
  wanted.segment = kNoSegment;
  EXPECT_EQ(MustReceive(*dealer_).header, wanted);
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted) << "answers do not wait";
  // A byte a second: whatever waited for the hello waits on.
  Hello(*dealer_, 0, 1);
  Push(*other, 1, 0);
  ExpectMerged(*other, 0);
  EXPECT_EQ(plane_->status().workers.at(0).frames_waiting, 1u);
  Push(*dealer_, 0, 1);  // no further request for a hello
}

TEST_F(DataPlaneTest, WhoSaysNoHelloThoughAskedGetsItsUpdatesAllTheSame) {
  BeginUngreeted({{0, "a", 0}});
  const absl::Time begin = MonotonicNow();
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.kind(), FrameKind::kRequest);
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  ExpectMerged(*dealer_, 0);
  EXPECT_GE(MonotonicNow() - begin, MemberLinks::kHelloPatience);
  // The shard asks for a hello again, and serves the request at once.
  ASSERT_TRUE(dealer_->Send(Header<PullFrame>(kRun, 0), Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.kind(), FrameKind::kRequest);
  ExpectMerged(*dealer_, 0);
}

TEST_F(DataPlaneTest, RejectedPushSaysWhy) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), Buffer(std::vector<std::byte>(7))).ok());
  const Frame answer = MustReceive(*dealer_);
  EXPECT_EQ(OutcomeOf(answer), Outcome::kRejected);
  EXPECT_FALSE(answer.payload.empty());
}

TEST_F(DataPlaneTest, ASegmentIsAnsweredAndMergedByItsOwnConnection) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto second = NewDealer();
  const auto other = NewDealer();
  Hello(*other, 1, 0);
  Push(*dealer_, 0, 0);
  Push(*second, 0, 1);
  Push(*dealer_, 0, 2);
  for (uint32_t segment = 0; segment < 3; ++segment) {
    Push(*other, 1, segment);
    ExpectMerged(*other, segment);
  }
  ExpectMerged(*dealer_, 0);
  ExpectMerged(*second, 1);
  ExpectMerged(*dealer_, 2);
  EXPECT_EQ(plane_->status().workers.at(0).connections, 2u);
  EXPECT_EQ(plane_->status().workers.at(1).connections, 1u);
}

TEST_F(DataPlaneTest, APushToASegmentOfNobodyIsRejectedWhereItCameFrom) {
  Begin({{0, "a", 0}});
  PushFrame header = Header<PushFrame>(kRun, 0);
  for (const uint32_t segment : {4u, 0xffffffffu}) {
    header.segment = segment;
    ASSERT_TRUE(dealer_->Send(header, ZeroPayload(config_, layout_)).ok());
    EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kRejected);
  }
}

// At a byte a second the answer to the hello alone takes a minute to pay for. Later frames wait
// until the limit is lifted, whatever the speed of this machine.
TEST_F(DataPlaneTest, ARateHoldsBackMergedUpdatesOfItsWorkerAlone) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto other = NewDealer();
  Hello(*dealer_, 0, 1);
  Hello(*other, 1, 0);
  for (uint32_t segment = 0; segment < 4; ++segment) {
    Push(*dealer_, 0, segment);  // the answer does not wait
    Push(*other, 1, segment);
    ExpectMerged(*other, segment);
  }
  const std::vector<WorkerLinkReport> workers = plane_->status().workers;
  EXPECT_EQ(workers.at(0).bytes_per_second, 1u);
  EXPECT_EQ(workers.at(0).frames_waiting, 4u);
  EXPECT_EQ(workers.at(0).bytes_waiting,
            4 * FrameWireBytes(ZeroPayload(config_, layout_).size(), Encryption::kNone));
  EXPECT_EQ(workers.at(1).bytes_per_second, 0u);
  EXPECT_EQ(workers.at(1).frames_waiting, 0u);

  HelloFrame lift = Header<HelloFrame>(kRun, 0);
  ASSERT_TRUE(dealer_->Send(lift, Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.kind(), FrameKind::kAnswer);
  for (uint32_t segment = 0; segment < 4; ++segment) ExpectMerged(*dealer_, segment);
  EXPECT_EQ(plane_->status().workers.at(0).frames_waiting, 0u);
}

class SecuredDataPlaneTest : public DataPlaneTest {
 protected:
  void SetUp() override { DataPlaneTest::SetUp(*MakeCurveKeys(), *MakeCurveKeys()); }
};

TEST_F(SecuredDataPlaneTest, WhatWaitsAndWhatWentIsCountedAsItIsEncrypted) {
  Begin({{.worker = 0, .name = "a", .data_key = keys_.public_key}});
  Hello(*dealer_, 0, 1);
  Push(*dealer_, 0, 0);
  const std::vector<WorkerLinkReport> workers = plane_->status().workers;
  const uint64_t frame_bytes =
      FrameWireBytes(ZeroPayload(config_, layout_).size(), Encryption::kCurve);
  EXPECT_EQ(workers.at(0).frames_waiting, 1u);
  EXPECT_EQ(workers.at(0).bytes_waiting, frame_bytes);
  EXPECT_EQ(workers.at(0).traffic.received[FrameKind::kPush].bytes, frame_bytes);
  EXPECT_EQ(workers.at(0).traffic.sent[FrameKind::kAnswer].bytes,
            3 * FrameWireBytes(0, Encryption::kCurve));
}

TEST_F(DataPlaneTest, TheNewestRoundOfASegmentWaitsAlone) {
  Begin({{0, "a", 0}});
  Hello(*dealer_, 0, 1);
  for (uint32_t round = 0; round < 3; ++round) Push(*dealer_, 0, 1, round);
  EXPECT_EQ(plane_->status().workers.at(0).frames_waiting, 1u);
  Hello(*dealer_, 0, 0);
  ExpectMerged(*dealer_, 1, 2);
}

// The answers and updates fill the kernel's buffers and the queue; the rest waits.
TEST_F(DataPlaneTest, AWorkerThatDoesNotReadGetsTheNewestOfEachSegmentOnceItDoes) {
  constexpr uint32_t kRounds = 400;
  Begin({{0, "a", 0}});
  const Buffer payload = ZeroPayload(config_, layout_);
  PushFrame header = Header<PushFrame>(kRun, 0);
  for (header.round = 0; header.round < kRounds; ++header.round) {
    for (header.segment = 0; header.segment < 4; ++header.segment) {
      ASSERT_TRUE(dealer_->Send(header, payload).ok());
    }
  }
  uint32_t newest = 0;
  while (newest < 4) {
    const Frame frame = MustReceive(*dealer_);
    ASSERT_NE(frame.header.run(), 0u) << newest << " of 4 came";
    if (frame.header.kind() == FrameKind::kMerged && frame.header.round() == kRounds - 1) ++newest;
  }
  EXPECT_EQ(plane_->status().state.pushes_accepted, 4 * kRounds);
}

TEST_F(DataPlaneTest, AWorkerThatLeavesTakesItsQueueAlong) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto other = NewDealer();
  Hello(*other, 1, 0);
  Hello(*dealer_, 0, 1);
  Push(*dealer_, 0, 0);
  Push(*other, 1, 0);
  ExpectMerged(*other, 0);
  plane_->SetMembership({.epoch = 2, .members = {{1, "b", 0}}});
  ASSERT_EQ(plane_->status().workers.size(), 1u);
  EXPECT_EQ(plane_->status().workers.at(0).worker, 1u);
  // The worker comes back without a limit until its hello states one.
  plane_->SetMembership({.epoch = 3, .members = {{0, "a", 0}, {1, "b", 0}}});
  const WorkerLinkReport back = plane_->status().workers.at(0);
  EXPECT_EQ(back, (WorkerLinkReport{.worker = 0}));
}

TEST_F(DataPlaneTest, BothEndsCountTheSameByWorkerAndKind) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto second = NewDealer();
  const auto other = NewDealer();
  Hello(*other, 1, 0);
  Hello(*second, 0, 0);
  for (uint32_t segment = 0; segment < 4; ++segment) {
    Dealer& by = segment % 2 == 0 ? *dealer_ : *second;
    Push(by, 0, segment);
    Push(*other, 1, segment);
    ExpectMerged(by, segment);
    ExpectMerged(*other, segment);
  }
  ASSERT_TRUE(other->Send(Header<PullFrame>(kRun, 1), Buffer()).ok());
  ExpectMerged(*other, 0);

  const auto counted = [](std::initializer_list<const Dealer*> dealers) {
    LinkTraffic traffic;  // as the shard sees it
    for (const Dealer* dealer : dealers) {
      traffic += {dealer->counts().received_by_kind, dealer->counts().sent_by_kind};
    }
    return traffic;
  };
  const std::vector<WorkerLinkReport> workers = plane_->status().workers;
  EXPECT_EQ(workers.at(0).traffic, counted({dealer_.get(), second.get()}));
  EXPECT_EQ(workers.at(1).traffic, counted({other.get()}));
  EXPECT_EQ(plane_->status().traffic, counted({dealer_.get(), second.get(), other.get()}));
  EXPECT_EQ(workers.at(0).traffic.received[FrameKind::kHello].frames, 2u);
  EXPECT_EQ(workers.at(1).traffic.received[FrameKind::kPull].frames, 1u);
  EXPECT_EQ(workers.at(1).traffic.sent[FrameKind::kMerged].frames, 5u);
  EXPECT_EQ(plane_->status().state.bytes_sent, plane_->status().traffic.sent.Total().bytes);
}

TEST_F(DataPlaneTest, StrangersAreCountedInTheSumAlone) {
  BeginUngreeted({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header<HelloFrame>(kRun, 5), Buffer()).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kRejected);
  EXPECT_EQ(plane_->status().traffic.received[FrameKind::kHello].frames, 1u);
  ASSERT_EQ(plane_->status().workers.size(), 1u);
  EXPECT_EQ(plane_->status().workers.at(0), (WorkerLinkReport{.worker = 0}));
}

TEST_F(DataPlaneTest, IsAskedBeforeItServesAndAfterwards) {
  EXPECT_TRUE(plane_->status().workers.empty());
  EXPECT_EQ(plane_->status().state.bytes_received, 0u);
  EXPECT_EQ(plane_->figures().last_frame, absl::InfinitePast());
  Begin({{0, "a", 0}});
  Push(*dealer_, 0, 0);
  plane_->Stop();
  EXPECT_EQ(plane_->status().state.pushes_accepted, 1u);
  EXPECT_EQ(plane_->status().workers.size(), 1u);
  EXPECT_GT(plane_->figures().last_frame, absl::InfinitePast());
}

// Updates that a worker pulls to catch up wait separately, unlike updates of closes.
TEST_F(DataPlaneTest, PulledRoundsDoNotTakeEachOthersPlace) {
  Begin({{0, "a", 0}, {1, "b", kRoundNever}}, Folder());
  for (uint32_t round = 0; round < 3; ++round) {
    Push(*dealer_, 0, 1, round);
    ExpectMerged(*dealer_, 1, round);
  }
  const auto joining = NewDealer();
  Hello(*joining, 1, 1);
  PullFrame pull = Header<PullFrame>(kRun, 1);
  pull.segment = 1;
  for (pull.round = 0; pull.round < 3; ++pull.round) {
    ASSERT_TRUE(joining->Send(pull, Buffer()).ok());
  }
  ASSERT_TRUE(joining->Send(Header<HelloFrame>(kRun, 1), Buffer()).ok());
  uint32_t merged = 0;
  for (int i = 0; i < 4; ++i) {  // among them the answer to the hello, in any place
    const FrameName name = MustReceive(*joining).header;
    if (name.kind == FrameKind::kAnswer) continue;
    EXPECT_EQ(name.kind, FrameKind::kMerged);
    EXPECT_EQ(name.round, merged++);
  }
  EXPECT_EQ(merged, 3u);
}

TEST_F(DataPlaneTest, WithAFolderAllIsDurableThatIsAnswered) {
  Begin({{0, "a", 0}}, Folder());
  for (uint32_t round = 0; round < 5; ++round) {
    Push(*dealer_, 0, 1, round);
    ExpectMerged(*dealer_, 1, round);
  }
  plane_->Stop();
  ASSERT_TRUE(serving_.get().ok());
  plane_ = nullptr;
  files_.Restart(SimFileSystem::Stop::kPower);
  auto store = Folder()();
  ASSERT_TRUE(store.ok()) << store.status();
  for (uint32_t round = 0; round < 5; ++round) {
    EXPECT_TRUE((*store)->log().ReadMerged(1, round).ok()) << round;
  }
  serving_ = std::async(std::launch::deferred, [] { return absl::OkStatus(); });
}

TEST_F(DataPlaneTest, AsksForSnapshotsShowsThemAndServesThem) {
  snapshot_rounds_ = 1;
  Begin({{0, "a", 0}}, Folder());
  Push(*dealer_, 0, 1);
  ExpectAsked(*dealer_, 1, 0);
  SnapshotFrame snapshot = Header<SnapshotFrame>(kRun, 0);
  snapshot.segment = 1;
  snapshot.round = 1;
  const std::vector<float> values(64 * 64, 0.5f);
  const std::span<const float> arrays[] = {values};
  ASSERT_TRUE(dealer_->Send(snapshot, EncodeSnapshotPayload(arrays)).ok());
  const auto answer = std::get<AnswerFrame>(MustReceive(*dealer_).header);
  EXPECT_EQ(answer.outcome, Outcome::kAccepted);
  EXPECT_EQ(answer.to, FrameKind::kSnapshot) << "it has come";
  FetchFrame fetch = Header<FetchFrame>(kRun, 0);
  fetch.segment = 1;
  ASSERT_TRUE(dealer_->Send(fetch, Buffer()).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted) << "from the log";
  const std::vector<SnapshotHash> hashes = plane_->Report(1).snapshots;
  ASSERT_EQ(hashes.size(), 1u);
  EXPECT_EQ(hashes[0].round, 1u);
  plane_->SetHashChecks({{1, 1, true}});
  EXPECT_TRUE(plane_->Report(1).snapshots.empty());
  ASSERT_TRUE(dealer_->Send(fetch, Buffer()).ok());
  const Frame sent = MustReceive(*dealer_);
  // 16 KB of one value compress to less than an update of one tile in fp32.
  EXPECT_EQ(sent.header.kind(), FrameKind::kSnapshot);
  EXPECT_EQ(sent.header.round(), 1u);
  EXPECT_TRUE(DecodeSnapshotPayload(sent.payload.bytes(), 1, values.size()).ok());
}

TEST_F(DataPlaneTest, AFullDiskIsTroubleAndBusy) {
  disk_is_full_ = true;
  Begin({{0, "a", 0}}, Folder());
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kBusy);
  EXPECT_THAT(plane_->Report(1).trouble, ::testing::HasSubstr("the disk is full"));
}

// Asks with the patience of the server. Of a silent shard the coordinator would end the run after a
// while.
class DataPlaneOfAHangingDisk : public DataPlaneTest {
 protected:
  DataPlaneOfAHangingDisk() { ask_patience_ = ShardDataPlane::kAskPatience; }
};

TEST_F(DataPlaneOfAHangingDisk, ReportsTroubleAndIsNotSilent) {
  Begin({{0, "a", 0}}, Folder());
  EXPECT_EQ(plane_->Report(1).trouble, "");
  disk_.SetHangs(true);
  ASSERT_TRUE(dealer_->Send(Header<PushFrame>(kRun, 0), ZeroPayload(config_, layout_)).ok());
  disk_.AwaitHanging();
  const absl::Time began = absl::Now();
  ShardHeartbeat report = plane_->Report(7);
  EXPECT_EQ(report.trouble, "") << "a slow write is none";
  EXPECT_EQ(report.known_epoch, 7u);
  EXPECT_EQ(plane_->figures().epoch, 0u) << "none were made before";
  plane_->status();
  while (report.trouble.empty() && absl::Now() < began + absl::Seconds(60))
    report = plane_->Report(7);
  EXPECT_THAT(report.trouble, ::testing::HasSubstr("does its disk answer?"));
  EXPECT_GE(absl::Now() - began, ShardDataPlane::kBusyMax);
  disk_.SetHangs(false);
  EXPECT_EQ(OutcomeOf(MustReceive(*dealer_)), Outcome::kAccepted);
  // The answer may have been on its way before the newest report was made.
  while (!plane_->Report(7).trouble.empty() && absl::Now() < began + absl::Seconds(120)) {
  }
  EXPECT_EQ(plane_->Report(7).trouble, "");
  while (plane_->figures().epoch != 1 && absl::Now() < began + absl::Seconds(120)) {
  }
  EXPECT_EQ(plane_->figures().epoch, 1u);
}

TEST_F(DataPlaneTest, StopsWithoutEverKnowingAMembership) {}

}  // namespace
}  // namespace longwave
