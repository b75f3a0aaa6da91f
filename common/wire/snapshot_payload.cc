#include "common/wire/snapshot_payload.h"

#include <xxhash.h>
#include <zstd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/wire/bytes.h"

namespace longwave {
namespace {

// Fast, and saves some 10 % of floats; higher levels take much longer and save little more.
constexpr int kZstdLevel = 1;

// Offsets in bytes from the start.
enum HeadOffset : size_t { kMagicAt = 0, kArraysAt = 4, kElementsAt = 8, kHashAt = 16 };
static_assert(kHashAt + sizeof(uint64_t) == kSnapshotPayloadHeadBytes);

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

absl::Status Wrong(const auto&... what) { return InvalidArgument("snapshot payload: ", what...); }
absl::Status Loss(const auto&... what) { return DataLoss("snapshot payload: ", what...); }

}  // namespace

Buffer EncodeSnapshotPayload(std::span<const std::span<const float>> arrays) {
  LONGWAVE_CHECK(!arrays.empty() && arrays.size() <= kSnapshotArraysMax);
  const size_t elements = arrays.front().size();
  const size_t raw_bytes = arrays.size() * elements * sizeof(float);
  std::vector<std::byte> payload(kSnapshotPayloadHeadBytes + ZSTD_compressBound(raw_bytes));

  const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  const std::unique_ptr<XXH3_state_t, FreeHash> hash(XXH3_createState());
  LONGWAVE_CHECK(context != nullptr && hash != nullptr);
  LONGWAVE_CHECK(XXH3_64bits_reset(hash.get()) == XXH_OK);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setPledgedSrcSize(context.get(), raw_bytes);

  ZSTD_outBuffer out{payload.data(), payload.size(), kSnapshotPayloadHeadBytes};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::span<const std::byte> raw = std::as_bytes(arrays[i]);
    LONGWAVE_CHECK(arrays[i].size() == elements);
    LONGWAVE_CHECK(XXH3_64bits_update(hash.get(), raw.data(), raw.size()) == XXH_OK);
    const bool is_last = i + 1 == arrays.size();
    ZSTD_inBuffer in{raw.data(), raw.size(), 0};
    size_t left = 0;
    do {
      left = ZSTD_compressStream2(context.get(), &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
      LONGWAVE_CHECK(!ZSTD_isError(left));  // there is room, and memory
    } while (in.pos < in.size || (is_last && left > 0));
  }
  payload.resize(out.pos);
  StoreLe<uint32_t>(kSnapshotPayloadMagic, payload.data() + kMagicAt);
  StoreLe<uint32_t>(static_cast<uint32_t>(arrays.size()), payload.data() + kArraysAt);
  StoreLe<uint64_t>(elements, payload.data() + kElementsAt);
  StoreLe<uint64_t>(XXH3_64bits_digest(hash.get()), payload.data() + kHashAt);
  return Buffer(std::move(payload));
}

absl::StatusOr<std::vector<std::vector<float>>> DecodeSnapshotPayload(
    std::span<const std::byte> payload, uint32_t array_count, uint64_t elements) {
  if (payload.size() < kSnapshotPayloadHeadBytes) {
    return Wrong("got ", payload.size(), " bytes, wanted a head of ", kSnapshotPayloadHeadBytes);
  }
  const auto magic = LoadLe<uint32_t>(payload.data() + kMagicAt);
  if (magic != kSnapshotPayloadMagic) {
    return Wrong(absl::StrFormat("magic: got %08x, wanted %08x", magic, kSnapshotPayloadMagic));
  }
  const auto got_arrays = LoadLe<uint32_t>(payload.data() + kArraysAt);
  const auto got_elements = LoadLe<uint64_t>(payload.data() + kElementsAt);
  if (got_arrays != array_count || got_elements != elements) {
    return Wrong("got ", got_arrays, " arrays of ", got_elements, " elements, wanted ", array_count,
                 " of ", elements);
  }
  const std::span<const std::byte> frame = payload.subspan(kSnapshotPayloadHeadBytes);
  const uint64_t raw_bytes = uint64_t{array_count} * elements * sizeof(float);
  const unsigned long long stated = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (stated != raw_bytes) return Loss("its zstd frame says another length than its head");
  const size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes) || frame_bytes != frame.size()) {
    return Loss("it is not one whole zstd frame");
  }
  std::vector<float> floats(array_count * elements);
  const size_t got =
      ZSTD_decompress(floats.data(), floats.size() * sizeof(float), frame.data(), frame.size());
  if (ZSTD_isError(got)) return Loss(ZSTD_getErrorName(got));
  if (got != raw_bytes) return Loss("got ", got, " bytes, wanted ", raw_bytes);
  const uint64_t hash = XXH3_64bits(floats.data(), raw_bytes);
  const auto wanted = LoadLe<uint64_t>(payload.data() + kHashAt);
  if (hash != wanted) {
    return Loss(absl::StrFormat("XXH3-64: got %016x, its bytes give %016x", wanted, hash));
  }
  std::vector<std::vector<float>> arrays;
  if (array_count == 1) {
    arrays.push_back(std::move(floats));
    return arrays;
  }
  for (uint32_t i = 0; i < array_count; ++i) {
    const auto array = std::span<const float>(floats).subspan(i * elements, elements);
    arrays.emplace_back(array.begin(), array.end());
  }
  return arrays;
}

}  // namespace longwave
