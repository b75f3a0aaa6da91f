#ifndef LONGWAVE_SERVER_STORE_SNAPSHOT_FORMAT_H_
#define LONGWAVE_SERVER_STORE_SNAPSHOT_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"
#include "server/store/store_identity.h"

namespace longwave {

// A snapshot file is a header and its content, compressed or not. proto/LOG.md is the public
// definition.
inline constexpr uint32_t kSnapshotMagic = 0x3153574c;  // "LWS1" read as bytes
inline constexpr uint16_t kSnapshotVersion = 1;
inline constexpr size_t kSnapshotHeaderBytes = 88;
// Limit of a file's content, compressed or not: 32 of the largest segments in fp32.
inline constexpr uint64_t kSnapshotContentBytesMax = uint64_t{1} << 31;

enum class SnapshotKind : uint8_t {
  kState = 1,  // the shard's own state: E, open rounds, last closed updates
  kModel = 2,  // θ
  kStart = 3,  // as kModel, of round 0, if a member brought the run's first weights
};
std::string_view Name(SnapshotKind kind);  // "state", "model", "start"

enum class Compression : uint8_t { kNone = 0, kZstd = 1 };

// The identity of a snapshot.
struct SnapshotKey {
  SnapshotKind kind = SnapshotKind::kState;
  uint32_t first_segment = 0;
  uint32_t segment_count = 0;
  // The snapshot contains the rounds before this one.
  uint32_t round = 0;

  bool operator==(const SnapshotKey&) const = default;
};

struct SnapshotHeader {
  StoreIdentity identity;
  SnapshotKey key;
  // The log's records from this sequence number on lead from the snapshot to the present.
  uint64_t replay_from = 0;
  Compression compression = Compression::kNone;
  uint64_t content_bytes = 0;
  uint64_t stored_bytes = 0;  // of the content as stored in the file
  uint64_t content_hash = 0;  // XXH3-64
  uint64_t stored_hash = 0;

  bool operator==(const SnapshotHeader&) const = default;
};

std::array<std::byte, kSnapshotHeaderBytes> EncodeSnapshotHeader(const SnapshotHeader& header);
// InvalidArgument (magic, version). DataLoss (length, CRC, or values that no writer writes: kind,
// compression, an empty or overflowing segment range, sizes above the limit or inconsistent ones).
absl::StatusOr<SnapshotHeader> DecodeSnapshotHeader(std::span<const std::byte> bytes);

// Returns the content as stored, and sets the header's four fields about it. InvalidArgument: too
// large.
absl::StatusOr<Buffer> PackSnapshotContent(Buffer content, Compression compression,
                                           SnapshotHeader& header);

// The content of the file's bytes after its header. The hash is checked before decompression, which
// yields at most header.content_bytes. DataLoss.
absl::StatusOr<Buffer> UnpackSnapshotContent(const SnapshotHeader& header, Buffer stored);

// XXH3-64 of bytes in parts.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;
  void Add(std::span<const std::byte> bytes);
  uint64_t Digest() const;

 private:
  void* state_;
};
uint64_t HashContent(std::span<const std::byte> bytes);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SNAPSHOT_FORMAT_H_
