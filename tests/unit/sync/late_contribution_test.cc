// Late contributions: nothing of them is lost, whatever the method keeps of a residual otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

using ::testing::Each;

constexpr uint32_t kElements = 4 * 4096;

// Runs of 4096 end to end: coefficient i is element i.
Layout MakeLayout() {
  return Layout::Create({.tensors = {{"w", {kElements}}}},
                        {.tiling = Tiling::kFlat, .segment_tiles = 1})
      .value();
}

// The result of some inner steps as small whole numbers, which fp32 adds without rounding.
std::vector<float> Signal(uint64_t seed) {
  Rng rng(seed);
  std::vector<float> signal(kElements);
  for (float& value : signal) value = static_cast<float>(rng.Below(201)) - 100;
  return signal;
}

// A process's life of a worker.
class Worker {
 public:
  Worker(const SyncOptions& options, const Layout& layout)
      : theta_(kElements),
        segments_(static_cast<uint32_t>(layout.segments().size())),
        pipeline_(SyncPipeline::Create(options, &layout, OpsFor(BackendKind::kCpu).value(), {},
                                       {.theta = theta_.data()})
                      .value()) {}

  SyncPipeline& pipeline() { return *pipeline_; }
  std::vector<float> momentum() const {
    return {pipeline_->momentum(), pipeline_->momentum() + kElements};
  }

  // The contributions of a fragment, in order of their segments.
  std::vector<Buffer> Encode(uint32_t round, uint32_t fragment, const std::vector<float>& signal) {
    for (uint32_t e = 0; e < kElements; ++e) theta_[e] = pipeline_->anchor()[e] - signal[e];
    EXPECT_TRUE(pipeline_->BeginFragment(round, fragment, 1e-3).ok());
    std::vector<Buffer> payloads;
    for (uint32_t s = fragment; s < segments_; s += pipeline_->fragment_count()) {
      payloads.push_back(pipeline_->Encode(s).value().payload);
    }
    return payloads;
  }

  void GiveBackAll() {
    for (uint32_t s = 0; s < segments_; ++s) ASSERT_TRUE(pipeline_->Restore(s).ok());
  }

 private:
  std::vector<float> theta_;
  uint32_t segments_;
  std::unique_ptr<SyncPipeline> pipeline_;
};

// The payloads' content in the form of the residual that takes it back.
std::vector<float> Sum(const SyncOptions& options, const Layout& layout, uint32_t round,
                       const std::vector<Buffer>& payloads) {
  Worker books(options, layout);
  for (uint32_t s = 0; s < payloads.size(); ++s) {
    EXPECT_TRUE(books.pipeline().RestoreFrom(s, round, payloads[s]).ok());
  }
  return books.momentum();
}

std::vector<float> Plus(std::vector<float> a, const std::vector<float>& b, float factor = 1) {
  for (uint32_t e = 0; e < kElements; ++e) a[e] += factor * b[e];
  return a;
}

struct Method {
  const char* name;
  SyncOptions sync;
  float tolerance;  // of a residual, for the rounding of sent values
};

std::vector<Method> Forgetful() {
  return {
      {"all", {.up = {Selection::kAll, ValueCodec::kFp32, 0}}, 0},
      {"all, int4", {.up = {Selection::kAll, ValueCodec::kInt4, 0}}, 1e-3f},
      {"topk", {.up = {Selection::kTopK, ValueCodec::kFp32, 64}}, 0},
      {"topk, sign", {.up = {Selection::kTopK, ValueCodec::kSign, 64}}, 1e-3f},
      {"random", {.up = {Selection::kRandom, ValueCodec::kFp32, 64}, .run_seed = 3}, 0},
      {"all, alpha", {.up = {Selection::kAll, ValueCodec::kFp32, 0}, .alpha = 0.5f}, 0},
  };
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted, float tolerance) {
  for (uint32_t e = 0; e < kElements; ++e) {
    ASSERT_LE(std::abs(got[e] - wanted[e]), tolerance)
        << "element " << e << ": got " << got[e] << ", wanted " << wanted[e];
  }
}

