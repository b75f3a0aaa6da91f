#ifndef LONGWAVE_SERVER_AUDIT_LOG_READER_H_
#define LONGWAVE_SERVER_AUDIT_LOG_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/shard_records.h"
#include "server/store/file_system.h"
#include "server/store/store_identity.h"

namespace longwave {

// Reads a shard's delta log (proto/LOG.md) from its folder. The reader locks, cuts, removes and
// counts nothing. A running shard may meanwhile append to the log or remove old files.
class LogReader {
 public:
  // NotFound: the folder has no log file. DataLoss: a file between others is missing, or a header
  // is unreadable. `files` outlives the reader.
  static absl::StatusOr<LogReader> Open(FileSystem* files, std::string folder);

  const StoreIdentity& identity() const { return identity_; }  // of every file
  // Number of the oldest record; 1 if none has been dropped.
  uint64_t first_sequence() const { return first_sequence_; }

  // Calls `visit` with every record in order. One file at a time is in memory, and stays there as
  // long as a record of it is kept. A tail that was never synced does not belong to the log;
  // tail_bytes() states its length. DataLoss names file and offset of an unreadable record before
  // the tail. An error of `visit` ends Read and is returned.
  using Visit = absl::FunctionRef<absl::Status(uint64_t sequence, const LogRecord&)>;
  absl::Status Read(Visit visit);

  // Of the last Read.
  uint64_t tail_bytes() const { return tail_bytes_; }
  uint64_t record_count() const { return record_count_; }

 private:
  LogReader(FileSystem* files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  absl::Status ReadFile(uint32_t number, bool is_last, uint64_t* next_sequence, Visit visit);
  std::string PathOf(uint32_t number) const;

  FileSystem* files_;
  std::string folder_;
  std::vector<uint32_t> numbers_;  // without a gap
  StoreIdentity identity_;
  uint64_t first_sequence_ = 0;
  uint64_t tail_bytes_ = 0;
  uint64_t record_count_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_AUDIT_LOG_READER_H_
