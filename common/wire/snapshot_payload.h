#ifndef LONGWAVE_COMMON_WIRE_SNAPSHOT_PAYLOAD_H_
#define LONGWAVE_COMMON_WIRE_SNAPSHOT_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"

namespace longwave {

// The payload of a kSnapshot frame: a segment's state before a round, fp32, in the order of
// SegmentElements (common/layout/segment_elements.h). Array 0 is θ; with update nesterov array 1
// is the velocity. proto/WIRE.md, section 5, has the bytes:
//
//   u32 magic   u32 arrays   u64 elements of each   u64 XXH3-64 of the raw bytes   one zstd frame
inline constexpr uint32_t kSnapshotPayloadMagic = 0x3150574c;  // "LWP1" read as bytes
inline constexpr size_t kSnapshotPayloadHeadBytes = 24;
inline constexpr uint32_t kSnapshotArraysMax = 2;

// arrays: 1 to kSnapshotArraysMax, of equal length. The result exceeds a frame's limit
// (kPayloadBytesMax) only if segments have more than some 3700 full tiles (half of that with two
// arrays); sealing such a frame fails.
Buffer EncodeSnapshotPayload(std::span<const std::span<const float>> arrays);

// Returns `array_count` arrays of `elements` each. Errors: InvalidArgument (another magic, number
// or length), DataLoss (the bytes after the head are not one zstd frame of just these arrays).
// Checks both heads before reserving memory, and reserves at most array_count · elements floats.
absl::StatusOr<std::vector<std::vector<float>>> DecodeSnapshotPayload(
    std::span<const std::byte> payload, uint32_t array_count, uint64_t elements);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_SNAPSHOT_PAYLOAD_H_
