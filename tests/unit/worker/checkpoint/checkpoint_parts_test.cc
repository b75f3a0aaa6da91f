#include "worker/checkpoint/checkpoint_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/sim_file_system.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"
#include "worker/checkpoint/worker_folder.h"

namespace longwave {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr char kFolder[] = "node";

// Nine segments of one tile.
Layout SmallLayout() {
  return Layout::Create({.tensors = {{"square", {192, 192}}}}, {.segment_tiles = 1}).value();
}

// A checkpoint of the whole layout, with a push of each third segment.
Checkpoint WholeOf(const Layout& layout) {
  Checkpoint whole = TestCheckpoint();
  whole.layout_hash = layout.hash();
  whole.momentum.resize(layout.coefficient_count());
  std::iota(whole.momentum.begin(), whole.momentum.end(), 1.0f);
  whole.accounted.resize(layout.segments().size());
  std::iota(whole.accounted.begin(), whole.accounted.end(), 5u);
  whole.pushes.clear();
  for (uint32_t s = 0; s < layout.segments().size(); s += 3)
    whole.pushes.push_back({.segment = s, .norm = 1, .weight = s + 1, .payload = BytesOf({1, 2})});
  return whole;
}

class CheckpointParts : public ::testing::Test {
 protected:
  absl::StatusOr<Checkpoint> PartOf(const Checkpoint& whole, NodeRank node) {
    return ReadPart(disk_, kFolder, whole, layout_, node);
  }
  // The parts of a node, written as its ranks do.
  void Write(uint32_t ranks, uint64_t write, float factor) {
    Checkpoint whole = WholeOf(layout_);
    for (float& value : whole.momentum) value *= factor;
    for (uint32_t r = ranks; r-- > 0;) {
      Checkpoint part = PartOf(whole, {.rank = r, .ranks = ranks}).value();
      part.write = write;
      ASSERT_TRUE((r == 0 ? folder_->Write(part) : WriteCheckpointPart(disk_, kFolder, part)).ok());
    }
  }
  absl::StatusOr<Checkpoint> Read(NodeRank node) {
    auto found = ReadPartOfLast(disk_, kFolder, 77, "worker-3", 3, layout_, node);
    if (!found.ok()) return found.status();
    if (!found->has_value()) return absl::NotFoundError("no checkpoint");
    return std::move((*found)->checkpoint);
  }
  std::vector<std::string> PartsThere() {
    std::vector<std::string> names = *disk_.List(kFolder);
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("part."); });
    return names;
  }

  const Layout layout_ = SmallLayout();
  SimFileSystem disk_{1};
  std::unique_ptr<WorkerFolder> folder_ = WorkerFolder::Open(&disk_, kFolder).value();
};

TEST_F(CheckpointParts, AnotherNumberOfRanksReadsTheWhole) {
  const Checkpoint whole = WholeOf(layout_);
  for (const uint32_t ranks : {2u, 4u, 12u}) {
    Write(ranks, ranks, 1);
    const absl::StatusOr<Checkpoint> read = Read({});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->momentum, whole.momentum);
    EXPECT_EQ(read->accounted, whole.accounted);
    EXPECT_EQ(read->pushes, whole.pushes);
    EXPECT_EQ(read->blobs.size(), ranks * whole.blobs.size());
    const absl::StatusOr<Checkpoint> second = Read({.rank = 1, .ranks = 3});
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->momentum.size(), 3u * 4096);
    EXPECT_EQ(second->momentum.front(), whole.momentum[3 * 4096]);
    EXPECT_EQ(second->pushes.size(), whole.pushes.size());
  }
}

TEST_F(CheckpointParts, TheSameNumberOfRanksReadsItsOwnBlobs) {
  Write(3, 1, 1);
  const absl::StatusOr<Checkpoint> read = Read({.rank = 2, .ranks = 3});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->blobs, WholeOf(layout_).blobs);
}

// Rank 0 has not written yet, so the checkpoint before stands, with its own parts.
TEST_F(CheckpointParts, NewPartsCountOnceRankZeroHasWritten) {
  Write(3, 1, 1);
  Checkpoint later = WholeOf(layout_);
  later.momentum.assign(later.momentum.size(), -1);
  later = PartOf(later, {.rank = 1, .ranks = 3}).value();
  later.write = 2;
  ASSERT_TRUE(WriteCheckpointPart(disk_, kFolder, later).ok());
  const absl::StatusOr<Checkpoint> read = Read({});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->momentum, WholeOf(layout_).momentum);
}

TEST_F(CheckpointParts, PartsOfOtherWritesAreRemoved) {
  Write(3, 1, 1);
  EXPECT_EQ(PartsThere().size(), 2u);
  Write(2, 2, 1);
  EXPECT_THAT(PartsThere(), UnorderedElementsAre("part.0000000000000002.1"));
  EXPECT_TRUE(Read({}).ok());
  ASSERT_TRUE(RemovePartsBut(disk_, kFolder, 3).ok());
  EXPECT_THAT(PartsThere(), IsEmpty());
  EXPECT_EQ(Read({}).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(folder_->Retire().ok());
  EXPECT_EQ(Read({}).status().code(), absl::StatusCode::kNotFound);  // as good as none
}

// Rank 0 has none of nine segments. Its part tells all the same that contributions are in flight.
TEST_F(CheckpointParts, ARankWithoutSegmentsKnowsOfTheOthersPushes) {
  Checkpoint whole = WholeOf(layout_);
  whole.fragment = 0;
  const Checkpoint part = PartOf(whole, {.rank = 0, .ranks = 12}).value();
  EXPECT_THAT(part.momentum, IsEmpty());
  const std::vector<std::byte> file = FileOf(part);
  const auto head = DecodeCheckpointHead(std::span(file).first(kCheckpointHeaderBytes));
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->accounted_rounds, whole.round + 1);
}

TEST_F(CheckpointParts, AResidualOfAnotherSizeIsRefused) {
  Checkpoint part = PartOf(WholeOf(layout_), {.rank = 0, .ranks = 2}).value();
  part.momentum.pop_back();
  EXPECT_EQ(PartOf(part, {}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace longwave
