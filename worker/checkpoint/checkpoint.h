#ifndef LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_
#define LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// A push whose fate was unknown.
struct UnsettledPush {
  uint32_t segment = 0;
  float norm = 0;
  uint64_t weight = 0;
  Buffer payload;
  bool operator==(const UnsettledPush&) const = default;
};

// A part of a checkpoint that only the training loop can read, for example an optimizer's array.
struct NamedBlob {
  std::string name;
  Buffer bytes;
  bool operator==(const NamedBlob&) const = default;
};

// The state that only the worker has, at a moment between two inner steps. Everything else follows
// from the run's beginning and the merged updates. θ is not included: inner steps since the last
// signal are lost with the process.
struct Checkpoint {
  uint64_t run = 0;
  uint64_t layout_hash = 0;
  std::string name;  // of the worker
  uint32_t worker = 0;
  // The sync of `pushes`; if there are none, the next one.
  uint32_t round = 0;
  uint32_t fragment = 0;
  uint64_t step = 0;  // inner steps done

  // Totals for reports.
  uint64_t tokens = 0;
  double seconds_computing = 0;
  double seconds_syncing = 0;
  ByteCounts bytes;

  // The rank of a node that wrote this part; of one device the part is the whole.
  NodeRank node;
  // WorkerFolder::NextWrite: the parts of a node have it in common, and journals from it on say
  // what was sent since. 0: of a release without journals.
  uint64_t write = 0;

  std::vector<NamedBlob> blobs;  // from TrainingLoop::Save

  // The residual of the rank's segments (SegmentsOfRank), without the part that `pushes` took.
  std::vector<float> momentum;
  // Rounds that the residual accounts for, by segment, before `pushes`: see SyncPipeline::Push.
  std::vector<uint32_t> accounted;
  // Of all ranks, ordered by segment; the payloads of this rank's segments alone.
  std::vector<UnsettledPush> pushes;

  bool operator==(const Checkpoint&) const = default;
};

// The file format, little-endian. Each part after the header begins at a multiple of 8 bytes, with
// zeros between parts. Hashes are XXH3-64.
//
//   header, 152 bytes
//       0  u32 magic   u16 version                72  u64 × 4: bytes pushed, pulled, and the
//          u8 rank, u8 ranks (0: one device)          payloads' share of each
//       8  u64 run   u64 layout hash             104  u64 coefficients
//      24  u32 worker, round, fragment           112  u32 number of blobs   u32 bytes of the name
//      36  u32 number of pushes                  120  u64 write
//      40  u64 steps   u64 tokens
//      56  f64 seconds computing, syncing        128  u64 bytes after the header   u64 their hash
//                                                144  u64 hash of the 144 before
//   name
//   accounted  u32 a segment
//   pushes     of each: u32 segment   f32 norm   u64 weight   u64 bytes of its payload
//   blobs      of each: u64 its bytes   u32 bytes of its name   the name, then zeros up to a
//              multiple of 8
//   momentum   f32
//   the blobs' bytes, one after the other
//   payloads   in the order of the pushes
inline constexpr uint32_t kCheckpointMagic = 0x5043574c;  // "LWCP" read as bytes
inline constexpr uint16_t kCheckpointVersion = 3;
inline constexpr size_t kCheckpointHeaderBytes = 152;
inline constexpr size_t kCheckpointNameBytesMax = 128;
inline constexpr size_t kCheckpointBlobsMax = 64;
inline constexpr size_t kCheckpointBlobNameBytesMax = 64;
// Limit of a file's size, above any machine's memory.
inline constexpr uint64_t kCheckpointFileBytesMax = uint64_t{1} << 42;

// A file's bytes in pieces. The bytes of momentum, blobs and payloads belong to the checkpoint,
// which must outlive the pieces.
struct EncodedCheckpoint {
  std::vector<std::byte> front;
  std::vector<std::span<const std::byte>> pieces;  // `front` first
  uint64_t bytes = 0;                              // sum over the pieces
};
// InvalidArgument: a name that is too long, pushes out of order or of no segment, too many blobs,
// blobs with equal names or without a name. ResourceExhausted: more than kCheckpointFileBytesMax.
absl::StatusOr<EncodedCheckpoint> EncodeCheckpoint(const Checkpoint& checkpoint);

// The expected sizes; a file of another layout is of no use.
struct CheckpointShape {
  uint64_t layout_hash = 0;
  uint64_t coefficient_count = 0;
  uint32_t segment_count = 0;
};
CheckpointShape ShapeOf(const Layout& layout);

// The content of a file's header.
struct CheckpointHead {
  // Number of rounds, from the first on, whose sent parts are missing from the residual; 0: nothing
  // was ever sent.
  uint32_t accounted_rounds = 0;
  uint64_t file_bytes = 0;  // of the whole file
  uint64_t write = 0;       // Checkpoint::write
};
// Errors as DecodeCheckpoint.
absl::StatusOr<CheckpointHead> DecodeCheckpointHead(std::span<const std::byte> header);

// Blobs and payloads share `file`. FailedPrecondition: another version; the message says what to
// do. NotFound: another layout's. InvalidArgument: no checkpoint. DataLoss: a wrong hash, or values
// that no writer writes. The header's hash is checked before its fields are used, and allocations
// are bounded by `shape` and the file's size. Encoding a decoded checkpoint gives the same bytes.
absl::StatusOr<Checkpoint> DecodeCheckpoint(const Buffer& file, const CheckpointShape& shape);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_
