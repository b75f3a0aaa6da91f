#include "server/store/snapshot_format.h"

#include <xxhash.h>
#include <zstd.h>

#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/enum_name.h"
#include "common/base/errors.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/field_codec.h"

namespace longwave {
namespace {

// Fast, and about 10 % smaller for floats. Higher levels take much longer for little gain.
constexpr int kZstdLevel = 1;

// Between the version and the zeros.
void SnapshotHeaderFields(auto& header, auto& code) {
  code(header.key.kind, header.compression, header.identity, header.key.first_segment,
       header.key.segment_count, header.key.round, header.replay_from, header.content_bytes,
       header.stored_bytes, header.content_hash, header.stored_hash);
}

}  // namespace

std::string_view Name(SnapshotKind kind) {
  return EnumName(kind, {"state", "model", "start"}, SnapshotKind::kState);
}

std::array<std::byte, kSnapshotHeaderBytes> EncodeSnapshotHeader(const SnapshotHeader& header) {
  FieldWriter out;
  out(kSnapshotMagic, kSnapshotVersion);
  SnapshotHeaderFields(header, out);
  out(uint32_t{0});
  out(Crc32c(out.bytes()));
  return out.TakeArray<kSnapshotHeaderBytes>();
}

absl::StatusOr<SnapshotHeader> DecodeSnapshotHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kSnapshotHeaderBytes) {
    return DataLoss("snapshot: header: got ", bytes.size(), " bytes, wanted ",
                    kSnapshotHeaderBytes);
  }
  FieldReader in(bytes);
  if (const auto magic = in.Get<uint32_t>(); magic != kSnapshotMagic) {
    return InvalidArgument(
        absl::StrFormat("snapshot: magic: got %08x, wanted %08x", magic, kSnapshotMagic));
  }
  if (const auto version = in.Get<uint16_t>(); version != kSnapshotVersion)
    return InvalidArgument("snapshot: version: got ", version, ", wanted ", kSnapshotVersion);
  const size_t summed = bytes.size() - sizeof(uint32_t);
  const auto crc = LoadLe<uint32_t>(bytes.data() + summed);
  if (const uint32_t wanted = Crc32c(bytes.first(summed)); crc != wanted) {
    return DataLoss(
        absl::StrFormat("snapshot: header CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  SnapshotHeader header;
  SnapshotHeaderFields(header, in);
  if (const int kind = static_cast<int>(header.key.kind); kind < 1 || kind > 3)
    return DataLoss("snapshot: kind: got ", kind, ", wanted 1 to 3");
  if (const int compression = static_cast<int>(header.compression); compression > 1)
    return DataLoss("snapshot: compression: got ", compression, ", wanted 0 or 1");
  if (in.Get<uint32_t>() != 0) return DataLoss("snapshot: zero bytes that are not zero");
  if (header.key.segment_count == 0 ||
      header.key.segment_count > std::numeric_limits<uint32_t>::max() - header.key.first_segment) {
    return DataLoss("snapshot: segments: got ", header.key.segment_count, " from ",
                    header.key.first_segment);
  }
  if (header.content_bytes > kSnapshotContentBytesMax ||
      header.stored_bytes > kSnapshotContentBytesMax) {
    return DataLoss("snapshot: content: got ", header.content_bytes, " bytes, stored as ",
                    header.stored_bytes, ", wanted at most ", kSnapshotContentBytesMax);
  }
  if (header.compression == Compression::kNone &&
      (header.content_bytes != header.stored_bytes || header.content_hash != header.stored_hash)) {
    return DataLoss("snapshot: content that is not compressed and yet stored as something else");
  }
  return header;
}

absl::StatusOr<Buffer> PackSnapshotContent(Buffer content, Compression compression,
                                           SnapshotHeader& header) {
  if (content.size() > kSnapshotContentBytesMax) {
    return InvalidArgument("snapshot: content: got ", content.size(), " bytes, wanted at most ",
                           kSnapshotContentBytesMax);
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

absl::StatusOr<Buffer> UnpackSnapshotContent(const SnapshotHeader& header, Buffer stored) {
  if (stored.size() != header.stored_bytes) {
    return DataLoss("snapshot: content: got ", stored.size(), " bytes, its header says ",
                    header.stored_bytes);
  }
  if (const uint64_t hash = HashContent(stored.bytes()); hash != header.stored_hash) {
    return DataLoss(
        absl::StrFormat("snapshot: content: hash: its header says %016x, its bytes give %016x",
                        header.stored_hash, hash));
  }
  if (header.compression == Compression::kNone) return stored;
  const unsigned long long frame_bytes =
      ZSTD_getFrameContentSize(stored.bytes().data(), stored.size());
  if (frame_bytes != header.content_bytes) {
    return DataLoss("snapshot: content: zstd names another size than the header");
  }
  std::vector<std::byte> content(header.content_bytes);
  const size_t bytes =
      ZSTD_decompress(content.data(), content.size(), stored.bytes().data(), stored.size());
  if (ZSTD_isError(bytes) != 0) {
    return DataLoss("snapshot: content: zstd: ", ZSTD_getErrorName(bytes));
  }
  if (bytes != content.size() || HashContent(content) != header.content_hash) {
    return DataLoss(
        "snapshot: content: what is decompressed has another size or hash than the header says");
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
