#include "worker/models/node_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/rng.h"
#include "tests/support/thread_tensors.h"
#include "worker/member/node_message.h"
#include "worker/node/collective.h"
#include "worker/node/shared_tensors.h"

namespace longwave {
namespace {

// Tiles of 64 × 64 whose rows belong to different ranks.
const Layout kLayout = *Layout::Create({{{"weights", {130, 200}}, {"bias", {300}}}},
                                       {.tiling = Tiling::kModel, .segment_tiles = 1});
const uint64_t kCount = kLayout.parameter_count();

// Numbers of very different sizes, so that each order of addition has its own sum.
std::vector<float> Terms(uint64_t seed) {
  Rng rng(seed, 0);
  std::vector<float> terms(kCount);
  for (float& term : terms) {
    term = static_cast<float>(rng.Uniform() - 0.5);
    for (uint64_t shift = rng.Next() % 8; shift > 0; --shift) term *= 10;
  }
  return terms;
}

bool Equal(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

enum class By { kMemory, kGloo };

class NodeTensorsTest : public ::testing::TestWithParam<std::tuple<By, uint32_t>> {
 protected:
  void SetUp() override {
    if (by() != By::kGloo) return;
    ThreadNode node(1);
    const absl::Status opened = OpenGloo(*node.Link(0), absl::Seconds(60)).status();
    if (absl::IsUnimplemented(opened)) GTEST_SKIP() << opened;
  }
  By by() const { return std::get<0>(GetParam()); }
  uint32_t ranks() const { return std::get<1>(GetParam()); }
  void Run(uint64_t block, const std::function<void(NodeTensors& tensors)>& body) const {
    RunRanks(ranks(), kLayout, block, body, by() == By::kGloo ? &OpenGloo : nullptr);
  }
};

TEST_P(NodeTensorsTest, ReduceInTheOrderOfRanks) {
  std::vector<float> before = Terms(1000), all(kCount), likewise(kCount);
  for (const bool has_before : {false, true}) {
    std::vector<float> wanted = has_before ? before : Terms(0);
    for (uint32_t r = has_before ? 0 : 1; r < ranks(); ++r) {
      const std::vector<float> terms = Terms(r);
      for (uint64_t i = 0; i < kCount; ++i) wanted[i] += terms[i];
    }
    Run(/*block=*/1000, [&](NodeTensors& tensors) {
      std::vector<float> terms = Terms(tensors.node().rank);
      const float* const from = has_before ? before.data() : nullptr;
      ASSERT_TRUE(tensors.ReduceToOwners(terms.data(), from, all.data()).ok());
      ASSERT_TRUE(tensors.ReduceToOwners(terms.data(), from, terms.data()).ok());
      for (const auto& [begin, end] : tensors.owned())
        std::copy(terms.begin() + begin, terms.begin() + end, likewise.begin() + begin);
    });
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(Equal(all[i], wanted[i])) << i;
      ASSERT_TRUE(Equal(likewise[i], wanted[i])) << i;
    }
  }
}

TEST_P(NodeTensorsTest, SpreadWhatEachRankHas) {
  const std::vector<float> wanted = Terms(7);
  Run(/*block=*/333, [&](NodeTensors& tensors) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> array(kCount, -1);
      for (const auto& [begin, end] : tensors.owned())
        std::copy(wanted.begin() + begin, wanted.begin() + end, array.begin() + begin);
      ASSERT_TRUE(Spread(tensors, tensors.owned(), kCount, array.data()).ok());
      ASSERT_EQ(array, wanted);
    }
  });
}

TEST_P(NodeTensorsTest, GatherByRank) {
  Run(/*block=*/100, [&](NodeTensors& tensors) {
    const double rank = tensors.node().rank;
    const std::vector<double> mine(tensors.node().rank, rank + 0.5);
    const auto all = tensors.Gather(mine);
    ASSERT_TRUE(all.ok());
    ASSERT_EQ(all->size(), tensors.node().ranks);
    for (size_t r = 0; r < all->size(); ++r)
      EXPECT_EQ((*all)[r], std::vector<double>(r, static_cast<double>(r) + 0.5));
  });
}

// Nine tiles and the bias's: of sixteen ranks some own nothing.
INSTANTIATE_TEST_SUITE_P(Memory, NodeTensorsTest,
                         ::testing::Combine(::testing::Values(By::kMemory),
                                            ::testing::Values(1, 2, 3, 4, 16)));
INSTANTIATE_TEST_SUITE_P(Gloo, NodeTensorsTest,
                         ::testing::Combine(::testing::Values(By::kGloo),
                                            ::testing::Values(1, 2, 3, 4, 16)));

TEST(CollectiveTensors, EndWhenARankHasEnded) {
  ThreadNode node(2);
  const auto mine = node.Link(0);
  auto other = node.Link(1);
  absl::StatusOr<std::unique_ptr<Collective>> its;
  std::thread opens([&] { its = OpenGloo(*other, absl::Seconds(60)); });
  auto gloo = OpenGloo(*mine, absl::Seconds(60));
  opens.join();
  if (absl::IsUnimplemented(gloo.status())) GTEST_SKIP() << gloo.status();
  ASSERT_TRUE(gloo.ok() && its.ok());
  its->reset();  // as the end of its process
  std::vector<float> elements(2);
  const std::vector<int64_t> each = {1, 1};
  const absl::Status ended = (*gloo)->AllToAll(elements, each, elements, each);
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_EQ((*gloo)->AllToAll(elements, each, elements, each), ended);
}

TEST(SharedTensors, EndWithTheSentenceOfARankThatFails) {
  ThreadNode node(2);
  std::vector<std::byte> area(SharedTensors::AreaBytes(2, 1000));
  const auto mine = node.Link(0), other = node.Link(1);
  NodeMessage message;
  message.meeting = NodeMessage::Meeting::kEnd;
  message.status = absl::DataLossError("a disk is gone");
  std::thread fails(
      [&] { ASSERT_TRUE(other->AllGather(Encode(message), absl::Seconds(60)).ok()); });
  SharedTensors tensors(mine.get(), area, &kLayout, *OpsFor(BackendKind::kCpu), {},
                        absl::Seconds(60), 1000);
  std::vector<float> terms(kCount);
  EXPECT_EQ(tensors.ReduceToOwners(terms.data(), nullptr, terms.data()),
            absl::DataLossError("rank 1 of this node: a disk is gone"));
  fails.join();
}

TEST(Intersection, KeepsTheOrderOfTheRanges) {
  const std::vector<ElementRange> ranges = {{0, 10}, {10, 12}, {20, 30}, {30, 30}};
  EXPECT_THAT(Intersection(ranges, std::vector<ElementRange>{{5, 25}, {28, 40}}),
              ::testing::ElementsAre(ElementRange{5, 10}, ElementRange{10, 12},
                                     ElementRange{20, 25}, ElementRange{28, 30}));
  EXPECT_TRUE(Intersection(ranges, {}).empty());
}

}  // namespace
}  // namespace longwave
