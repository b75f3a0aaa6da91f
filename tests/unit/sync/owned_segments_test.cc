// The ranks of a node, each with the pipeline of its own segments, beside one worker that has all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/layout/segment_elements.h"
#include "kernels/ops.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

using ::testing::ElementsAreArray;

constexpr float kForeign = std::numeric_limits<float>::quiet_NaN();
constexpr double kLearningRate = 1e-3;

std::vector<float> Noise(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(0.1 * (rng.Uniform() - rng.Uniform()));
  return values;
}

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Segments of two tiles meet inside rows of blocks, and the third tensor is thinner than a block.
Layout SmallLayout(Tiling tiling) {
  const Manifest manifest = {.tensors = {{"embedding", {200, 170}},
                                         {"bias", {170}},
                                         {"thin", {3, 300}},
                                         {"square", {128, 128}},
                                         {"scalar", {}}}};
  return Layout::Create(manifest, {.tiling = tiling, .segment_tiles = 2}).value();
}

// A worker's arrays and pipelines: of one process that has all segments, or of a node's ranks.
class Worker {
 public:
  Worker(const SyncOptions& sync, const Layout& layout, uint32_t ranks,
         std::span<const float> start)
      : layout_(layout), is_gradient_(!sync.pseudo_gradient) {
    for (uint32_t r = 0; r < ranks; ++r) {
      const SegmentRange owned = SegmentsOfRank(layout, r, ranks);
      Rank& rank = ranks_.emplace_back();
      rank.owned = owned;
      rank.elements = FragmentElements(layout, 0, 1, owned);
      rank.theta.assign(start.size(), kForeign);
      rank.gradient.assign(start.size(), kForeign);
      for (const auto& [begin, end] : rank.elements) {
        std::copy(start.begin() + begin, start.begin() + end, rank.theta.begin() + begin);
      }
      rank.pipeline = SyncPipeline::Create(sync, &layout, OpsFor(BackendKind::kCpu).value(), {},
                                           {rank.theta.data(), rank.gradient.data()}, owned)
                          .value();
    }
  }

  // Inner steps add `change` to θ, or leave it as their gradient.
  void Train(std::span<const float> change) {
    for (Rank& rank : ranks_) {
      for (const auto& [begin, end] : rank.elements) {
        for (uint64_t e = begin; e < end; ++e) {
          if (is_gradient_) {
            rank.gradient[e] = change[e];
          } else {
            rank.theta[e] += change[e];
          }
        }
      }
    }
  }
  template <typename Call>
  void OnAll(Call call) {
    for (Rank& rank : ranks_) {
      const absl::Status done = call(*rank.pipeline);
      ASSERT_TRUE(done.ok()) << done;
    }
  }
  SyncPipeline& OwnerOf(uint32_t segment) {
    const auto owner = std::ranges::find_if(
        ranks_, [&](const Rank& rank) { return rank.owned.Contains(segment); });
    return *owner->pipeline;
  }

  template <typename Part>
  auto Joined(Part part) {
    decltype(part(*ranks_[0].pipeline)) joined;
    for (Rank& rank : ranks_) {
      const auto of_rank = part(*rank.pipeline);
      joined.insert(joined.end(), of_rank.begin(), of_rank.end());
    }
    return joined;
  }

  // The whole θ, each part from the rank that owns it.
  std::vector<float> Theta() const {
    std::vector<float> theta(layout_.parameter_count(), kForeign);
    for (const Rank& rank : ranks_) {
      for (const auto& [begin, end] : rank.elements) {
        std::copy(rank.theta.begin() + begin, rank.theta.begin() + end, theta.begin() + begin);
      }
    }
    return theta;
  }
  std::vector<float> Momentum(std::span<const uint32_t> unsettled = {}) {
    return Joined(
        [&](SyncPipeline& pipeline) { return pipeline.ExportMomentum(unsettled).value(); });
  }
  std::vector<uint64_t> Hashes() {
    return Joined([](SyncPipeline& pipeline) { return pipeline.Hashes().value(); });
  }
  std::vector<uint32_t> Accounted() {
    std::vector<uint32_t> accounted;
    for (uint32_t s = 0; s < layout_.segments().size(); ++s)
      accounted.push_back(OwnerOf(s).Accounted()[s]);
    return accounted;
  }
  // Goes on from another worker's state, as one that comes back from a checkpoint does.
  void ComeBack(Worker& from, uint32_t round) {
    for (uint32_t s = 0; s < layout_.segments().size(); ++s) {
      const auto arrays = from.OwnerOf(s).ExportSegment(s).value();
      ASSERT_TRUE(OwnerOf(s).LoadSegment(s, round, arrays).ok());
    }
    const std::vector<float> momentum = from.Momentum();
    const std::vector<uint32_t> accounted = from.Accounted();
    size_t begin = 0;
    for (Rank& rank : ranks_) {
      uint64_t count = 0;
      for (uint32_t s = rank.owned.begin; s < rank.owned.end; ++s)
        count += layout_.segments()[s].coefficient_count;
      const absl::Status loaded = rank.pipeline->LoadMomentum(
          std::span(momentum).subspan(begin, count), {}, accounted, round);
      ASSERT_TRUE(loaded.ok()) << loaded;
      begin += count;
    }
    ASSERT_EQ(begin, momentum.size());
    OnAll([](SyncPipeline& pipeline) { return pipeline.AdoptAnchor(); });
  }
  // No rank has touched what another one owns.
  void ExpectForeignPartsAlone() const {
    for (const Rank& rank : ranks_) {
      uint64_t foreign = 0;
      for (const float value : rank.theta) foreign += std::isnan(value) ? 1 : 0;
      EXPECT_EQ(foreign, rank.theta.size() - ElementCount(rank.elements));
    }
  }

