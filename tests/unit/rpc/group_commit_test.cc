#include "server/service/group_commit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

// A disk that the test can hold up and let fail.
class HeldStore final : public CoordinatorStore {
 public:
  absl::StatusOr<std::optional<CoordinatorRecord>> Load() override { return std::nullopt; }
  absl::Status Write(const CoordinatorChanges& changes) override {
    std::unique_lock lock(mutex_);
    ++writes_;
    changed_.wait(lock, [&] { return !held_; });
    if (fails_) return absl::ResourceExhaustedError("the disk is full");
    Apply(changes, &record_);
    return absl::OkStatus();
  }

  void Hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  void Fail(bool fails) {
    const std::lock_guard lock(mutex_);
    fails_ = fails;
  }
  int writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }
  CoordinatorRecord record() {
    const std::lock_guard lock(mutex_);
    return record_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool fails_ = false;
  int writes_ = 0;
  CoordinatorRecord record_;
};

class GroupCommitTest : public CoordinatorTest {
 protected:
  static constexpr uint32_t kWorkers = 16;

  void SetUp() override {
    Begin(Options(kWorkers, 1));
    auto store = std::make_unique<HeldStore>();
    store_ = store.get();
    commit_.emplace(&*coordinator_, std::move(store));
    ASSERT_TRUE(StepAndCommit(Tick{}).ok());
    ASSERT_EQ(store_->writes(), 1);
  }
  absl::Status StepAndCommit(const CoordinatorEvent& event) {
    std::unique_lock lock(mutex_);
    Step(event);
    ++steps_;
    stepped_.notify_all();
    return commit_->Commit(lock);
  }
  bool IsKept(uint32_t worker) {
    const CoordinatorRecord record = store_->record();
    return !record.rounds.empty() ||
           std::ranges::any_of(record.reports, [&](const OpenReport& open) {
             return open.member.worker == worker;
           });
  }

  std::mutex mutex_;
  std::condition_variable stepped_;
  uint32_t steps_ = 0;
  HeldStore* store_ = nullptr;
  std::optional<GroupCommit> commit_;
};

TEST_F(GroupCommitTest, OneWriteIsForAllThatCameWhileTheLastOneWasWritten) {
  store_->Hold(true);
  steps_ = 0;
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([this, worker] {
      EXPECT_TRUE(StepAndCommit(Beat(worker, {Report(0)})).ok());
      EXPECT_TRUE(IsKept(worker)) << "told before it was durable: worker " << worker;
    });
  }
  {
    // All of them have been decided while the first one's write is under way.
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        stepped_.wait_for(lock, std::chrono::minutes(1), [&] { return steps_ == kWorkers; }))
        << "wanted the steps of " << kWorkers << " workers within a minute, got " << steps_;
    EXPECT_EQ(commit_->durable_rounds(), 0u);
  }
  store_->Hold(false);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->writes(), 3);  // the one before, the first one's, all the others'
  EXPECT_EQ(commit_->durable_rounds(), 1u);
  EXPECT_EQ(store_->record().rounds, coordinator_->Export(absl::UnixEpoch()).rounds);
  EXPECT_TRUE(store_->record().reports.empty());
}

TEST_F(GroupCommitTest, WhatChangesNothingWritesNothing) {
  EXPECT_TRUE(StepAndCommit(Beat(3)).ok());
  EXPECT_EQ(store_->writes(), 1);
}

TEST_F(GroupCommitTest, WhatCouldNotBeWrittenIsWrittenWithTheNext) {
  store_->Fail(true);
  EXPECT_EQ(StepAndCommit(Beat(0, {Report(0)})).message(), "the disk is full");
  // Nor may anybody hear of it who adds nothing to it.
  EXPECT_FALSE(StepAndCommit(Beat(0, {Report(0)})).ok());
  for (uint32_t worker = 1; worker + 1 < kWorkers; ++worker) {
    EXPECT_FALSE(StepAndCommit(Beat(worker, {Report(0)})).ok());
  }
  store_->Fail(false);
  EXPECT_TRUE(StepAndCommit(Beat(0)).ok());
  EXPECT_EQ(store_->record().reports.size(), kWorkers - 1);

  // A report that failed is over when the round that it is of is finished before the next write.
  store_->Fail(true);
  EXPECT_FALSE(StepAndCommit(Beat(0, {Report(1)})).ok());
  EXPECT_FALSE(StepAndCommit(Beat(kWorkers - 1, {Report(0)})).ok());
  for (uint32_t worker = 1; worker < kWorkers; ++worker) {
    EXPECT_FALSE(StepAndCommit(Beat(worker, {Report(1)})).ok());
  }
  EXPECT_EQ(commit_->durable_rounds(), 0u);
  store_->Fail(false);
  EXPECT_TRUE(StepAndCommit(Beat(0)).ok());
  EXPECT_EQ(store_->record().rounds.size(), 2u);
  EXPECT_TRUE(store_->record().reports.empty());
  EXPECT_EQ(commit_->durable_rounds(), 2u);
}

}  // namespace
}  // namespace longwave
