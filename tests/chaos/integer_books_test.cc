// The books must detect the mistakes that the chaos test looks for. The tests check an honest run,
// and one with each kind of mistake.
#include "tests/chaos/integer_books.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/shard/merge.h"
#include "tests/chaos/integer_signal.h"
#include "tests/unit/shard/shard_testing.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr PayloadFormat kUp = {Selection::kTopK, ValueCodec::kFp32, 64};
constexpr PayloadFormat kDown = {Selection::kTopK, ValueCodec::kFp32, 48};
constexpr uint32_t kWorkers = 3;
constexpr uint32_t kRounds = 12;

Layout OneTile() {
  auto layout = Layout::Create({{{"x", {int64_t{kSignalTile}}}}}, {.tiling = Tiling::kFlat});
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// A small run: the behaviour of workers and a shard, with no real part but the merge.
class IntegerRun {
 public:
  IntegerRun() : residuals_(kWorkers, std::vector<float>(kSignalTile)), held_(kSignalTile) {
    for (uint32_t round = 0; round < kRounds; ++round) Round(round);
  }

  struct Closed {
    MergedRecord merged;
    std::map<uint32_t, PushRecord> pushes;
  };
  std::vector<Closed> rounds;
  std::vector<float> anchor = std::vector<float>(kSignalTile);

  Checkpoint At(uint32_t worker) const {
    Checkpoint end;
    end.name = "w";
    end.worker = worker;
    end.momentum = residuals_[worker];
    return end;
  }

  // The problems that the books find.
  std::vector<std::string> Problems(const std::vector<Checkpoint>& ends,
                                    const std::set<uint32_t>& partial = {}) const {
    IntegerBooks books(&layout_);
    for (const Closed& round : rounds) {
      EXPECT_TRUE(books.Merge(round.merged, round.pushes).ok());
    }
    std::set<uint32_t> all;
    for (uint32_t round = 0; round < kRounds; ++round) all.insert(round);
    for (const Checkpoint& end : ends)
      EXPECT_TRUE(books.CheckWorker(end.worker, end, all, partial).ok());
    books.CheckReplica("w", anchor);
    EXPECT_EQ(books.problems().empty(), books.problem_count() == 0);
    return books.problems();
  }
  std::vector<Checkpoint> Ends() const { return {At(0), At(1), At(2)}; }

 private:
  void Round(uint32_t round) {
    Closed closed;
    std::vector<Contribution> contributions;
    const PayloadLayout up = PayloadLayoutOf(kUp, layout_), down = PayloadLayoutOf(kDown, layout_);
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      std::vector<float>& residual = residuals_[worker];
      for (uint64_t i = 0; i < kSignalTile; ++i) {
        residual[i] += static_cast<float>(SignalOf(worker, round, i));
      }
      PushRecord push;
      push.header.round = round;
      push.header.worker = worker;
      push.header.weight = kSignalWeight;
      push.payload = Buffer(EncodeDense(kUp, layout_, 0, residual));
      Subtract(up, push.payload, residual);
      closed.merged.contributors.push_back({worker, kSignalWeight, 1});
      closed.pushes[worker] = push;
    }
    for (const auto& [worker, push] : closed.pushes) {
      contributions.push_back({kSignalWeight, &up, push.payload.bytes(), 1});
    }
    closed.merged.header.round = round;
    closed.merged.payload = Buffer(merger_.Merge(layout_, 0, round, contributions, held_).payload);
    Subtract(down, closed.merged.payload, anchor);
    rounds.push_back(std::move(closed));
  }
  static void Subtract(const PayloadLayout& form, const Buffer& payload, std::vector<float>& from) {
    std::vector<uint16_t> indices(form.sent_count(0));
    std::vector<float> values(indices.size());
    ReadTile(form, 0, payload.bytes(), 0, indices, values);
    for (size_t i = 0; i < indices.size(); ++i) from[indices[i]] -= values[i];
  }

  const Layout layout_ = OneTile();
  std::vector<std::vector<float>> residuals_;
  std::vector<float> held_;
  Merger merger_{{.up = kUp, .rho = 0, .down = kDown}};
};