 private:
  struct Rank {
    SegmentRange owned;
    std::vector<ElementRange> elements;
    std::vector<float> theta, gradient;
    std::unique_ptr<SyncPipeline> pipeline;
  };

  const Layout& layout_;
  const bool is_gradient_;
  std::vector<Rank> ranks_;
};

struct Method {
  std::string name;
  SyncOptions sync;
  Tiling tiling = Tiling::kModel;
};

std::vector<Method> Methods() {
  const PayloadFormat topk = {Selection::kTopK, ValueCodec::kInt2, 32};
  const PayloadFormat random = {Selection::kRandom, ValueCodec::kBf16, 32};
  const PayloadFormat all = {Selection::kAll, ValueCodec::kFp32, 0};
  std::vector<Method> methods = {
      {"dct", {.transform = Transform::kDct, .up = topk, .beta = 0.9f}},
      {"flat", {.up = topk, .beta = 0.9f, .weight_decay = 0.1f}, Tiling::kFlat},
      {"random", {.transform = Transform::kDct, .up = random, .beta = 0.9f}},
      {"nesterov", {.up = all, .update = UpdateKind::kNesterov, .eta = 0.7f, .mu = 0.9f}},
      {"sign",
       {.pseudo_gradient = false,
        .transform = Transform::kDct,
        .up = topk,
        .beta = 0.99f,
        .update = UpdateKind::kSign,
        .eta = 0.01f},
       Tiling::kTensor},
      {"fragments and overlap",
       {.up = topk, .beta = 0.9f, .overlapped = true, .blend = 0.5f, .fragments = 3}}};
  for (Method& method : methods) method.sync.run_seed = 7;
  return methods;
}

// Both workers' next round: the pushes are equal byte by byte, and each is what all are given.
void Round(Worker& whole, Worker& node, const Layout& layout, uint32_t round, bool is_late) {
  const auto segments = static_cast<uint32_t>(layout.segments().size());
  const uint32_t fragments = whole.OwnerOf(0).fragment_count();
  for (uint32_t f = 0; f < fragments; ++f) {
    const std::vector<float> change = Noise(layout.parameter_count(), 100 * round + f);
    for (Worker* worker : {&whole, &node}) {
      worker->Train(change);
      worker->OnAll([&](SyncPipeline& p) { return p.BeginFragment(round, f, kLearningRate); });
    }
    std::vector<Buffer> merged;
    for (uint32_t s = f; s < segments; s += fragments) {
      const SyncPipeline::Push push = whole.OwnerOf(s).Encode(s).value();
      const SyncPipeline::Push of_rank = node.OwnerOf(s).Encode(s).value();
      ASSERT_TRUE(std::ranges::equal(push.payload.bytes(), of_rank.payload.bytes()));
      ASSERT_EQ(push.norm, of_rank.norm);
      ASSERT_EQ(push.accounted, of_rank.accounted);
      merged.emplace_back(push.payload);
    }
    for (Worker* worker : {&whole, &node}) {
      for (uint32_t s = f; s < segments; s += fragments) {
        if (is_late) {
          ASSERT_TRUE(worker->OwnerOf(s).Restore(s).ok());
        }
        ASSERT_TRUE(worker->OwnerOf(s).Apply(s, merged[s / fragments]).ok());
      }
      worker->OnAll([](SyncPipeline& p) { return p.EndFragment(); });
    }
  }
}

