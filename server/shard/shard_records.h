#ifndef LONGWAVE_SERVER_SHARD_SHARD_RECORDS_H_
#define LONGWAVE_SERVER_SHARD_SHARD_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/wire/buffer.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"

namespace longwave {

// What a shard gives away to be kept, and gets back after a crash, as plain values. server/store
// writes them to a disk (log_record.h, snapshot_content.h).

// An accepted push, as it came: what the close of its round merges again after a crash.
struct PushRecord {
  FrameHeader header;  // kind kPush
  Buffer payload;
};

struct Contributor {
  uint32_t worker = 0;
  uint64_t weight = 0;
  double factor = 1;  // what clipping left of it, 0 … 1
  uint32_t crc = 0;   // of its push's payload

  bool operator==(const Contributor&) const = default;
};

// A closed round of a segment. Written before any worker sees the update.
struct MergedRecord {
  FrameHeader header;                     // kind kMerged
  std::vector<Contributor> contributors;  // header.contributions of them, by worker, ascending
  uint64_t residual_hash = 0;             // XXH3-64 of E after the close; 0: E is not kept
  Buffer payload;
};

struct MembershipRecord {
  Membership membership;
};

// A mark for people and tools, such as the begin of a round.
struct NoteRecord {
  uint32_t round = 0;
  std::string text;  // UTF-8
};

using LogRecord = std::variant<PushRecord, MergedRecord, MembershipRecord, NoteRecord>;

// A segment's last closed round.
struct ClosedSegment {
  struct Push {
    uint32_t worker = 0;
    uint32_t crc = 0;  // of its payload

    bool operator==(const Push&) const = default;
  };
  FrameHeader header;              // kind kMerged
  std::vector<Push> contributors;  // by worker, ascending; header.contributions of them
  Buffer payload;
};

// What a shard alone knows of a segment. Pushes to the open round are in the log.
struct SegmentSnapshot {
  uint32_t open_round = 0;
  std::vector<float> residual;          // E; empty where it is not kept
  std::optional<ClosedSegment> closed;  // round open_round − 1
  // By worker: the last round before open_round that a push of it was accepted to. The log that
  // tells of older pushes is dropped once the snapshot stands.
  std::map<uint32_t, uint32_t> newest;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_SHARD_RECORDS_H_
