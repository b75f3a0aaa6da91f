#ifndef LONGWAVE_WORKER_MEMBER_CHECKPOINT_WRITER_H_
#define LONGWAVE_WORKER_MEMBER_CHECKPOINT_WRITER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/journal.h"
#include "worker/checkpoint/push_journal.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/sync/exchange.h"

namespace longwave {

struct CheckpointWriterOptions {
  WorkerFolder* folder = nullptr;
  Exchange* exchange = nullptr;
  JournalHeader header = {};  // without `write`
  double share = 0.1;         // of the time that a checkpoint's writing may take of the disk's
  // Told in sentences, on any thread, when the disk begins to fail.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// The disk of a worker that trains meanwhile. One thread appends pushes to the journal, a batch at
// a time, and posts them once the batch is on the disk. Another one writes a checkpoint. While the
// disk is slow, full or hangs, pushes leave all the same: where the journal cannot be written, the
// last checkpoint is made stale before; where it only does not answer, pushes leave after
// kPatience, and their records are written once it does. One thread at a time calls, and `folder`
// is this object's until Stop.
class CheckpointWriter {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(1);
  // Payloads that wait for a disk which does not answer.
  static constexpr uint64_t kQueuedBytesMax = uint64_t{256} << 20;

  explicit CheckpointWriter(CheckpointWriterOptions options);
  ~CheckpointWriter() { Stop(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Returns at once; the push leaves once its record is on the disk.
  void Post(SegmentPush push, JournalRecord record);
  void Note(JournalRecord record);  // what needs no wait

  // Begins another journal, and writes the checkpoint, whose bytes are its own, in the background.
  // Called only when no other is being written.
  void Write(Checkpoint checkpoint);
  struct Ended {
    absl::Status status;
    Checkpoint checkpoint;
  };
  std::optional<Ended> TakeEnded();

  // Called often: posts what has waited for kPatience. An error ends the worker: the last
  // checkpoint could not be made stale, or a push could not be posted.
  absl::Status Attend(absl::Time now);
  bool has_waiting() const;   // pushes wait for the disk
  uint64_t failures() const;  // of the journal so far

  // Appends what waits, and gives up a checkpoint that is being written. No other call may follow.
  void Stop();

 private:
  struct Item {
    JournalRecord record;
    std::optional<SegmentPush> push;  // nothing: none, or it has left
    std::optional<uint64_t> begins;   // another journal, instead of a record
    absl::Time since = {};
    bool is_lost = false;  // there was no room for its payload
  };

  void Enqueue(Item item);
  void Append();  // the journal's thread
  void LoseJournal(const absl::Status& why);
  void WriteAll();  // the checkpoint's thread
  absl::Status WriteOne(const Checkpoint& checkpoint);
  bool Pace(absl::Duration took);
  void PostAll(std::deque<Item>& items, std::unique_lock<std::mutex>& lock);

  const CheckpointWriterOptions options_;
  PushJournal journal_;  // the journal's thread's

  // Guards the folder's names: a checkpoint that is adopted, or made stale.
  std::mutex folder_mutex_;
  uint64_t adopted_ = 0;  // the last checkpoint's write; 0: an earlier process's
  uint64_t lost_ = 0;     // the last journal of which something is not on the disk

  mutable std::mutex mutex_;
  std::condition_variable queued_;  // for the journal's thread
  std::condition_variable to_do_;   // for the checkpoint's
  bool stops_ = false;
  std::deque<Item> queue_;
  std::deque<Item> batch_;  // the journal's thread appends it
  uint64_t queued_bytes_ = 0;
  bool is_late_ = false;  // it was said, likewise
  bool is_lost_ = false;
  uint64_t failures_ = 0;
  uint64_t write_ = 0;  // of the journal that is appended to
  bool takes_none_ = false;
  absl::Status failure_;
  std::optional<Checkpoint> to_write_;
  std::optional<Ended> ended_;

  std::thread appender_, writer_;  // last: they use all of the above
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CHECKPOINT_WRITER_H_