// A shard rejects the push of a residual that lacks a contribution accepted since. The shard knows
// that from this number: see SyncPipeline::Push.
TEST(LateContribution, LeavesTheRoundsThatTheResidualAccountsFor) {
  const SyncOptions options = {.up = {Selection::kAll, ValueCodec::kFp32, 0}};
  const Layout layout = MakeLayout();
  Worker worker(options, layout);
  worker.Encode(0, 0, Signal(1));
  EXPECT_THAT(worker.pipeline().Accounted(), Each(1u));
  worker.GiveBackAll();
  EXPECT_THAT(worker.pipeline().Accounted(), Each(1u)) << "it is not empty any more";
  worker.Encode(3, 0, Signal(2));
  EXPECT_THAT(worker.pipeline().Accounted(), Each(4u));
  worker.GiveBackAll();
  EXPECT_THAT(worker.pipeline().Accounted(), Each(1u));

  // The same for the payloads that an earlier process had encoded of round 3.
  const auto segments = static_cast<uint32_t>(layout.segments().size());
  const std::vector<Buffer> payloads = worker.Encode(3, 0, Signal(3));
  std::vector<uint32_t> all(segments);
  for (uint32_t s = 0; s < segments; ++s) all[s] = s;
  for (const uint32_t before : {0u, 2u}) {
    Worker again(options, layout);
    ASSERT_TRUE(again.pipeline()
                    .LoadMomentum(std::vector<float>(kElements), all,
                                  std::vector<uint32_t>(segments, before), 3)
                    .ok());
    EXPECT_THAT(again.pipeline().Accounted(), Each(4u));
    for (const uint32_t s : all) {
      ASSERT_TRUE(again.pipeline().RestoreFrom(s, 3, payloads[s]).ok());
    }
    EXPECT_THAT(again.pipeline().Accounted(), Each(before == 0 ? 4u : before));
  }
}

// β = 0 forgets the rest of a signal, but never a late contribution. The next push takes that
// along, and the one after it if the next one is late as well.
TEST(LateContribution, GoesWholeWithTheNextPushWhereTheResidualIsForgotten) {
  const Layout layout = MakeLayout();
  for (const Method& method : Forgetful()) {
    SCOPED_TRACE(method.name);
    Worker worker(method.sync, layout);
    std::vector<float> learnt(kElements);
    for (const uint32_t round : {0u, 1u}) {
      learnt = Plus(learnt, Signal(round));
      worker.Encode(round, 0, Signal(round));
      worker.GiveBackAll();
    }
    learnt = Plus(learnt, Signal(2));
    std::vector<float> merged = Sum(method.sync, layout, 2, worker.Encode(2, 0, Signal(2)));
    ExpectNear(Plus(merged, worker.momentum()), learnt, method.tolerance);
    if (method.tolerance == 0 && method.sync.up.selection == Selection::kAll &&
        method.sync.alpha == 1) {
      EXPECT_EQ(merged, learnt);
    }
    // The push was not late, so nothing of it is kept.
    merged = Sum(method.sync, layout, 3, worker.Encode(3, 0, Signal(3)));
    ExpectNear(Plus(merged, worker.momentum()), Signal(3), method.tolerance);
  }
}

// With any other β a late contribution is treated like the unchosen rest.
TEST(LateContribution, DecaysAsTheRestOfTheResidual) {
  const Layout layout = MakeLayout();
  for (Method method : Forgetful()) {
    SCOPED_TRACE(method.name);
    method.sync.beta = 0.5f;
    Worker worker(method.sync, layout);
    worker.Encode(0, 0, Signal(0));
    worker.GiveBackAll();
    const std::vector<float> merged = Sum(method.sync, layout, 1, worker.Encode(1, 0, Signal(1)));
    ExpectNear(Plus(merged, worker.momentum()), Plus(Signal(1), Signal(0), 0.5f), method.tolerance);
  }
}

// A checkpoint of one fragment, after a contribution of the other one was given back: a process
// that goes on from it encodes the same bytes.
TEST(LateContribution, SurvivesACheckpoint) {
  const Layout layout = MakeLayout();
  for (Method method : Forgetful()) {
    SCOPED_TRACE(method.name);
    method.sync.fragments = 2;
    Worker before(method.sync, layout), after(method.sync, layout);
    before.Encode(0, 0, Signal(0));
    ASSERT_TRUE(before.pipeline().Restore(2).ok());
    const std::vector<Buffer> unsettled = before.Encode(0, 1, Signal(1));
    const std::vector<uint32_t> second = {1, 3};
    const std::vector<float> kept = before.pipeline().ExportMomentum(second).value();
    EXPECT_THAT(std::vector<float>(kept.begin(), kept.begin() + 4096), Each(0.0f))
        << "segment 0 was accepted";
    ASSERT_TRUE(after.pipeline().LoadMomentum(kept, second).ok());
    // Segment 3 is late, segment 1 is not.
    ASSERT_TRUE(before.pipeline().Restore(3).ok());
    ASSERT_TRUE(after.pipeline().RestoreFrom(3, 0, unsettled[1]).ok());
    for (const uint32_t fragment : {0u, 1u}) {
      const auto wanted = before.Encode(1, fragment, Signal(2 + fragment));
      const auto got = after.Encode(1, fragment, Signal(2 + fragment));
      for (uint32_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(got[i].bytes(), wanted[i].bytes()))
            << "segment " << 2 * i + fragment;
      }
    }
  }
}

