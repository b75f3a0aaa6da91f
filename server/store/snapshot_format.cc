#include "server/store/snapshot_format.h"

#include <xxhash.h>
#include <zstd.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/enum_name.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

namespace longwave {
namespace {

// Fast, and about 10 % smaller for floats. Higher levels take much longer for little gain.
constexpr int kZstdLevel = 1;

// Offsets in bytes.
enum Offset : size_t {
  kMagicAt = 0,
  kVersionAt = 4,
  kKindAt = 6,
  kCompressionAt = 7,
  kRunAt = 8,
  kLayoutAt = 16,
  kShardAt = 24,
  kFirstSegmentAt = 28,
  kSegmentCountAt = 32,
  kRoundAt = 36,
  kReplayFromAt = 40,
  kContentBytesAt = 48,
  kStoredBytesAt = 56,
  kContentHashAt = 64,
  kStoredHashAt = 72,
  kZeroAt = 80,
  kCrcAt = 84,
};
static_assert(kCrcAt + sizeof(uint32_t) == kSnapshotHeaderBytes);

absl::Status Loss(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("snapshot: ", what));
}

}  // namespace

std::string_view Name(SnapshotKind kind) {
  return EnumName(kind, {"state", "model", "start"}, SnapshotKind::kState);
}

std::array<std::byte, kSnapshotHeaderBytes> EncodeSnapshotHeader(const SnapshotHeader& header) {
  std::array<std::byte, kSnapshotHeaderBytes> bytes = {};
  std::byte* const to = bytes.data();
  StoreLe<uint32_t>(kSnapshotMagic, to + kMagicAt);
  StoreLe<uint16_t>(kSnapshotVersion, to + kVersionAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(header.key.kind), to + kKindAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(header.compression), to + kCompressionAt);
  StoreLe<uint64_t>(header.identity.run, to + kRunAt);
  StoreLe<uint64_t>(header.identity.layout_hash, to + kLayoutAt);
  StoreLe<uint32_t>(header.identity.shard, to + kShardAt);
  StoreLe<uint32_t>(header.key.first_segment, to + kFirstSegmentAt);
  StoreLe<uint32_t>(header.key.segment_count, to + kSegmentCountAt);
  StoreLe<uint32_t>(header.key.round, to + kRoundAt);
  StoreLe<uint64_t>(header.replay_from, to + kReplayFromAt);
  StoreLe<uint64_t>(header.content_bytes, to + kContentBytesAt);
  StoreLe<uint64_t>(header.stored_bytes, to + kStoredBytesAt);
  StoreLe<uint64_t>(header.content_hash, to + kContentHashAt);
  StoreLe<uint64_t>(header.stored_hash, to + kStoredHashAt);
  StoreLe<uint32_t>(Crc32c(std::span(bytes).first(kCrcAt)), to + kCrcAt);
  return bytes;
}

