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

// What a worker alone has, as it was just before it posted its part of a sync: everything else is a
// function of the run's seed and the merged updates. θ is not in it: inner steps that no signal
// told of are lost with the process.
struct Checkpoint {
  uint64_t run = 0;
  uint64_t layout_hash = 0;
  std::string name;  // the worker's
  uint32_t worker = 0;
  uint32_t round = 0;     // of the sync
  uint32_t fragment = 0;  // likewise
  uint64_t step = 0;      // inner steps done

  // So far, for reports.
  uint64_t tokens = 0;
  double seconds_computing = 0;
  double seconds_syncing = 0;
  ByteCounts bytes;

  // The inner optimizer, [parameter_count] each.
  std::vector<float> m;
  std::vector<float> v;
  double beta1_power = 1;
  double beta2_power = 1;

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
//   header, 168 bytes
//       0  u32 magic   u16 version   u16 zero     72  u64 × 4: bytes pushed, pulled, and the
//       8  u64 run   u64 layout hash                   payloads' share of each
//      24  u32 worker, round, fragment           104  f64 β₁ᵗ, β₂ᵗ
//      36  u32 number of pushes                  120  u64 parameters   u64 coefficients
//      40  u64 steps   u64 tokens                136  u32 bytes of the name   u32 zero
//      56  f64 seconds computing, syncing        144  u64 bytes after the header   u64 their hash
//                                                160  u64 hash of the 160 bytes before
//   name
//   accounted  u32 a segment
//   pushes     of each: u32 segment   f32 norm   u64 weight   u64 bytes of its payload
//   arrays     f32: m, v, momentum
//   payloads   in the order of the pushes
inline constexpr uint32_t kCheckpointMagic = 0x3143574c;  // "LWC1" read as bytes
inline constexpr uint16_t kCheckpointVersion = 2;
inline constexpr size_t kCheckpointHeaderBytes = 168;
inline constexpr size_t kCheckpointNameBytesMax = 128;

// The bytes of a file, in pieces: those of the arrays and payloads are the checkpoint's own, which
// outlives them.
struct EncodedCheckpoint {
  std::vector<std::byte> front;
  std::vector<std::span<const std::byte>> pieces;  // `front` first
  uint64_t bytes = 0;                              // of all pieces
};
// InvalidArgument: a name that is too long, pushes out of order or of no segment.
absl::StatusOr<EncodedCheckpoint> EncodeCheckpoint(const Checkpoint& checkpoint);

// What a file's arrays must fit; a file that tells of others is none of ours.
struct CheckpointShape {
  uint64_t layout_hash = 0;
  uint64_t parameter_count = 0;
  uint64_t coefficient_count = 0;
  uint32_t segment_count = 0;
};
CheckpointShape ShapeOf(const Layout& layout);

// No file of that shape is larger.
uint64_t CheckpointBytesMax(const CheckpointShape& shape);

// Of a file's header alone.
absl::StatusOr<uint32_t> DecodeCheckpointRound(std::span<const std::byte> header);

// Payloads share `file`. InvalidArgument: magic or version; DataLoss: a hash, or whatever no
// writer writes; FailedPrecondition: another layout's. Nothing in a header is believed before its
// hash holds, and nothing is allocated beyond what `shape` has. Canonical: encoding what was
// decoded gives the same bytes.
absl::StatusOr<Checkpoint> DecodeCheckpoint(const Buffer& file, const CheckpointShape& shape);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_
