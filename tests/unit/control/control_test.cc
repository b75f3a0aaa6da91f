#include "common/control/control.h"

#include <gtest/gtest.h>

#include <set>

namespace longwave {
namespace {

TEST(CombineHashes, DependsOnValuesOrderAndCount) {
  const std::set<uint64_t> hashes = {
      CombineHashes({}),           CombineHashes({0}),       CombineHashes({0, 0}),
      CombineHashes({1}),          CombineHashes({1, 2}),    CombineHashes({2, 1}),
      CombineHashes({1, 2, 3}),    CombineHashes({1, 3, 2}), CombineHashes({3, 2, 1}),
      CombineHashes({1, 2, 3, 0}),
  };
  EXPECT_EQ(hashes.size(), 10u);
  EXPECT_EQ(CombineHashes({1, 2, 3}), CombineHashes({1, 2, 3}));
}

TEST(ControlNames, AreThoseOfTheLogs) {
  EXPECT_EQ(Name(RunPhase::kWaiting), "waiting");
  EXPECT_EQ(Name(RunPhase::kTraining), "training");
  EXPECT_EQ(Name(RunPhase::kFinished), "finished");
  EXPECT_EQ(Name(RunPhase::kFailed), "failed");
  EXPECT_EQ(Name(RunPhase::kStopped), "stopped");
  EXPECT_EQ(Name(WorkerPhase::kStarting), "starting");
  EXPECT_EQ(Name(WorkerPhase::kTraining), "training");
  EXPECT_EQ(Name(WorkerPhase::kSyncing), "syncing");
  EXPECT_EQ(Name(WorkerPhase::kValidating), "validating");
  EXPECT_EQ(Name(WorkerPhase::kDone), "done");
  EXPECT_EQ(Name(WorkerPhase::kFailed), "failed");
  EXPECT_EQ(Name(WorkerPhase::kLost), "lost");
  EXPECT_EQ(Name(WorkerPhase::kJoining), "joining");
  EXPECT_EQ(Name(WorkerPhase::kExpelled), "expelled");
}

}  // namespace
}  // namespace longwave
