// Optimizers whose state is shared by the ranks of a node.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/support/thread_tensors.h"
#include "worker/models/muon.h"
#include "worker/models/optimizers.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/optimizer_blobs.h"

namespace longwave {
namespace {

const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

// Sides that are no multiple of a vector's width, so that an element's place in a tensor matters.
const Manifest kManifest = {{{"wte.weight", {64, 24}},
                             {"h.w", {70, 50}},
                             {"h2.w", {33, 129}},
                             {"conv.w", {6, 5, 5}},
                             {"b", {77}}}};
const Layout kLayout =
    *Layout::Create(kManifest, {.tiling = Tiling::kTensor, .block = 10, .segment_tiles = 3});
const uint64_t kCount = kLayout.parameter_count();

TrainSection Train(const std::string& optimizer) {
  return {.optimizer = optimizer,
          .beta1 = 0.9,
          .beta2 = 0.99,
          .epsilon = 1e-8,
          .momentum = 0.95,
          .weight_decay = 0.1};
}

std::vector<float> Noise(uint64_t seed) {
  Rng rng(seed, 0);
  std::vector<float> noise(kCount);
  for (float& value : noise) value = static_cast<float>(rng.Uniform() - 0.5);
  return noise;
}

// Steps begin … end − 1 at one rank; θ is whole before and after each.
void Steps(InnerOptimizer& optimizer, NodeTensors* tensors, int begin, int end,
           std::vector<float>* theta) {
  for (int step = begin; step < end; ++step) {
    const std::vector<float> gradient = Noise(10 + step);
    ASSERT_TRUE(optimizer.Step(gradient.data(), 0.02, theta->data()).ok());
    if (tensors == nullptr) continue;
    ASSERT_TRUE(Spread(*tensors, optimizer.stepped(), kCount, theta->data()).ok());
  }
}

struct Moment {
  std::vector<float> theta = Noise(1);
  std::vector<NamedBlob> blobs;  // of all ranks, rank after rank; none: of a new optimizer
};

// From one moment to another in a node of so many ranks; 0: a single device.
Moment Go(const std::string& name, uint32_t ranks, int begin, int end, const Moment& from) {
  Moment to;
  std::vector<std::vector<NamedBlob>> blobs(std::max(1u, ranks));
  const auto go = [&](NodeTensors* tensors) {
    const auto optimizer = *MakeOptimizer(Train(name), kManifest, &Cpu(), {}, tensors);
    const NodeRank node = tensors == nullptr ? NodeRank{} : tensors->node();
    std::vector<NamedBlob> own = from.blobs;
    // A rank that comes back with equal ranks gets its own blobs (PartOf).
    const size_t arrays = optimizer->State().size();
    if (own.size() == arrays * node.ranks)
      own = {own.begin() + arrays * node.rank, own.begin() + arrays * (node.rank + 1)};
    if (!own.empty()) {
      const absl::Status loaded = LoadOptimizer(own, Cpu(), {}, kLayout, node, optimizer.get());
      ASSERT_TRUE(loaded.ok()) << loaded;
    }
    std::vector<float> theta = from.theta;
    Steps(*optimizer, tensors, begin, end, &theta);
    ASSERT_TRUE(SaveOptimizer(*optimizer, Cpu(), {}, &blobs[node.rank]).ok());
    if (node.rank == 0) to.theta = theta;
  };
  if (ranks == 0) go(nullptr);
  if (ranks > 0) RunRanks(ranks, kLayout, 1000, [&](NodeTensors& tensors) { go(&tensors); });
  for (const auto& of_rank : blobs) to.blobs.insert(to.blobs.end(), of_rank.begin(), of_rank.end());
  return to;
}

TEST(NodeOptimizers, HaveTheBitsOfASingleDevice) {
  for (const std::string name : {"adamw", "muon", "sgd"}) {
    const Moment single = Go(name, 0, 0, 5, {});
    for (const uint32_t ranks : {1, 2, 3, 4, 7})
      EXPECT_TRUE(Go(name, ranks, 0, 5, {}).theta == single.theta) << name << " " << ranks;
  }
}

TEST(NodeOptimizers, GoOnWithOtherRanksAsIfNothingHadHappened) {
  for (const std::string name : {"adamw", "muon", "sgd"}) {
    const Moment straight = Go(name, 0, 0, 6, {});
    Moment moment;
    int step = 0;
    for (const uint32_t ranks : {2, 3, 3, 0, 4, 0}) {
      moment = Go(name, ranks, step, step + 1, moment);
      ++step;
    }
    EXPECT_TRUE(moment.theta == straight.theta) << name;
    ASSERT_EQ(moment.blobs.size(), straight.blobs.size());
    for (size_t i = 0; i < moment.blobs.size(); ++i)
      EXPECT_EQ(moment.blobs[i], straight.blobs[i]) << name;
  }
}

TEST(NodeOptimizers, RefuseBlobsThatLackARank) {
  const auto optimizer = *MakeOptimizer(Train("adamw"), kManifest, &Cpu(), {});
  Moment moment = Go("adamw", 3, 0, 1, {});
  moment.blobs.resize(moment.blobs.size() * 2 / 3);
  EXPECT_EQ(LoadOptimizer(moment.blobs, Cpu(), {}, kLayout, {}, optimizer.get()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MatricesOfRank, DealEachOnceAndEvenly) {
  std::vector<MuonMatrix> matrices;
  for (int i = 0; i < 24; ++i) matrices.push_back({100'000u * i, 128, i % 2 == 0 ? 128 : 512});
  for (const uint32_t ranks : {1u, 2u, 4u, 5u}) {
    std::vector<uint64_t> offsets;
    uint64_t least = ~uint64_t{0}, most = 0;
    for (uint32_t r = 0; r < ranks; ++r) {
      uint64_t count = 0;
      for (const MuonMatrix& matrix : MatricesOfRank(matrices, {.rank = r, .ranks = ranks})) {
        offsets.push_back(matrix.offset);
        count += matrix.count();
      }
      least = std::min(least, count), most = std::max(most, count);
    }
    std::ranges::sort(offsets);
    ASSERT_EQ(offsets.size(), matrices.size());
    for (size_t i = 0; i < offsets.size(); ++i) EXPECT_EQ(offsets[i], matrices[i].offset);
    EXPECT_LE(most - least, 128u * 512u) << ranks;
  }
}

// Bytes that this thread has allocated by way of CountingOps.
thread_local size_t g_allocated = 0;

const KernelOps& CountingOps() {
  static const KernelOps ops = [] {
    KernelOps counting = Cpu();
    counting.allocate = [](size_t bytes) {
      g_allocated += bytes;
      return Cpu().allocate(bytes);
    };
    return counting;
  }();
  return ops;
}

// Momentum, anchor and velocity of the sync, and the optimizer's state, in bytes.
struct Bytes {
  double sync = 0;
  double optimizer = 0;
};
Bytes BytesOf(const std::string& name, const Manifest& manifest, const Layout& layout,
              NodeTensors* tensors) {
  Bytes bytes;
  const NodeRank node = tensors == nullptr ? NodeRank{} : tensors->node();
  std::vector<float> theta(layout.parameter_count());
  g_allocated = 0;
  const auto pipeline = SyncPipeline::Create(
      {.up = {.selection = Selection::kAll}, .update = UpdateKind::kNesterov}, &layout,
      &CountingOps(), {}, {.theta = theta.data()}, SegmentsOfRank(layout, node.rank, node.ranks));
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  bytes.sync = static_cast<double>(g_allocated);
  const auto optimizer = *MakeOptimizer(Train(name), manifest, &Cpu(), {}, tensors);
  for (const StateArray& array : optimizer->State()) bytes.optimizer += array.bytes;
  return bytes;
}

TEST(NodeMemory, OfARankIsItsShareOfASingleDevices) {
  // A GPT of 10 M parameters. Of smaller ones the rows of blocks that two ranks share weigh more.
  Manifest manifest = {{{"wte", {256, 256}}, {"wpe", {512, 256}}, {"b", {4096}}}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const int64_t rows : {768, 256, 1024})
      manifest.tensors.push_back({absl::StrCat("h.", layer, ".", rows), {rows, 256}});
    manifest.tensors.push_back({absl::StrCat("h.", layer, ".out"), {256, 1024}});
  }
  const Layout layout = *Layout::Create(manifest, {.segment_tiles = 1});
  for (const std::string name : {"adamw", "muon", "sgd"}) {
    const Bytes single = BytesOf(name, manifest, layout, nullptr);
    for (const uint32_t ranks : {2, 4, 8}) {
      std::mutex mutex;
      double most = 0;
      RunRanks(ranks, layout, 1000, [&](NodeTensors& tensors) {
        const Bytes bytes = BytesOf(name, manifest, layout, &tensors);
        const std::lock_guard lock(mutex);
        most = std::max(most, bytes.optimizer + bytes.sync);
        EXPECT_NEAR(bytes.sync * ranks / single.sync, 1, 0.05) << name << " of " << ranks;
        EXPECT_NEAR((bytes.optimizer + bytes.sync) * ranks / (single.optimizer + single.sync), 1,
                    0.05)
            << name << " of " << ranks;
      });
      const double whole = single.optimizer + single.sync;
      std::printf("%s: %.1f MB alone, at most %.1f MB of %u ranks: %.1f %% over 1/%u\n",
                  name.c_str(), whole / 1e6, most / 1e6, ranks, 100 * (most * ranks / whole - 1),
                  ranks);
    }
  }
}

}  // namespace
}  // namespace longwave