TEST(IntegerBooks, CloseAfterAnHonestRun) {
  const IntegerRun run;
  EXPECT_THAT(run.Problems(run.Ends()), IsEmpty());
}

TEST(IntegerBooks, NoticeAnAcceptedPushThatIsInNoMerge) {
  IntegerRun run;
  run.rounds[3].merged.contributors.pop_back();
  EXPECT_THAT(run.Problems(run.Ends()), Contains(HasSubstr("round 3: element ")));
}

TEST(IntegerBooks, NoticeAPushThatCountsTwice) {
  IntegerRun run;
  run.rounds[3].merged.contributors.push_back(run.rounds[3].merged.contributors[1]);
  EXPECT_THAT(run.Problems(run.Ends()),
              Contains(HasSubstr("round 3: worker 1's push is in two merges")));
}

TEST(IntegerBooks, NoticeAPushThatIsPutBackThoughItWasAccepted) {
  const IntegerRun run;
  std::vector<Checkpoint> ends = run.Ends();
  const Layout layout = OneTile();
  const PayloadLayout up = PayloadLayoutOf(kUp, layout);
  std::vector<uint16_t> indices(up.sent_count(0));
  std::vector<float> values(indices.size());
  ReadTile(up, 0, run.rounds[5].pushes.at(2).payload.bytes(), 0, indices, values);
  for (size_t i = 0; i < indices.size(); ++i) ends[2].momentum[indices[i]] += values[i];
  EXPECT_THAT(run.Problems(ends), Contains(HasSubstr("worker 2 (w): element ")));
}

TEST(IntegerBooks, NoticeALatePushThatIsNotPutBack) {
  IntegerRun run;
  // Worker 1's last push was late, and its worker believes that it was accepted.
  run.rounds.back().merged.contributors.erase(run.rounds.back().merged.contributors.begin() + 1);
  EXPECT_THAT(run.Problems(run.Ends()), Contains(HasSubstr("worker 1 (w): element ")));
}

TEST(IntegerBooks, CountAPushOfUnknownFateByTheLog) {
  const IntegerRun run;
  // A checkpoint's state: the pushed part is not in the residual, and not known to be accepted.
  std::vector<Checkpoint> ends = run.Ends();
  ends[0].round = kRounds - 1;
  ends[0].pushes.push_back({.segment = 0, .payload = run.rounds.back().pushes.at(0).payload});
  EXPECT_THAT(run.Problems(ends), IsEmpty());
}

TEST(IntegerBooks, NoticeAStepThatIsLost) {
  const IntegerRun run;
  std::vector<Checkpoint> ends = run.Ends();
  for (uint64_t i = 0; i < kSignalTile; ++i) {
    ends[1].momentum[i] -= static_cast<float>(SignalOf(1, 7, i));
  }
  EXPECT_THAT(run.Problems(ends), Contains(HasSubstr("round 7 was accepted and its step is lost")));
}

TEST(IntegerBooks, KnowThatAPartialStepIsLostAsFarAsItWasNotSent) {
  const IntegerRun run;
  std::vector<Checkpoint> ends = run.Ends();
  for (uint64_t i = 0; i < kSignalTile; ++i) {
    if (ends[1].momentum[i] != 0) ends[1].momentum[i] -= static_cast<float>(SignalOf(1, 11, i));
  }
  EXPECT_THAT(run.Problems(ends, {11}), IsEmpty());
  EXPECT_THAT(run.Problems(ends, {10}), Not(IsEmpty()));
}

TEST(IntegerBooks, NoticeAPartialStepThatCountsTwice) {
  const IntegerRun run;
  std::vector<Checkpoint> ends = run.Ends();
  // The step's marker was sent, and is in the residual again.
  ends[1].momentum[11] += static_cast<float>(kSignalMark);
  EXPECT_THAT(run.Problems(ends, {11}), ElementsAre(HasSubstr("worker 1 (w): element 11: ")));
}

TEST(IntegerBooks, NoticeOneWrongElementOfAReplica) {
  IntegerRun run;
  run.anchor[4000] += 1;
  EXPECT_THAT(run.Problems(run.Ends()), ElementsAre(HasSubstr("element 4000: got ")));
}

}  // namespace
}  // namespace longwave
