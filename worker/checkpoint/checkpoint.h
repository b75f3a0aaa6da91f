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
  std::vector<UnsettledPush> pushes;  // in order of their segments

  bool operator==(const Checkpoint&) const = default;
};

// A file is a header, name, table of pushes, the arrays and the payloads, each part from a multiple
// of 8 bytes on; little-endian. The header has a hash of its own and one of all that follows it.
inline constexpr uint32_t kCheckpointMagic = 0x3143574c;  // "LWC1" read as bytes
inline constexpr uint16_t kCheckpointVersion = 1;
inline constexpr size_t kCheckpointHeaderBytes = 168;
inline constexpr size_t kCheckpointNameBytesMax = 128;

// The bytes of a file, in pieces: those of the arrays and payloads are the checkpoint's own, which
// outlives them.
struct EncodedCheckpoint {
  std::vector<std::byte> front;
  std::vector<std::span<const std::byte>> pieces;  // `front` first
  uint64_t bytes = 0;                              // of all pieces
};
// InvalidArgument: a name that is too long, pushes out of order.
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

// Payloads share `file`. InvalidArgument: magic or version; DataLoss: a hash, or whatever no
// writer writes; FailedPrecondition: another layout's. Nothing in a header is believed before its
// hash holds, and nothing is allocated beyond what `shape` has. Canonical: encoding what was
// decoded gives the same bytes.
absl::StatusOr<Checkpoint> DecodeCheckpoint(const Buffer& file, const CheckpointShape& shape);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_H_
