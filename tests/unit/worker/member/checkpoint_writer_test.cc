#include "worker/member/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "server/store/posix_file_system.h"
#include "tests/support/plain_exchange.h"
#include "tests/support/test_folder.h"
#include "tests/support/wrapped_file_system.h"
#include "worker/checkpoint/push_journal.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A disk that hangs, or refuses to append or to rename, while it is told to.
class Disk final : public WrappedFileSystem {
 public:
  explicit Disk(FileSystem* files) : WrappedFileSystem(files) {}

  void Hang(bool hangs) {
    Set([&] { hangs_ = hangs ? "" : kNever; });
  }
  void HangJournals() {
    Set([&] { hangs_ = "journal."; });
  }
  void Refuse(bool refuses) {
    Set([&] { refuses_ = refuses; });
  }
  void RefuseNames(bool refuses) {
    Set([&] { refuses_names_ = refuses; });
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    {
      const std::lock_guard lock(mutex_);
      if (refuses_names_) return absl::InternalError("the disk takes no names");
    }
    return WrappedFileSystem::Rename(from, to);
  }

 private:
  static constexpr char kNever[] = "no path has this";

  class File final : public WritableFile {
   public:
    File(Disk* disk, std::string path, std::unique_ptr<WritableFile> file)
        : disk_(*disk), path_(std::move(path)), file_(std::move(file)) {}
    absl::Status Append(BytePieces pieces) override {
      if (!disk_.Pass(path_)) return absl::ResourceExhaustedError("the disk is full");
      return file_->Append(pieces);
    }
    absl::Status Sync() override { return file_->Sync(); }

   private:
    Disk& disk_;
    const std::string path_;
    const std::unique_ptr<WritableFile> file_;
  };
  std::unique_ptr<WritableFile> Wrap(const std::string& path,
                                     std::unique_ptr<WritableFile> file) override {
    return std::make_unique<File>(this, path, std::move(file));
  }
  template <typename F>
  void Set(F set) {
    const std::lock_guard lock(mutex_);
    set();
    changed_.notify_all();
  }
  bool Pass(const std::string& path) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !absl::StrContains(path, hangs_); });
    return !refuses_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string hangs_ = kNever;  // with a path that has this
  bool refuses_ = false;
  bool refuses_names_ = false;
};

// Hears of posts.
class Posts final : public PlainExchange {
 public:
  absl::Status Post(SegmentPush push) override {
    const std::lock_guard lock(mutex_);
    rounds_.push_back(push.round);
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration) override { return std::nullopt; }
  ByteCounts counts() const override { return {}; }
  std::vector<uint32_t> Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rounds_.size() >= count; });
    return rounds_;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return rounds_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint32_t> rounds_;
};

class CheckpointWriterTest : public ::testing::Test {
 protected:
  CheckpointWriterTest()
      : real_(MakePosixFileSystem()), disk_(real_.get()), path_(folder_.path() + "/worker") {
    opened_ = *WorkerFolder::Open(&disk_, path_);
    writer_.emplace(CheckpointWriterOptions{.folder = opened_.get(),
                                            .exchange = &posts_,
                                            .header = {.run = 1},
                                            .share = 1,
                                            .warn = [this](const std::string& text) {
                                              if (const auto act =
                                                      std::exchange(on_warning_, nullptr))
                                                act();
                                              const std::lock_guard lock(mutex_);
                                              warnings_.push_back(text);
                                            }});
  }

