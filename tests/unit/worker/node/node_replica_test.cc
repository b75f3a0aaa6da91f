// Gradients that the ranks of a node compute together.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "common/config/gpt_shape.h"
#include "tests/support/thread_tensors.h"
#include "tests/unit/worker/models/replica_parts.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

const ModelSection kTiny = {.kind = "gpt", .d_model = 16, .layers = 2, .heads = 2, .context = 8};

Batch MakeBatch(uint32_t rows) {
  std::string text;
  while (text.size() < 400) text += "the quick brown fox jumps over the lazy dog; ";
  return *Corpus::FromText(text, 0.2, kTiny.context, "text")->TrainBatch(1, 0, 0, rows);
}

// The parts are dealt in one turn, in several, and in a last turn in which a rank has none.
TEST(NodeReplica, HasTheGradientOfASingleDeviceToTheBit) {
  const Layout layout = *Layout::Create(*GptManifest(kTiny), {.segment_tiles = 1});
  for (const auto& [rows, micro_batches] : {std::pair{4u, 4u}, {8u, 8u}, {10u, 4u}, {5u, 4u}}) {
    const TrainSection train = {.batch = rows, .micro_batches = micro_batches};
    const Batch batch = MakeBatch(rows);
    const auto single = *Replica::Create(kTiny, train, 1, 1);
    double loss = 0;
    for (int repeat = 0; repeat < 2; ++repeat) loss = *single->ForwardBackward(batch);
    const std::span<const float> wanted = Gradient(*single);
    for (const uint32_t ranks : {1, 2, 4}) {
      std::mutex mutex;
      uint64_t compared = 0;
      RunRanks(ranks, layout, 1000, [&](NodeTensors& tensors) {
        const auto replica = *Replica::Create(kTiny, train, 1, 1, BackendKind::kCpu, &tensors);
        for (int repeat = 0; repeat < 2; ++repeat) {
          const absl::StatusOr<double> its_loss = replica->ForwardBackward(batch);
          ASSERT_TRUE(its_loss.ok()) << its_loss.status();
          ASSERT_EQ(*its_loss, loss);
        }
        const std::lock_guard lock(mutex);
        for (const auto& [begin, end] : tensors.owned()) {
          compared += end - begin;
          EXPECT_EQ(std::memcmp(replica->gradient() + begin, &wanted[begin],
                                (end - begin) * sizeof(float)),
                    0)
              << rows << " rows, " << ranks << " ranks, from element " << begin;
        }
      });
      EXPECT_EQ(compared, layout.parameter_count());
    }
  }
}

}  // namespace
}  // namespace longwave
