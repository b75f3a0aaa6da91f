#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/rng.h"
#include "tests/unit/shard/aggregator_testing.h"

// The bound on memory where workers push one fragment of a round after the other.

namespace longwave {
namespace {

constexpr uint64_t kPushBytes = kPayloadHeadBytes + 4 * kTileSize;

// A shard that has all of the model, and workers as their pipeline makes them: all pushes of a
// fragment at once, the next fragment's once those are closed.
class FragmentedRun {
 public:
  FragmentedRun(uint32_t segments, uint32_t fragments, uint32_t workers, uint32_t rounds,
                uint64_t open_bytes_max, uint64_t seed)
      : layout_(SmallLayout(kTileSize, 1, segments)),
        fragments_(FragmentCount(fragments, layout_)),
        rounds_(rounds),
        bytes_max_(open_bytes_max + workers * kPushBytes),
        rng_(seed),
        workers_(workers) {
    AggregatorOptions options = DenseOptions();
    options.shard = 0;
    options.fragments = fragments;
    options.workers = workers;
    options.open_bytes_max = open_bytes_max;
    auto created = Aggregator::Create(options, layout_);
    EXPECT_TRUE(created.ok()) << created.status();
    aggregator_.emplace(*std::move(created));
    std::vector<uint32_t> members;
    for (uint32_t w = 0; w < workers; ++w) members.push_back(w);
    Step(MembershipChanged{Members(1, members)});
    payload_ = Buffer(EncodeDense(kAllFp32, layout_, 0, std::vector<float>(kTileSize, 1.0f)));
    EXPECT_EQ(payload_.size(), kPushBytes);
  }

  // Runs until every worker has all rounds. False: no push is taken any more.
  bool Run() {
    while (!IsDone()) {
      std::vector<std::pair<uint32_t, uint32_t>> pushes;  // all that is to be pushed now
      for (uint32_t w = 0; w < workers_.size(); ++w) Advance(w);
      for (uint32_t w = 0; w < workers_.size(); ++w) {
        for (const uint32_t s : workers_[w].pushing) pushes.emplace_back(w, s);
      }
      if (pushes.empty() && !IsDone()) return false;
      for (size_t i = pushes.size(); i > 1; --i) std::swap(pushes[i - 1], pushes[rng_.Below(i)]);
      bool taken = false;
      for (const auto& [worker, segment] : pushes) taken |= Push(worker, segment);
      if (!taken && !pushes.empty()) return false;
    }
    return true;
  }

 private:
  struct Worker {
    uint32_t round = 0, fragment = 0;
    bool begun = false;
    std::vector<uint32_t> awaited;  // segments of its fragment that have not closed
    std::vector<uint32_t> pushing;  // of these, those that were not accepted yet
  };

  bool IsDone() const {
    return std::ranges::all_of(workers_, [&](const Worker& w) { return w.round == rounds_; });
  }

  // To its next fragment, if all of the one before is closed.
  void Advance(uint32_t index) {
    Worker& worker = workers_[index];
    std::erase_if(worker.awaited,
                  [&](uint32_t s) { return aggregator_->open_round(s) > worker.round; });
    if (!worker.awaited.empty() || worker.round == rounds_) return;
    if (worker.begun && ++worker.fragment == fragments_) {
      worker.fragment = 0;
      if (++worker.round == rounds_) return;
    }
    worker.begun = true;
    for (uint32_t s = worker.fragment; s < layout_.segments().size(); s += fragments_) {
      worker.awaited.push_back(s);
    }
    worker.pushing = worker.awaited;
  }

  // Whether it was accepted.
  bool Push(uint32_t index, uint32_t segment) {
    PushFrame header;
    header.run = kRun;
    header.worker = index;
    header.round = workers_[index].round;
    header.segment = segment;
    header.weight = 1;
    const auto effects = Step(PushArrived{header, payload_});
    const Outcome outcome = Sent<AnswerFrame>(effects.front()).header.outcome;
    EXPECT_LE(aggregator_->open_figures().bytes, bytes_max_);
    if (outcome == Outcome::kBusy) return false;
    EXPECT_EQ(Name(outcome), Name(Outcome::kAccepted));
    std::erase(workers_[index].pushing, segment);
    return true;
  }

  std::vector<ShardEffect> Step(const AggregatorEvent& event) {
    return aggregator_->Step(event, absl::UnixEpoch());
  }

  const Layout layout_;
  const uint32_t fragments_;
  const uint32_t rounds_;
  const uint64_t bytes_max_;
  Rng rng_;
  std::vector<Worker> workers_;
  std::optional<Aggregator> aggregator_;
  Buffer payload_;
};

TEST(AggregatorFragments, EveryRoundClosesHoweverLittleMemoryThereIs) {
  for (const uint32_t segments : {4, 7, 8}) {
    for (const uint32_t fragments : {1, 2, 3, 5, 8, 100}) {
      for (const uint32_t workers : {1, 2, 4}) {
        for (const uint64_t room : {0, 1, 3, 5}) {
          // Without room for a single push the oldest segment is all that is served.
          const uint64_t bytes = std::max<uint64_t>(room * kPushBytes, 1);
          FragmentedRun run(segments, fragments, workers, 3, bytes, segments + room);
          EXPECT_TRUE(run.Run()) << segments << " segments, " << fragments << " fragments, "
                                 << workers << " workers, room for " << room << " pushes";
        }
      }
    }
  }
}

TEST(AggregatorFragments, TheOldestSegmentIsOfTheFirstFragment) {
  const Layout layout = SmallLayout(kTileSize, 1, 4);
  AggregatorOptions options = DenseOptions();
  options.shard = 0;
  options.fragments = 2;
  options.open_bytes_max = 1;
  auto aggregator = Aggregator::Create(options, layout);
  ASSERT_TRUE(aggregator.ok()) << aggregator.status();
  aggregator->Step(MembershipChanged{Members(1, {0})}, absl::UnixEpoch());
  const Buffer payload(EncodeDense(kAllFp32, layout, 0, std::vector<float>(kTileSize, 1.0f)));
  const auto push = [&](uint32_t round, uint32_t segment) {
    PushFrame header;
    header.run = kRun;
    header.round = round;
    header.segment = segment;
    header.weight = 1;
    const auto effects = aggregator->Step(PushArrived{header, payload}, absl::UnixEpoch());
    return std::string(Name(Sent<AnswerFrame>(effects.front()).header.outcome));
  };
  std::vector<std::string> outcomes;
  for (const uint32_t segment : {0, 1, 2, 3, 1}) outcomes.push_back(push(0, segment));
  EXPECT_THAT(outcomes, testing::ElementsAre("accepted", "busy", "accepted", "busy", "accepted"));
  EXPECT_EQ(push(1, 0), "busy");  // of the next round, while segment 3 is open in this one
  EXPECT_EQ(push(0, 3), "accepted");
  EXPECT_EQ(push(1, 0), "accepted");
}

}  // namespace
}  // namespace longwave