  void Post(uint32_t round) {
    writer_->Post({.round = round}, {.kind = JournalKind::kPush,
                                     .round = round,
                                     .payload = Buffer(std::vector<std::byte>(10, std::byte{1}))});
  }
  void Write(uint32_t round) {
    Checkpoint checkpoint{.name = "one", .round = round, .write = opened_->NextWrite()};
    checkpoint.momentum.assign(10'000, 1.0f);
    writer_->Write(std::move(checkpoint));
  }
  CheckpointWriter::Ended AwaitWritten() {
    for (;;) {
      if (auto ended = writer_->TakeEnded()) return *std::move(ended);
    }
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  bool Has(const std::string& name) {
    return real_->OpenToRead(JoinPath(path_, name)).status().ok();
  }
  size_t Recorded() { return ReadJournals(*real_, path_, 0, nullptr)->size(); }

  TestFolder folder_;
  const std::unique_ptr<FileSystem> real_;
  Disk disk_;
  const std::string path_;
  Posts posts_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::function<void()> on_warning_;  // called with the first one
  std::unique_ptr<WorkerFolder> opened_;
  std::optional<CheckpointWriter> writer_;
};

TEST_F(CheckpointWriterTest, APushLeavesOnceItIsInTheJournal) {
  disk_.Hang(true);
  Post(0);
  EXPECT_TRUE(writer_->has_waiting());
  EXPECT_EQ(posts_.count(), 0u);
  disk_.Hang(false);
  EXPECT_THAT(posts_.Await(1), SizeIs(1));
  EXPECT_EQ(Recorded(), 1u);
  EXPECT_THAT(warnings(), SizeIs(0));
}

TEST_F(CheckpointWriterTest, ACheckpointEndsTheJournalsBeforeItsCopy) {
  Post(0);
  Write(1);
  Post(1);
  posts_.Await(2);
  EXPECT_TRUE(AwaitWritten().status.ok());
  EXPECT_TRUE(Has("checkpoint"));
  EXPECT_THAT(*ListJournals(*real_, path_), SizeIs(1));
  EXPECT_EQ(Recorded(), 1u);
}

TEST_F(CheckpointWriterTest, PushesLeaveWhileTheDiskHangsAndAreRecordedAfterwards) {
  Post(0);
  posts_.Await(1);
  disk_.Hang(true);
  Post(1);
  Post(2);
  EXPECT_TRUE(writer_->Attend(MonotonicNow()).ok());
  EXPECT_EQ(posts_.count(), 1u);
  EXPECT_TRUE(writer_->Attend(MonotonicNow() + 2 * CheckpointWriter::kPatience).ok());
  EXPECT_EQ(posts_.Await(3), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_FALSE(writer_->has_waiting());
  Post(3);
  EXPECT_TRUE(writer_->Attend(MonotonicNow() + 2 * CheckpointWriter::kPatience).ok());
  posts_.Await(4);
  EXPECT_THAT(warnings(), SizeIs(1));
  EXPECT_EQ(writer_->failures(), 1u);
  disk_.Hang(false);
  writer_->Stop();
  EXPECT_EQ(posts_.count(), 4u);  // once each
  EXPECT_EQ(Recorded(), 4u);
  EXPECT_FALSE(Has("checkpoint.stale"));
}

TEST_F(CheckpointWriterTest, WhereTheJournalIsLostTheCheckpointIsStaleBeforeThePushLeaves) {
  Write(1);
  EXPECT_TRUE(AwaitWritten().status.ok());
  disk_.Refuse(true);
  Post(1);
  posts_.Await(1);
  EXPECT_TRUE(Has("checkpoint.stale"));
  EXPECT_FALSE(Has("checkpoint"));
  ASSERT_THAT(warnings(), SizeIs(1));
  EXPECT_THAT(warnings()[0], HasSubstr("the disk is full"));
  // The journal of the next copy is whole again.
  disk_.Refuse(false);
  Post(2);
  Write(3);
  EXPECT_TRUE(AwaitWritten().status.ok());
  Post(3);
  posts_.Await(3);
  EXPECT_TRUE(Has("checkpoint"));
  EXPECT_EQ(ReadJournals(*real_, path_, opened_->journal() + 2, nullptr)->size(), 1u);
}

TEST_F(CheckpointWriterTest, ACheckpointWhoseJournalIsLostIsNotUsed) {
  disk_.Hang(true);
  Write(1);
  Post(1);
  disk_.Refuse(true);
  disk_.Hang(false);
  posts_.Await(1);
  EXPECT_FALSE(AwaitWritten().status.ok());
  EXPECT_FALSE(Has("checkpoint"));
}

TEST_F(CheckpointWriterTest, AfterACheckpointThatGotNoNameTheJournalOfTheOneBeforeStillCounts) {
  Write(1);
  EXPECT_TRUE(AwaitWritten().status.ok());
  disk_.HangJournals();
  Post(1);
  disk_.RefuseNames(true);
  Write(2);
  EXPECT_FALSE(AwaitWritten().status.ok());
  disk_.RefuseNames(false);
  disk_.Refuse(true);
  disk_.Hang(false);
  posts_.Await(1);
  EXPECT_TRUE(Has("checkpoint.stale"));
  EXPECT_FALSE(Has("checkpoint"));
}

TEST_F(CheckpointWriterTest, NoPushLeavesWhereTheCheckpointCannotBeMadeStale) {
  Write(1);
  EXPECT_TRUE(AwaitWritten().status.ok());
  disk_.Hang(true);
  Post(1);
  Post(2);
  on_warning_ = [this] {
    EXPECT_FALSE(writer_->Attend(MonotonicNow() + 2 * CheckpointWriter::kPatience).ok());
  };
  disk_.Refuse(true);
  disk_.RefuseNames(true);
  disk_.Hang(false);
  writer_->Stop();
  EXPECT_THAT(warnings(), SizeIs(1));
  EXPECT_EQ(posts_.count(), 0u);
}

}  // namespace
}  // namespace longwave
