#ifndef LONGWAVE_SERVER_SHARD_SHARD_RECORDS_H_
#define LONGWAVE_SERVER_SHARD_SHARD_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/control/control.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// The durable state of a shard as plain values, written before and read back after a crash.
// server/store writes them to a disk (log_record.h, snapshot_content.h).

// An accepted push. After a crash the close of its round merges it again.
struct PushRecord {
  PushFrame header;
  Buffer payload;
};

struct Contributor {
  uint32_t worker = 0;
  uint64_t weight = 0;
  double factor = 1;  // clipping factor, 0 … 1
  uint32_t crc = 0;   // of the push's payload

  bool operator==(const Contributor&) const = default;
};

// A closed round of a segment, written before any worker sees the update.
struct MergedRecord {
  MergedFrame header;
  std::vector<Contributor> contributors;  // header.contributions of them, by worker, ascending
  uint64_t residual_hash = 0;             // XXH3-64 of E after the close; 0: E is not kept
  Buffer payload;
};

struct MembershipRecord {
  Membership membership;
};

// A mark for people and tools, such as the start of a round.
struct NoteRecord {
  uint32_t round = 0;
  std::string text;  // UTF-8
};

// A member's replica has replaced a segment's state: the log goes on with `round`, with an E of
// zeros and without the pushes to the round that was open.
struct RestoredRecord {
  uint32_t segment = 0;
  uint32_t round = 0;
  uint32_t worker = 0;
};

using LogRecord =
    std::variant<PushRecord, MergedRecord, MembershipRecord, NoteRecord, RestoredRecord>;

// A segment's last closed round.
struct ClosedSegment {
  struct Push {
    uint32_t worker = 0;
    uint32_t crc = 0;  // of the push's payload

    bool operator==(const Push&) const = default;
  };
  MergedFrame header;
  std::vector<Push> contributors;  // by worker, ascending; header.contributions of them
  Buffer payload;
};

// A shard's state of a segment. Pushes to the open round are in the log instead.
struct SegmentSnapshot {
  uint32_t open_round = 0;
  std::vector<float> residual;          // E; empty where it is not kept
  std::optional<ClosedSegment> closed;  // round open_round − 1
  // The last round before open_round with an accepted push, by worker. The log's records of older
  // pushes are dropped once the snapshot is written.
  std::map<uint32_t, uint32_t> newest;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_SHARD_RECORDS_H_
