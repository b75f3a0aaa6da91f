#ifndef LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_
#define LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"

namespace longwave {

// A push of which nobody knew yet what would become of it.
struct UnsettledPush {
  uint32_t segment = 0;
  float norm = 0;
  uint64_t weight = 0;
  Buffer payload;
  // Payloads are compared byte by byte.
  bool operator==(const UnsettledPush& other) const;
};

// A part of a checkpoint that only the loop that trains can read: an array of its optimizer, say.
struct NamedBlob {
  std::string name;
  Buffer bytes;
  // Their bytes are compared.
  bool operator==(const NamedBlob& other) const;
};

// What a worker alone has, at a moment between two inner steps: everything else is a function of
// the run's beginning and the merged updates. θ is not in it: inner steps that no signal told of
// are lost with the process.
struct Checkpoint {
  uint64_t run = 0;
  uint64_t layout_hash = 0;
  std::string name;  // the worker's
  uint32_t worker = 0;
  // Of the sync that `pushes` are of; without any, of the one that comes next.
  uint32_t round = 0;
  uint32_t fragment = 0;
  uint64_t step = 0;  // inner steps done

  // So far, for reports.
  uint64_t tokens = 0;
  double seconds_computing = 0;
  double seconds_syncing = 0;
  ByteCounts bytes;

  std::vector<NamedBlob> blobs;  // as the loop saved them: see TrainingLoop::Save

  // The residual, [coefficient_count], without what `pushes` took from it.
  std::vector<float> momentum;
  // Of it, by segment, before `pushes`: see SyncPipeline::Push.
  std::vector<uint32_t> accounted;
  std::vector<UnsettledPush> pushes;  // in order of their segments

  bool operator==(const Checkpoint&) const = default;
};

// A file, little-endian. Each part after the header begins at a multiple of 8 bytes; what lies
// between two parts is zero. Hashes are XXH3-64.
//
//   header, 152 bytes
//       0  u32 magic   u16 version   u16 zero     72  u64 × 4: bytes pushed, pulled, and the
//       8  u64 run   u64 layout hash                   payloads' share of each
//      24  u32 worker, round, fragment           104  u64 coefficients
//      36  u32 number of pushes                  112  u32 number of blobs   u32 bytes of the name
//      40  u64 steps   u64 tokens                120  u64 zero
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
// Of a whole file: more than any machine's memory has.
inline constexpr uint64_t kCheckpointFileBytesMax = uint64_t{1} << 42;

// The bytes of a file, in pieces: those of the momentum, blobs and payloads are the checkpoint's
// own, which outlives them.
struct EncodedCheckpoint {
  std::vector<std::byte> front;
  std::vector<std::span<const std::byte>> pieces;  // `front` first
  uint64_t bytes = 0;                              // of all pieces
};
// InvalidArgument: a name that is too long, pushes out of order or of no segment, too many blobs,
// two of one name or one without. ResourceExhausted: more than kCheckpointFileBytesMax.
absl::StatusOr<EncodedCheckpoint> EncodeCheckpoint(const Checkpoint& checkpoint);

// What a file must fit; one that tells of another layout is none of ours.
struct CheckpointShape {
  uint64_t layout_hash = 0;
  uint64_t coefficient_count = 0;
  uint32_t segment_count = 0;
};
CheckpointShape ShapeOf(const Layout& layout);

// What a file's header alone tells.
struct CheckpointHead {
  // Rounds, from the first, of which the residual has nothing that was sent; 0: nothing ever was.
  uint32_t accounted_rounds = 0;
  uint64_t file_bytes = 0;  // of the whole file
};
// Errors as DecodeCheckpoint.
absl::StatusOr<CheckpointHead> DecodeCheckpointHead(std::span<const std::byte> header);

// Blobs and payloads share `file`. FailedPrecondition: of another version, and what is to be done
// then. NotFound: another layout's. InvalidArgument: no checkpoint at all. DataLoss: a hash, or
// whatever no writer writes. Nothing in a header is believed before its hash holds, and nothing is
// allocated beyond what `shape` and the file's own bytes have. Canonical: encoding what was decoded
// gives the same bytes.
absl::StatusOr<Checkpoint> DecodeCheckpoint(const Buffer& file, const CheckpointShape& shape);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_