// With topk each worker has a k and a codec of its own, and may come back with others.
TEST(LateContribution, OfAnotherFormatIsGivenBackAsItWasTaken) {
  const Layout layout = MakeLayout();
  SyncOptions options = {.up = {Selection::kTopK, ValueCodec::kInt2, 64}, .beta = 0.5f};
  Worker before(options, layout);
  const std::vector<Buffer> payloads = before.Encode(3, 0, Signal(0));
  const std::vector<float> taken = before.pipeline().ExportMomentum().value();
  before.GiveBackAll();
  for (const PayloadFormat other : {PayloadFormat{Selection::kTopK, ValueCodec::kInt2, 128},
                                    PayloadFormat{Selection::kTopK, ValueCodec::kFp32, 64},
                                    PayloadFormat{Selection::kTopK, ValueCodec::kSign, 8}}) {
    options.up = other;
    Worker after(options, layout);
    ASSERT_TRUE(after.pipeline().LoadMomentum(taken, std::vector<uint32_t>{0, 1, 2, 3}).ok());
    for (uint32_t s = 0; s < payloads.size(); ++s) {
      const absl::Status restored = after.pipeline().RestoreFrom(s, 3, payloads[s]);
      ASSERT_TRUE(restored.ok()) << restored;
    }
    EXPECT_EQ(after.momentum(), before.momentum());
    // And it pushes in its own from then on.
    EXPECT_EQ(DecodePayloadHead(after.Encode(4, 0, Signal(1))[0].bytes()).value(), other);
  }
}

TEST(LateContribution, ThatDoesNotFitItsSegmentIsRefused) {
  const Layout layout = MakeLayout();
  const Layout coarse = Layout::Create({.tensors = {{"w", {kElements}}}},
                                       {.tiling = Tiling::kFlat, .segment_tiles = 2})
                            .value();
  const SyncOptions options = {.up = {Selection::kTopK, ValueCodec::kInt2, 64}, .beta = 0.5f};
  Worker worker(options, layout), other(options, coarse);
  const Buffer whole = worker.Encode(0, 0, Signal(0))[0];
  const std::vector<std::byte> good(whole.bytes().begin(), whole.bytes().end());
  const auto refused = [&](std::vector<std::byte> bytes) {
    return worker.pipeline().RestoreFrom(0, 0, Buffer(std::move(bytes))).code() ==
           absl::StatusCode::kInvalidArgument;
  };
  const std::vector<float> before = worker.momentum();
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({good.begin(), good.end() - 1}));
  const Buffer of_two_tiles = other.Encode(0, 0, Signal(0))[0];
  EXPECT_TRUE(refused({of_two_tiles.bytes().begin(), of_two_tiles.bytes().end()}));
  for (const size_t at :
       {0u, 1u, 2u, 3u, 4u, 5u, 8u}) {  // version, selection, codec, zero, k, tiles
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0xff};
    EXPECT_TRUE(refused(bad)) << "byte " << at;
  }
  EXPECT_EQ(worker.momentum(), before);
}

TEST(LateContribution, AResidualThatIsDroppedIsNothing) {
  const Layout layout = MakeLayout();
  Worker worker({.up = {Selection::kTopK, ValueCodec::kFp32, 64}, .beta = 0.5f}, layout);
  worker.Encode(0, 0, Signal(0));
  std::vector<float> wanted = worker.momentum();
  ASSERT_TRUE(worker.pipeline().DropResidual(2).ok());
  std::fill_n(wanted.begin() + 2 * 4096, 4096, 0.0f);
  EXPECT_EQ(worker.momentum(), wanted);
}

}  // namespace
}  // namespace longwave
