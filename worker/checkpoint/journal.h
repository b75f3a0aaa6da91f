#ifndef LONGWAVE_WORKER_CHECKPOINT_JOURNAL_H_
#define LONGWAVE_WORKER_CHECKPOINT_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"

namespace longwave {

// Events of a segment's residual since the checkpoint's copy, in order. A push is in the
// journal before it leaves, so that a process that is killed later knows what it may have sent.
enum class JournalKind : uint8_t {
  kPush = 1,      // the payload has left the residual, and may have been sent
  kAccepted = 2,  // the segment's last push counts
  kReturned = 3,  // it was late, and is in the residual again
  kDropped = 4,   // its fate is known to nobody, so that the residual was dropped
};
constexpr JournalKind LastOf(JournalKind) { return JournalKind::kDropped; }

struct JournalRecord {
  JournalKind kind = JournalKind::kPush;
  uint32_t segment = 0;
  uint32_t round = 0;
  // Of a push alone.
  uint32_t fragment = 0;
  uint32_t accounted = 0;  // SyncPipeline::Push
  float norm = 0;
  uint64_t weight = 0;
  uint64_t step = 0;    // inner steps done
  uint64_t tokens = 0;  // in all
  Buffer payload = {};
  bool operator==(const JournalRecord&) const = default;
};

// The first bytes of a file.
struct JournalHeader {
  uint64_t run = 0;
  uint64_t layout_hash = 0;
  // Of the checkpoint at whose copy the file began, or of the process that began it (see
  // WorkerFolder::journal): files are read in the order of this number.
  uint64_t write = 0;
  uint32_t worker = 0;
  bool operator==(const JournalHeader&) const = default;
};

// The file format, little-endian. Hashes are XXH3-64.
//
//   header, 48 bytes
//       0  u32 magic   u16 version   u16 zero        24  u64 write
//       8  u64 run                                   32  u32 worker   u32 zero
//      16  u64 layout hash                           40  u64 hash of the 40 before
//   records, each at a multiple of 8 bytes: a head of 72 bytes, the payload, zeros up to the next
//   multiple of 8
//       0  u32 magic   u8 kind   u8 × 3 zero         36  f32 norm
//       8  u32 number of the record, from 0          40  u64 weight   u64 step   u64 tokens
//      12  u32 durable: records of the file that     64  u64 hash of the 64 before and the payload
//          were on the disk before this one was
//          written
//      16  u32 segment, round, fragment,
//          accounted, bytes of the payload
//
// A torn tail differs from damage by `durable`: a record that cannot be read, and that a later one
// says was on the disk, has been lost. The last record was whole once if the file has all its bytes
// and no part as large as a sector is zeros.
inline constexpr uint32_t kJournalMagic = 0x4c4a574c;        // "LWJL" read as bytes
inline constexpr uint32_t kJournalRecordMagic = 0x524a574c;  // "LWJR"
inline constexpr uint16_t kJournalVersion = 1;
inline constexpr size_t kJournalHeaderBytes = 48;
inline constexpr size_t kJournalHeadBytes = 72;

std::vector<std::byte> EncodeJournalHeader(const JournalHeader& header);
// Head, payload and padding; the payload's bytes belong to the record, which outlives the pieces.
struct EncodedRecord {
  std::vector<std::byte> head;
  std::vector<std::span<const std::byte>> pieces;  // `head` first
};
EncodedRecord EncodeJournalRecord(const JournalRecord& record, uint32_t number, uint32_t durable);

struct JournalScan {
  JournalHeader header;
  std::vector<JournalRecord> records;  // payloads share the file's bytes
  uint64_t end = 0;                    // after the last whole record; 0: not even a header
  std::string fault;                   // of the bytes after `end`; empty: there are none
  bool fault_was_durable = false;      // what is there instead was on the disk once
};
// InvalidArgument: the file begins as no journal does. FailedPrecondition: another version's; the
// message says what to do. A file that ends within its header has no records and a fault.
absl::StatusOr<JournalScan> ScanJournal(const Buffer& file);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_JOURNAL_H_
