#include "worker/member/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/member/crash_point.h"

namespace longwave {

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)),
      journal_(options_.folder->files(), options_.folder->path()),
      write_(options_.folder->journal()) {
  JournalHeader header = options_.header;
  header.write = write_;
  journal_.Begin(header);
  appender_ = std::thread([this] { Append(); });
  writer_ = std::thread([this] { WriteAll(); });
}

void CheckpointWriter::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  queued_.notify_all();
  to_do_.notify_all();
  if (appender_.joinable()) appender_.join();
  if (writer_.joinable()) writer_.join();
}

void CheckpointWriter::Enqueue(Item item) {
  item.since = MonotonicNow();
  const std::lock_guard lock(mutex_);
  queued_bytes_ += item.record.payload.size();
  // The record is lost, which the journal's thread makes good once it is back.
  if (queued_bytes_ > kQueuedBytesMax && !item.begins.has_value()) {
    item.is_lost = true;
    queued_bytes_ -= item.record.payload.size();
    item.record.payload = Buffer();
  }
  const bool wakes = queue_.empty();
  queue_.push_back(std::move(item));
  if (wakes) queued_.notify_one();
}

void CheckpointWriter::Post(SegmentPush push, JournalRecord record) {
  Enqueue({.record = std::move(record), .push = std::move(push), .begins = {}});
}

void CheckpointWriter::Note(JournalRecord record) {
  Enqueue({.record = std::move(record), .push = {}, .begins = {}});
}

void CheckpointWriter::Write(Checkpoint checkpoint) {
  Enqueue({.record = {}, .push = {}, .begins = checkpoint.write});
  const std::lock_guard lock(mutex_);
  to_write_ = std::move(checkpoint);
  to_do_.notify_one();
}

std::optional<CheckpointWriter::Ended> CheckpointWriter::TakeEnded() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ended_, std::nullopt);
}

bool CheckpointWriter::has_waiting() const {
  const std::lock_guard lock(mutex_);
  const auto waits = [](const Item& item) { return item.push.has_value(); };
  return std::ranges::any_of(batch_, waits) || std::ranges::any_of(queue_, waits);
}

uint64_t CheckpointWriter::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

void CheckpointWriter::PostAll(std::deque<Item>& items, std::unique_lock<std::mutex>& lock) {
  // Another thread may change the items while the lock is released.
  std::vector<SegmentPush> pushes;
  for (Item& item : items) {
    if (item.push.has_value()) pushes.push_back(*std::exchange(item.push, std::nullopt));
  }
  lock.unlock();
  absl::Status posted;
  for (SegmentPush& push : pushes) {
    posted.Update(options_.exchange->Post(std::move(push)));
    if (posted.ok()) PassCrashPoint("posted");
  }
  lock.lock();
  failure_.Update(posted);
}

absl::Status CheckpointWriter::Attend(absl::Time now) {
  std::unique_lock lock(mutex_);
  const auto is_overdue = [&](const std::deque<Item>& items) {
    return std::ranges::any_of(items, [&](const Item& item) {
      return item.push.has_value() && now - item.since > kPatience;
    });
  };
  if (!failure_.ok() || (!is_overdue(batch_) && !is_overdue(queue_))) return failure_;
  if (!std::exchange(is_late_, true)) {
    ++failures_;
    options_.warn(absl::StrCat(
        "the disk has not taken the journal of pushes for ", absl::FormatDuration(kPatience),
        ": pushes leave without it; a crash before the disk answers would cost this "
        "worker its folder"));
  }
  // No push is added meanwhile, since one thread calls.
  PostAll(batch_, lock);
  PostAll(queue_, lock);
  return failure_;
}

void CheckpointWriter::Append() {
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait(lock, [this] { return stops_ || !queue_.empty(); });
    if (queue_.empty()) return;
    if (queue_.front().begins.has_value()) {
      JournalHeader header = options_.header;
      header.write = write_ = *queue_.front().begins;
      queue_.pop_front();
      takes_none_ = false;
      journal_.Begin(header);
      continue;
    }
    std::vector<JournalRecord> records;
    bool is_lost = false;
    while (!queue_.empty() && !queue_.front().begins.has_value()) {
      records.push_back(queue_.front().record);
      is_lost = is_lost || queue_.front().is_lost;
      batch_.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    absl::Status appended;
    if (!takes_none_) {
      lock.unlock();
      appended = is_lost ? ResourceExhausted("more waited for the disk than there is room for")
                         : journal_.Append(records);
      if (!appended.ok()) LoseJournal(appended);
      lock.lock();
      if (appended.ok() && (is_late_ || is_lost_)) {
        is_late_ = is_lost_ = false;
        Log(LogLevel::kInfo, "the disk takes the journal of pushes again");
      }
    }
    for (const JournalRecord& record : records) queued_bytes_ -= record.payload.size();
    // A worker that could not make its checkpoint stale ends.
    if (failure_.ok()) PostAll(batch_, lock);
    batch_.clear();
  }
}

void CheckpointWriter::LoseJournal(const absl::Status& why) {
  absl::Status retired;
  {
    const std::lock_guard folder(folder_mutex_);
    lost_ = write_;
    if (adopted_ <= write_) retired = options_.folder->Retire();
  }
  {
    const std::lock_guard lock(mutex_);
    takes_none_ = true;
    ++failures_;
    failure_.Update(retired);
    if (std::exchange(is_lost_, true)) return;
  }
  options_.warn(absl::StrCat("no journal of pushes: ", why.message(),
                             "; a crash from here on would cost this worker its residual, until "
                             "its next checkpoint"));
}

void CheckpointWriter::WriteAll() {
  std::unique_lock lock(mutex_);
  for (;;) {
    to_do_.wait(lock, [this] { return stops_ || to_write_.has_value(); });
    if (stops_) return;
    Checkpoint checkpoint = *std::exchange(to_write_, std::nullopt);
    lock.unlock();
    absl::Status written = WriteOne(checkpoint);
    if (written.ok()) PassCrashPoint("checkpointed");
    lock.lock();
    ended_ = Ended{.status = std::move(written), .checkpoint = std::move(checkpoint)};
  }
}

absl::Status CheckpointWriter::WriteOne(const Checkpoint& checkpoint) {
  absl::Time began = MonotonicNow();
  LONGWAVE_RETURN_IF_ERROR(options_.folder->WriteBeside(checkpoint, [&](uint64_t) {
    const bool goes_on = Pace(MonotonicNow() - began);
    began = MonotonicNow();
    return goes_on;
  }));
  const std::lock_guard folder(folder_mutex_);
  if (lost_ >= checkpoint.write)
    return FailedPrecondition("pushes have left since that no journal has");
  LONGWAVE_RETURN_IF_ERROR(options_.folder->Adopt(checkpoint.write));
  adopted_ = checkpoint.write;
  return absl::OkStatus();
}

// Waits so that the disk writes for its share of the time. False: the write is given up.
bool CheckpointWriter::Pace(absl::Duration took) {
  std::unique_lock lock(mutex_);
  const absl::Duration pause = took * (1 / options_.share - 1);
  to_do_.wait_for(lock, absl::ToChronoNanoseconds(pause), [this] { return stops_; });
  return !stops_;
}

}  // namespace longwave