absl::StatusOr<SnapshotHeader> DecodeSnapshotHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kSnapshotHeaderBytes) {
    return Loss(
        absl::StrCat("header: got ", bytes.size(), " bytes, wanted ", kSnapshotHeaderBytes));
  }
  const std::byte* const from = bytes.data();
  if (const auto magic = LoadLe<uint32_t>(from + kMagicAt); magic != kSnapshotMagic) {
    return absl::InvalidArgumentError(
        absl::StrFormat("snapshot: magic: got %08x, wanted %08x", magic, kSnapshotMagic));
  }
  if (const auto version = LoadLe<uint16_t>(from + kVersionAt); version != kSnapshotVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot: version: got ", version, ", wanted ", kSnapshotVersion));
  }
  const auto crc = LoadLe<uint32_t>(from + kCrcAt);
  if (const uint32_t wanted = Crc32c(bytes.first(kCrcAt)); crc != wanted) {
    return Loss(absl::StrFormat("header CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  const auto kind = LoadLe<uint8_t>(from + kKindAt);
  if (kind < 1 || kind > 3) return Loss(absl::StrCat("kind: got ", kind, ", wanted 1 to 3"));
  const auto compression = LoadLe<uint8_t>(from + kCompressionAt);
  if (compression > 1) {
    return Loss(absl::StrCat("compression: got ", compression, ", wanted 0 or 1"));
  }
  if (LoadLe<uint32_t>(from + kZeroAt) != 0) return Loss("zero bytes that are not zero");
  SnapshotHeader header;
  header.key.kind = static_cast<SnapshotKind>(kind);
  header.compression = static_cast<Compression>(compression);
  header.identity.run = LoadLe<uint64_t>(from + kRunAt);
  header.identity.layout_hash = LoadLe<uint64_t>(from + kLayoutAt);
  header.identity.shard = LoadLe<uint32_t>(from + kShardAt);
  header.key.first_segment = LoadLe<uint32_t>(from + kFirstSegmentAt);
  header.key.segment_count = LoadLe<uint32_t>(from + kSegmentCountAt);
  header.key.round = LoadLe<uint32_t>(from + kRoundAt);
  header.replay_from = LoadLe<uint64_t>(from + kReplayFromAt);
  header.content_bytes = LoadLe<uint64_t>(from + kContentBytesAt);
  header.stored_bytes = LoadLe<uint64_t>(from + kStoredBytesAt);
  header.content_hash = LoadLe<uint64_t>(from + kContentHashAt);
  header.stored_hash = LoadLe<uint64_t>(from + kStoredHashAt);
  if (header.key.segment_count == 0 ||
      header.key.segment_count > std::numeric_limits<uint32_t>::max() - header.key.first_segment) {
    return Loss(absl::StrCat("segments: got ", header.key.segment_count, " from ",
                             header.key.first_segment));
  }
  if (header.content_bytes > kSnapshotContentBytesMax ||
      header.stored_bytes > kSnapshotContentBytesMax) {
    return Loss(absl::StrCat("content: got ", header.content_bytes, " bytes, stored as ",
                             header.stored_bytes, ", wanted at most ", kSnapshotContentBytesMax));
  }
  if (header.compression == Compression::kNone &&
      (header.content_bytes != header.stored_bytes || header.content_hash != header.stored_hash)) {
    return Loss("content that is not compressed and yet stored as something else");
  }
  return header;
}

absl::StatusOr<Buffer> PackSnapshotContent(Buffer content, Compression compression,
                                           SnapshotHeader& header) {
  if (content.size() > kSnapshotContentBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot: content: got ", content.size(),
                                                   " bytes, wanted at most ",
                                                   kSnapshotContentBytesMax));
  }
  header.content_bytes = content.size();
  header.content_hash = HashContent(content.bytes());
  if (compression == Compression::kZstd) {
    std::vector<std::byte> packed(ZSTD_compressBound(content.size()));
    const size_t bytes = ZSTD_compress(packed.data(), packed.size(), content.bytes().data(),
                                       content.size(), kZstdLevel);
    // Incompressible content is stored uncompressed.
    if (ZSTD_isError(bytes) == 0 && bytes < content.size()) {
      packed.resize(bytes);
      header.compression = Compression::kZstd;
      header.stored_bytes = bytes;
      header.stored_hash = HashContent(packed);
      return Buffer(std::move(packed));
    }
  }
  header.compression = Compression::kNone;
  header.stored_bytes = header.content_bytes;
  header.stored_hash = header.content_hash;
  return content;
}

absl::StatusOr<Buffer> UnpackSnapshotContent(const SnapshotHeader& header, Buffer stored,
                                             uint64_t content_bytes_max) {
  if (stored.size() != header.stored_bytes) {
    return Loss(absl::StrCat("content: got ", stored.size(), " bytes, its header says ",
                             header.stored_bytes));
  }
  if (header.content_bytes > content_bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat("snapshot: content: got ",
                                                     header.content_bytes,
                                                     " bytes, wanted at most ", content_bytes_max));
  }
  if (const uint64_t hash = HashContent(stored.bytes()); hash != header.stored_hash) {
    return Loss(absl::StrFormat("content: hash: its header says %016x, its bytes give %016x",
                                header.stored_hash, hash));
  }
  if (header.compression == Compression::kNone) return stored;
  const unsigned long long frame_bytes =
      ZSTD_getFrameContentSize(stored.bytes().data(), stored.size());
  if (frame_bytes != header.content_bytes) {
    return Loss("content: zstd names another size than the header");
  }
  std::vector<std::byte> content(header.content_bytes);
  const size_t bytes =
      ZSTD_decompress(content.data(), content.size(), stored.bytes().data(), stored.size());
  if (ZSTD_isError(bytes) != 0) {
    return Loss(absl::StrCat("content: zstd: ", ZSTD_getErrorName(bytes)));
  }
  if (bytes != content.size() || HashContent(content) != header.content_hash) {
    return Loss("content: what is decompressed has another size or hash than the header says");
  }
  return Buffer(std::move(content));
}

ContentHash::ContentHash() : state_(XXH3_createState()) {
  LONGWAVE_CHECK(state_ != nullptr);
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
ContentHash::~ContentHash() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }
void ContentHash::Add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}
uint64_t ContentHash::Digest() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

uint64_t HashContent(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace longwave
