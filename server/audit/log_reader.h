#ifndef LONGWAVE_SERVER_AUDIT_LOG_READER_H_
#define LONGWAVE_SERVER_AUDIT_LOG_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file_system.h"
#include "server/store/log_record.h"
#include "server/store/store_identity.h"

namespace longwave {

// A shard's delta log (proto/LOG.md) as it lies in its folder, for whoever wants to look without
// being the shard: nothing is locked, cut, removed or counted. A shard that runs may write on, or
// remove old files, meanwhile.
class LogReader {
 public:
  // NotFound: the folder has no log file. DataLoss: a file between others is gone, or a header
  // cannot be read. `files` outlives the reader.
  static absl::StatusOr<LogReader> Open(FileSystem* files, std::string folder);

  const StoreIdentity& identity() const { return identity_; }  // of every file
  // Number of the oldest record; 1: nothing has been dropped.
  uint64_t first_sequence() const { return first_sequence_; }

  // Calls `visit` with every record, in order, one file in memory at a time and as long as a record
  // of it is kept. A tail that was never synced is not part of the log; tail_bytes() says how much
  // of it there was. DataLoss: what must be there cannot be read; names file and offset. An error
  // of `visit` ends it and is returned.
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
  std::vector<uint32_t> numbers_;  // of the files, without a gap
  StoreIdentity identity_;
  uint64_t first_sequence_ = 0;
  uint64_t tail_bytes_ = 0;
  uint64_t record_count_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_AUDIT_LOG_READER_H_
