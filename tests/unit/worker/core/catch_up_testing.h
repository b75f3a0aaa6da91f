#ifndef LONGWAVE_TESTS_UNIT_WORKER_CORE_CATCH_UP_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WORKER_CORE_CATCH_UP_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire/snapshot_payload.h"
#include "kernels/ops.h"
#include "tests/unit/worker/member/member_testing.h"
#include "worker/core/worker_core.h"

namespace longwave {

inline const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

// A replica: arrays, and the pipeline on them.
struct Worker {
  Worker(const SyncOptions& options, const Layout& layout, std::vector<float> start)
      : theta(std::move(start)) {
    auto made = SyncPipeline::Create(options, &layout, &Cpu(), {}, {theta.data(), nullptr});
    EXPECT_TRUE(made.ok()) << made.status();
    pipeline = *std::move(made);
  }
  std::vector<uint64_t> hashes() const { return *pipeline->Hashes(); }
  std::vector<float> momentum() const { return *pipeline->ExportMomentum(); }

  std::vector<float> theta;
  std::unique_ptr<SyncPipeline> pipeline;
};

// A peer that trains alone fills the shards' log. A worker that has caught up must have its hashes.
class CatchUpTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.up = {.selection = Selection::kTopK, .codec = ValueCodec::kFp32, .k = 3};
    options_.beta = 0.5f;
    options_.eta_follows_learning_rate = true;
    std::iota(start_.begin(), start_.end(), 1.0f);
    Make();
  }

  void Make() {
    ASSERT_GE(segments(), 3u);
    peer_ = std::make_unique<Worker>(options_, layout_, start_);
    worker_ = std::make_unique<Worker>(options_, layout_, start_);
    shards_ = std::make_unique<FakeShards>(segments());
    hashes_ = {peer_->hashes()};
  }

  uint32_t segments() const { return static_cast<uint32_t>(layout_.segments().size()); }
  static double LearningRate(uint32_t round) { return 1.0 / (1 + round); }

  // The peer's next round. Its updates are in the log at once, or when the test lets them be.
  std::vector<Buffer> PeerRound() {
    const auto round = static_cast<uint32_t>(hashes_.size() - 1);
    SyncPipeline& pipeline = *peer_->pipeline;
    std::vector<Buffer> merged;
    for (uint32_t fragment = 0; fragment < pipeline.fragment_count(); ++fragment) {
      for (size_t i = 0; i < peer_->theta.size(); ++i) {
        peer_->theta[i] += std::sin(static_cast<float>(17 * i + 5 * round + fragment));
      }
      EXPECT_TRUE(pipeline.BeginFragment(round, fragment, LearningRate(round)).ok());
      for (uint32_t s = fragment; s < segments(); s += pipeline.fragment_count()) {
        auto push = pipeline.Encode(s);
        EXPECT_TRUE(push.ok()) << push.status();
        EXPECT_TRUE(pipeline.Apply(s, push->payload).ok());
        if (merged.size() <= s) merged.resize(s + 1);
        merged[s] = push->payload;
      }
      EXPECT_TRUE(pipeline.EndFragment().ok());
    }
    hashes_.push_back(peer_->hashes());
    return merged;
  }
  void CloseRounds(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const std::vector<Buffer> merged = PeerRound();
      for (uint32_t s = 0; s < segments(); ++s) shards_->logs[s].push_back(merged[s]);
    }
  }
  Buffer PeerSnapshot(uint32_t segment) {
    const auto arrays = *peer_->pipeline->ExportSegment(segment);
    return EncodeSnapshotPayload(std::vector<std::span<const float>>(arrays.begin(), arrays.end()));
  }

  // A core, driven by hand on the fixture's shards and control plane.
  struct Parts {
    CatchUpTest* test = nullptr;
    uint32_t rounds = 100;
    bool possible = true;
  };
  class CatchUp {
   public:
    explicit CatchUp(const Parts& parts) : test_(*parts.test), core_(Options(parts)) {}

    absl::StatusOr<uint32_t> Join() {
      Hear();
      const absl::Status begun = core_.Begin(/*is_new=*/false);
      return begun.ok() ? Run() : begun;
    }
    absl::StatusOr<uint32_t> Resume(const Checkpoint& checkpoint) {
      Hear();
      const absl::Status begun = core_.Begin(/*is_new=*/false, checkpoint);
      return begun.ok() ? Run() : begun;
    }
    // The first call, after catching up, is for the present round; each later call is for the next
    // one.
    absl::Status RepairIfTold() {
      if (core_.stage() == WorkerCore::Stage::kComputing) {
        core_.StepDone(1, 0);
      } else if (!began_) {
        StandBetweenRounds();
      }
      return Run().status();
    }
    // Once it has caught up.
    void StandBetweenRounds() {
      const auto repair = std::exchange(test_.host_.repair_, std::nullopt);
      until_ = WorkerCore::Stage::kBetweenRounds;
      EXPECT_TRUE(Join().ok());
      until_.reset();
      test_.shards_->fetches.clear();
      test_.host_.repair_ = repair;
    }
    // Begins with round 0, like a founding worker.
    absl::Status BeginRun() {
      Hear();
      const absl::Status begun = core_.Begin(/*is_new=*/true);
      return begun.ok() ? Run().status() : begun;
    }
    absl::Status Attend() {
      while (const auto request = test_.shards_->NextRequest()) core_.On(*request);
      auto answer =
          core_.AnswerRequest([&](uint32_t s) { return test_.shards_->HasSnapshotRoom(s); });
      if (!answer.ok() || !answer->has_value()) return answer.status();
      return test_.shards_->PostSnapshot((*answer)->segment, (*answer)->round, (*answer)->payload);
    }
    bool IsBehind(uint32_t next) {
      Hear();
      return core_.IsBehind(next);
    }
    const WorkerCore::Counts& counts() const { return core_.counts(); }

    std::function<void()> before_advance = [] {};

   private:
    static WorkerCoreOptions Options(const Parts& parts) {
      CatchUpTest* const test = parts.test;
      const uint32_t fragments = test->worker_->pipeline->fragment_count();
      std::vector<uint32_t> order(test->segments());
      std::iota(order.begin(), order.end(), 0);
      return {.layout = &test->layout_,
              .pipeline = test->worker_->pipeline.get(),
              .plan = SyncPlan(fragments, fragments, 0, uint64_t{fragments} * parts.rounds),
              .order = order,
              .can_catch_up = parts.possible,
              .checkpoint_every = 1,
              .learning_rate =
                  [fragments](uint64_t step) {
                    return LearningRate(static_cast<uint32_t>(step / fragments));
                  },
              .initial_weights =
                  [test] {
                    ++test->initial_made_;
                    return test->start_;
                  },
              .clear_gradient = nullptr,
              .fill_patience = absl::ZeroDuration()};
    }

    void Hear() {
      Directive directive = test_.host_.directive();
      directive.validates = false;
      core_.Hear(std::move(directive));
      core_.HearOpenRound(test_.shards_->NewestOpenRound());
    }

    // Until it would train, or all rounds are there.
    absl::StatusOr<uint32_t> Run() {
      began_ = true;
      for (;;) {
        if (test_.host_.stop) return absl::CancelledError("stop");
        before_advance();
        Hear();
        now_ += absl::Milliseconds(5);
        const auto wish = core_.Advance(now_);
        if (!wish.ok()) return wish.status();
        for (CoreEffect& effect : core_.TakeEffects()) {
          const absl::Status done = std::visit([this](auto& each) { return Do(each); }, effect);
          if (!done.ok()) return done;
        }
        test_.host_.SetReadyRound(core_.ready_round());
        const WorkerCore::Stage stage = core_.stage();
        if (until_.has_value() && stage == *until_) return core_.round();
        const bool seals = stage == WorkerCore::Stage::kSealing;
        if (*wish == WorkerCore::Wish::kTrain || (seals && *wish == WorkerCore::Wish::kWait))
          return core_.round();
        if (*wish != WorkerCore::Wish::kWait) continue;
        if (core_.takes_settled()) {
          auto settled = test_.shards_->Next(absl::ZeroDuration());
          if (settled.ok() && settled->has_value()) core_.On(**std::move(settled));
        } else if (auto event = test_.shards_->NextFetched(absl::ZeroDuration());
                   event.ok() && event->has_value()) {
          if (const absl::Status taken = core_.On(**event); !taken.ok()) return taken;
        }
      }
    }

    absl::Status Do(KeepCheckpoint& keep) {
      if (core_.fills()) test_.NoteFill(keep);
      return absl::OkStatus();
    }
    absl::Status Do(SegmentPush& push) { return test_.shards_->Post(std::move(push)); }
    absl::Status Do(FetchWish& wish) {
      return test_.shards_->Fetch(wish.segment, wish.from_round, wish.until_round);
    }
    absl::Status Do(RoundReport& report) {
      test_.host_.Report(std::move(report));
      return absl::OkStatus();
    }
    template <typename Other>
    absl::Status Do(Other&) {
      return absl::OkStatus();
    }

    CatchUpTest& test_;
    WorkerCore core_;
    absl::Time now_ = absl::UnixEpoch();
    bool began_ = false;
    std::optional<WorkerCore::Stage> until_;
  };

  Parts DefaultParts() { return {.test = this}; }
  void NoteFill(const KeepCheckpoint& keep) {
    EXPECT_TRUE(shards_->pending.empty());
    before_fill_.push_back(keep.checkpoint);
    // As its file has them: the pipeline writes into its payloads again.
    for (UnsettledPush& push : before_fill_.back().pushes) push.payload = CopyOf(push.payload);
  }
  absl::StatusOr<uint32_t> Join() {
    CatchUp catch_up(DefaultParts());
    return catch_up.Join();
  }
  static Buffer CopyOf(const Buffer& buffer) {
    return Buffer(std::vector<std::byte>(buffer.bytes().begin(), buffer.bytes().end()));
  }
  // Encodes the worker's push to `round`, after some change of θ, and returns the checkpoint of a
  // process that died after writing it.
  Checkpoint Crash(uint32_t round) {
    SyncPipeline& pipeline = *worker_->pipeline;
    for (size_t i = 0; i < worker_->theta.size(); ++i) {
      worker_->theta[i] += std::cos(static_cast<float>(3 * i + round));
    }
    EXPECT_TRUE(pipeline.BeginFragment(round, 0, LearningRate(round)).ok());
    Checkpoint checkpoint{.round = round, .accounted = pipeline.Accounted()};
    for (uint32_t s = 0; s < segments(); s += pipeline.fragment_count()) {
      auto push = pipeline.Encode(s);
      EXPECT_TRUE(push.ok()) << push.status();
      checkpoint.pushes.push_back(
          {.segment = s, .norm = push->norm, .weight = 5, .payload = CopyOf(push->payload)});
    }
    checkpoint.momentum = worker_->momentum();
    worker_ = std::make_unique<Worker>(options_, layout_, start_);
    return checkpoint;
  }
  // The residual of one segment in the checkpoint's process before it encoded.
  std::vector<float> MomentumBefore(const Checkpoint& checkpoint, uint32_t segment) {
    Worker other(options_, layout_, start_);
    EXPECT_TRUE(other.pipeline->LoadMomentum(checkpoint.momentum).ok());
    EXPECT_TRUE(
        other.pipeline->RestoreFrom(segment, checkpoint.round, checkpoint.pushes[segment].payload)
            .ok());
    return Part(other.momentum(), segment);
  }
  std::vector<float> Part(const std::vector<float>& coefficients, uint32_t segment) const {
    const auto begin = coefficients.begin() +
                       static_cast<ptrdiff_t>(layout_.segments()[segment].coefficient_begin);
    return {begin, begin + static_cast<ptrdiff_t>(layout_.segments()[segment].coefficient_count)};
  }

  std::vector<std::vector<float>> Given(size_t index) const {
    const auto& [request, payload] = shards_->given[index];
    const auto arrays = DecodeSnapshotPayload(payload.bytes(), 1,
                                              worker_->pipeline->segment_elements(request.segment));
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    return arrays.ok() ? *arrays : std::vector<std::vector<float>>();
  }

  void ExpectAt(uint32_t round) {
    EXPECT_EQ(worker_->hashes(), hashes_[round]);
    for (uint32_t s = 0; s < segments(); ++s) {
      EXPECT_EQ(worker_->pipeline->anchor_round(s), round);
    }
    const float* anchor = worker_->pipeline->anchor();
    EXPECT_EQ(worker_->theta, std::vector<float>(anchor, anchor + worker_->theta.size()));
  }

  const Layout layout_ = *Layout::Create(
      {{{"w", {8, 16}}, {"b", {24}}}}, {.tiling = Tiling::kTensor, .block = 8, .segment_tiles = 1});
  SyncOptions options_;
  std::vector<float> start_ = std::vector<float>(8 * 16 + 24);
  std::unique_ptr<Worker> peer_, worker_;
  std::unique_ptr<FakeShards> shards_;
  RecordingHost host_;
  std::vector<std::vector<uint64_t>> hashes_;  // of the peer, before each round
  int initial_made_ = 0;
  std::vector<Checkpoint> before_fill_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_CORE_CATCH_UP_TESTING_H_
