#ifndef LONGWAVE_SERVER_STORE_DELTA_LOG_H_
#define LONGWAVE_SERVER_STORE_DELTA_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/catalog.h"
#include "server/store/file_system.h"
#include "server/store/log_format.h"
#include "server/store/log_record.h"
#include "server/store/store_identity.h"

namespace longwave {

inline constexpr uint64_t kLogFileBytesMin = 1024;
inline constexpr uint64_t kLogFileBytesMax = uint64_t{1} << 30;

struct DeltaLogOptions {
  // Limit of a file's size, unless a single record is larger. kLogFileBytesMin … kLogFileBytesMax.
  // A start reads every file into memory once, one at a time.
  uint64_t file_bytes_max = uint64_t{64} << 20;
  // Salt of new files; see LogFileHeader. Random where workers are not trusted.
  uint32_t salt = 0;
};

// The result of opening a log.
struct LogRecovery {
  uint64_t first_sequence = 0;  // of the oldest record
  uint64_t next_sequence = 0;   // of the next record
  uint64_t cut_bytes = 0;       // of a torn tail
  std::string cut;              // a sentence with file, offset and reason; empty if nothing was cut
  // The newest membership record and its sequence number; epoch 0: there is none.
  Membership membership;
  uint64_t membership_sequence = 0;
};

// A shard's log of accepted pushes, merges and memberships: records with ascending sequence numbers
// (from 1) in append-only files FOLDER/00000001.lwlog, …. The class is not thread-safe.
//
//   open      Reads and checks every record. A partial record at the end of the last file was never
//             synced, and is cut off with the bytes after it. A partial record elsewhere, or one
//             that a later record proves to have been synced, is DataLoss with file and offset.
//   append    Takes a record into memory and returns its number. Sync writes all of them with one
//             write and one fdatasync a file (group commit). Only then may the shard tell anyone of
//             them.
//   failed    After the first Append or Sync that fails, the log refuses more with the same error
//             until it is opened again. Opening finds each record in question either whole or
//             absent. Reading and Drop still work.
//
// The catalog lists the files that must exist, so a lost file is noticed.
class DeltaLog {
 public:
  // InvalidArgument (options), FailedPrecondition (files of another run, shard or layout),
  // DataLoss, and errors of the file system. `files` and `catalog` outlive the log.
  static absl::StatusOr<std::unique_ptr<DeltaLog>> Open(FileSystem* files, std::string folder,
                                                        const StoreIdentity& identity,
                                                        const DeltaLogOptions& options,
                                                        Catalog* catalog);

  const LogRecovery& recovery() const { return recovery_; }

  // Returns the record's sequence number. The payload is shared, not copied, and must not change.
  // InvalidArgument: EncodeLogBody refuses the record, and the log stays usable.
  absl::StatusOr<uint64_t> Append(const LogRecord& record);

  // Makes all appended records durable. ResourceExhausted: the disk is full; the message names the
  // file and the bytes wanted and free.
  absl::Status Sync();

  // Removes the files with only records before `sequence`, but never the last file.
  absl::Status Drop(uint64_t sequence);
  bool CanDrop(uint64_t sequence) const;  // whether Drop would remove a file

  // Calls `visit` with every durable record from `from` on, in order. A payload is a view of its
  // file's bytes and keeps all of them in memory. DataLoss: the disk has changed since Open. An
  // error of `visit` ends Replay and is returned.
  using Visit = absl::FunctionRef<absl::Status(uint64_t sequence, const LogRecord&)>;
  absl::Status Replay(uint64_t from, Visit visit) const;

  // The durable merged update of a segment's round, for workers that catch up. NotFound: the log
  // lacks it, or it was compacted.
  absl::StatusOr<MergedRecord> ReadMerged(uint32_t segment, uint32_t round) const;
  // Payload bytes of the rounds first … last of a segment. NotFound names the first missing round.
  absl::StatusOr<uint64_t> MergedPayloadBytes(uint32_t segment, uint32_t first_round,
                                              uint32_t last_round) const;

  // For an update that ReadMerged finds damaged: from here on the log lacks it.
  void ForgetMerged(uint32_t segment, uint32_t round) { merged_[segment].erase(round); }

  // The sequence number of that record. NotFound: as ReadMerged.
  absl::StatusOr<uint64_t> MergedSequence(uint32_t segment, uint32_t round) const;

  uint64_t next_sequence() const { return next_sequence_; }
  // Records below this are durable.
  uint64_t durable_sequence() const { return durable_sequence_; }
  uint64_t file_bytes() const;  // of all files
  const absl::Status& failure() const { return failure_; }

 private:
  struct File {
    LogFileHeader header;
    uint64_t bytes = 0;  // header and durable records
  };
  struct Place {  // of a merged record
    uint32_t file = 0;
    uint32_t record_bytes = 0;  // head, body, padding
    uint32_t payload_bytes = 0;
    uint64_t offset = 0;
    uint64_t sequence = 0;
  };
  struct MergedName {
    uint32_t segment = 0;
    uint32_t round = 0;
    uint32_t payload_bytes = 0;
  };
  struct Pending {
    LogRecordHead head;
    LogBody body;
    std::optional<MergedName> merged;
    uint64_t bytes() const;
  };

  DeltaLog(FileSystem* files, std::string folder, const StoreIdentity& identity,
           const DeltaLogOptions& options, Catalog* catalog)
      : files_(files),
        folder_(std::move(folder)),
        identity_(identity),
        options_(options),
        catalog_(catalog) {}

  absl::Status Recover();
  // The numbers of the files to read, all known to the catalog. Deletes files that the catalog has
  // dropped.
  absl::StatusOr<std::vector<uint32_t>> FilesToRead();
  absl::Status RecoverFile(uint32_t number, bool is_last);
  absl::Status StartFile(uint32_t number);
  absl::Status WritePending();
  absl::Status WriteGroup(std::span<Pending> group);
  void Index(const MergedName& name, const Place& place);
  absl::StatusOr<Place> FindMerged(uint32_t segment, uint32_t round) const;
  absl::StatusOr<MergedRecord> ReadMergedAt(const Place& place) const;
  static std::optional<MergedName> MergedNameOf(const LogRecord& record);
  absl::StatusOr<std::shared_ptr<const std::vector<std::byte>>> Read(const File& file,
                                                                     uint64_t offset,
                                                                     uint64_t bytes) const;
  std::string PathOf(uint32_t number) const;

  FileSystem* const files_;
  const std::string folder_;
  const StoreIdentity identity_;
  const DeltaLogOptions options_;
  Catalog* const catalog_;

  LogRecovery recovery_;
  std::map<uint32_t, File> by_number_;
  std::unique_ptr<WritableFile> writer_;                  // of the last file
  std::map<uint32_t, std::map<uint32_t, Place>> merged_;  // by segment, by round
  std::vector<Pending> pending_;
  uint64_t next_sequence_ = 1;
  uint64_t durable_sequence_ = 1;
  absl::Status failure_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_DELTA_LOG_H_
