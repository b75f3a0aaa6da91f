#include "common/wire/control.h"

#include <gtest/gtest.h>

#include <set>

#include "common/wire/codec.h"

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

TEST(CodecNames, AreThoseOfTheConfiguration) {
  EXPECT_EQ(Name(ValueCodec::kFp32), "fp32");
  EXPECT_EQ(Name(ValueCodec::kBf16), "bf16");
  EXPECT_EQ(Name(ValueCodec::kInt8), "int8");
  EXPECT_EQ(Name(ValueCodec::kInt4), "int4");
  EXPECT_EQ(Name(ValueCodec::kInt2), "int2");
  EXPECT_EQ(Name(ValueCodec::kSign), "sign");
  EXPECT_EQ(Name(Selection::kAll), "all");
  EXPECT_EQ(Name(Selection::kTopK), "topk");
  EXPECT_EQ(Name(Selection::kRandom), "random");
  EXPECT_EQ(Name(Selection::kStride), "stride");
  EXPECT_EQ(Name(Transform::kNone), "none");
  EXPECT_EQ(Name(Transform::kDct), "dct");
}

}  // namespace
}  // namespace longwave
