#include "server/service/group_commit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/posix_file_system.h"
#include "tests/support/test_folder.h"
#include "tests/support/wrapped_file_system.h"
#include "tests/unit/coordinator/coordinator_testing.h"
#include "tests/unit/service/held_file_system.h"

namespace longwave {
namespace {

class GroupCommitTest : public CoordinatorTest {
 protected:
  static constexpr uint32_t kWorkers = 16;

  void SetUp() override {
    Begin(Options(kWorkers, 1));
    auto store = CoordinatorStore::Open(&files_, folder_.path(), {});
    ASSERT_TRUE(store.ok()) << store.status();
    commit_.emplace(&*coordinator_, *std::move(store), [this](absl::Duration, bool) { ++writes_; });
    ASSERT_TRUE(StepAndCommit(Tick{}).ok());
    ASSERT_EQ(writes_, 1);
  }
  absl::Status StepAndCommit(const CoordinatorEvent& event) {
    std::unique_lock lock(mutex_);
    Step(event);
    ++steps_;
    stepped_.notify_all();
    return commit_->Commit(lock);
  }
  bool IsKept(uint32_t worker) {
    const CoordinatorRecord record = OnDisk();
    return !record.rounds.empty() ||
           std::ranges::any_of(record.reports, [&](const OpenReport& open) {
             return open.member.worker == worker;
           });
  }

  // The record on the disk, also during a write: an unfinished part is cut.
  CoordinatorRecord OnDisk() {
    const auto bytes = ReadWhole(*posix_, folder_.path() + "/coordinator.lwlog", 1 << 30);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (!bytes.ok()) return {};
    auto file = ReadCoordinatorFile(bytes->bytes());
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? std::move(file->record) : CoordinatorRecord();
  }

  TestFolder folder_;
  const std::unique_ptr<FileSystem> posix_ = MakePosixFileSystem();
  HeldFileSystem files_{posix_.get()};
  std::mutex mutex_;
  std::condition_variable stepped_;
  uint32_t steps_ = 0;
  int writes_ = 0;
  std::optional<GroupCommit> commit_;
};

TEST_F(GroupCommitTest, OneWriteIsForAllThatCameWhileTheLastOneWasWritten) {
  files_.Hold(true);
  steps_ = 0;
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([this, worker] {
      EXPECT_TRUE(StepAndCommit(Beat(worker, {Report(0)})).ok());
      EXPECT_TRUE(IsKept(worker)) << "told before it was durable: worker " << worker;
    });
  }
  {
    // The core decides all of them during the first one's write.
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        stepped_.wait_for(lock, std::chrono::minutes(1), [&] { return steps_ == kWorkers; }))
        << "wanted the steps of " << kWorkers << " workers within a minute, got " << steps_;
    EXPECT_EQ(commit_->durable_rounds(), 0u);
  }
  files_.Hold(false);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(writes_, 3);  // the one before, the first one's, all the others'
  EXPECT_EQ(commit_->durable_rounds(), 1u);
  EXPECT_EQ(OnDisk().rounds, coordinator_->Export(absl::UnixEpoch()).rounds);
  EXPECT_TRUE(OnDisk().reports.empty());
}

TEST_F(GroupCommitTest, WhatChangesNothingWritesNothing) {
  EXPECT_TRUE(StepAndCommit(Beat(3)).ok());
  EXPECT_EQ(writes_, 1);
}

TEST_F(GroupCommitTest, WhatCouldNotBeWrittenIsWrittenWithTheNext) {
  files_.Fail(true);
  EXPECT_EQ(StepAndCommit(Beat(0, {Report(0)})).message(), "the disk is full");
  // A commit that adds nothing must not be answered either.
  EXPECT_FALSE(StepAndCommit(Beat(0, {Report(0)})).ok());
  for (uint32_t worker = 1; worker + 1 < kWorkers; ++worker) {
    EXPECT_FALSE(StepAndCommit(Beat(worker, {Report(0)})).ok());
  }
  files_.Fail(false);
  EXPECT_TRUE(StepAndCommit(Beat(0)).ok());
  EXPECT_EQ(OnDisk().reports.size(), kWorkers - 1);

  // The failed report is obsolete if its round finishes before the next write.
  files_.Fail(true);
  EXPECT_FALSE(StepAndCommit(Beat(0, {Report(1)})).ok());
  EXPECT_FALSE(StepAndCommit(Beat(kWorkers - 1, {Report(0)})).ok());
  for (uint32_t worker = 1; worker < kWorkers; ++worker) {
    EXPECT_FALSE(StepAndCommit(Beat(worker, {Report(1)})).ok());
  }
  EXPECT_EQ(commit_->durable_rounds(), 0u);
  files_.Fail(false);
  EXPECT_TRUE(StepAndCommit(Beat(0)).ok());
  EXPECT_EQ(OnDisk().rounds.size(), 2u);
  EXPECT_TRUE(OnDisk().reports.empty());
  EXPECT_EQ(commit_->durable_rounds(), 2u);
}

}  // namespace
}  // namespace longwave
