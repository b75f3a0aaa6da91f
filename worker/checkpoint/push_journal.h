#ifndef LONGWAVE_WORKER_CHECKPOINT_PUSH_JOURNAL_H_
#define LONGWAVE_WORKER_CHECKPOINT_PUSH_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/journal.h"

namespace longwave {

// The journal's files of a worker's folder, `journal.WRITE`. A new one begins with each copy of the
// worker's state. Once the checkpoint of that copy is on the disk the older files are of no use.

std::string JournalName(uint64_t write);
// The numbers of the folder's journals, ascending.
absl::StatusOr<std::vector<uint64_t>> ListJournals(FileSystem& files, const std::string& folder);
// Removes those below `write`.
absl::Status RemoveJournalsBefore(FileSystem& files, const std::string& folder, uint64_t write);

// The records of all journals from `write` on, in their order. of: the run, worker and layout that
// they must be of; null: any.
// DataLoss: a record that was on the disk is gone; says where. A torn tail of the last file is
// normal, and of the others it is damage: SettleJournals has cut it.
absl::StatusOr<std::vector<JournalRecord>> ReadJournals(FileSystem& files,
                                                        const std::string& folder, uint64_t write,
                                                        const JournalHeader* of);

// Cuts the torn tail of the last file, if it has one, so that another file may follow. The folder's
// owner calls it. Errors: the disk's.
absl::Status SettleJournals(FileSystem& files, const std::string& folder);

// Appends to the journal, one batch of records after the other. Not thread-safe.
class PushJournal {
 public:
  // files: outlives the journal.
  PushJournal(FileSystem* files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  // The next Append begins a file.
  void Begin(const JournalHeader& header);
  // Durable on return. After an error the journal takes no more until the next Begin.
  absl::Status Append(std::span<const JournalRecord> records);

 private:
  absl::Status Open();
  absl::Status Write(std::span<const JournalRecord> records);

  FileSystem* const files_;
  const std::string folder_;
  JournalHeader header_;
  std::unique_ptr<WritableFile> file_;  // null: not begun
  uint32_t count_ = 0;                  // records of the file
  absl::Status failed_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_PUSH_JOURNAL_H_