TEST(OwnedSegments, OfANodesRanksGiveThePayloadsAndTheReplicaOfOneWorker) {
  for (const Method& method : Methods()) {
    const Layout layout = SmallLayout(method.tiling);
    const std::vector<float> start = Noise(layout.parameter_count(), 1);
    // More ranks than segments, too: some own nothing.
    for (const uint32_t ranks : {1u, 2u, 3u, 8u, 40u}) {
      SCOPED_TRACE(method.name + ", ranks " + std::to_string(ranks));
      Worker whole(method.sync, layout, 1, start);
      Worker node(method.sync, layout, ranks, start);
      for (uint32_t round = 0; round < 3; ++round) {
        ASSERT_NO_FATAL_FAILURE(Round(whole, node, layout, round, /*is_late=*/round == 1));
        EXPECT_EQ(node.Hashes(), whole.Hashes());
        EXPECT_THAT(Bits(node.Theta()), ElementsAreArray(Bits(whole.Theta())));
        EXPECT_THAT(Bits(node.Momentum()), ElementsAreArray(Bits(whole.Momentum())));
      }
      for (int time = 0; time < 2; ++time) {
        for (Worker* worker : {&whole, &node})
          worker->OnAll([](SyncPipeline& p) { return p.SwapAnchor(); });
        EXPECT_THAT(Bits(node.Theta()), ElementsAreArray(Bits(whole.Theta())));
      }
      for (Worker* worker : {&whole, &node})
        worker->OnAll([](SyncPipeline& p) { return p.AdoptAnchor(); });
      EXPECT_THAT(Bits(node.Theta()), ElementsAreArray(Bits(whole.Theta())));
      node.ExpectForeignPartsAlone();
    }
  }
}

TEST(OwnedSegments, ANodeComesBackWithAnotherNumberOfRanks) {
  for (const Method& method : Methods()) {
    const Layout layout = SmallLayout(method.tiling);
    const std::vector<float> start = Noise(layout.parameter_count(), 1);
    for (const auto& [before, after] : {std::pair(4u, 1u), {1u, 4u}, {2u, 3u}}) {
      SCOPED_TRACE(method.name + ", ranks " + std::to_string(before) + ", then " +
                   std::to_string(after));
      Worker whole(method.sync, layout, 1, start);
      Worker first(method.sync, layout, before, start);
      for (uint32_t round = 0; round < 2; ++round)
        ASSERT_NO_FATAL_FAILURE(Round(whole, first, layout, round, /*is_late=*/false));
      Worker again(method.sync, layout, after, start);
      ASSERT_NO_FATAL_FAILURE(again.ComeBack(first, 2));
      whole.OnAll([](SyncPipeline& p) { return p.AdoptAnchor(); });
      ASSERT_NO_FATAL_FAILURE(Round(whole, again, layout, 2, /*is_late=*/false));
      EXPECT_EQ(again.Hashes(), whole.Hashes());
      EXPECT_THAT(Bits(again.Momentum()), ElementsAreArray(Bits(whole.Momentum())));
    }
  }
}

size_t bytes_allocated = 0;

TEST(OwnedSegments, TakeTheirShareOfTheMemory) {
  const Layout layout =
      Layout::Create({.tensors = {{"in", {1024, 512}}, {"out", {512, 1024}}, {"bias", {512}}}},
                     {.segment_tiles = 2})
          .value();
  std::vector<float> theta(layout.parameter_count());
  KernelOps counting = *OpsFor(BackendKind::kCpu).value();
  counting.allocate = [](size_t bytes) {
    bytes_allocated += bytes;
    return OpsFor(BackendKind::kCpu).value()->allocate(bytes);
  };
  const auto allocated = [&](const SyncOptions& sync, SegmentRange owned) {
    bytes_allocated = 0;
    const auto made = SyncPipeline::Create(sync, &layout, &counting, {}, {theta.data()}, owned);
    EXPECT_TRUE(made.ok()) << made.status();
    return static_cast<double>(bytes_allocated);
  };
  const SyncOptions nesterov = {.up = {Selection::kAll, ValueCodec::kFp32, 0},
                                .update = UpdateKind::kNesterov};
  const SyncOptions overlap = {
      .transform = Transform::kDct, .up = {}, .beta = 0.9f, .overlapped = true, .blend = 0.5f};
  for (const SyncOptions& sync : {nesterov, overlap}) {
    const double whole = allocated(sync, AllSegments(layout));
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      for (uint32_t r = 0; r < ranks; ++r)
        EXPECT_LE(allocated(sync, SegmentsOfRank(layout, r, ranks)), 1.05 * whole / ranks);
    }
  }
}

}  // namespace
}  // namespace longwave
