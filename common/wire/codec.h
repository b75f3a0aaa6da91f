#ifndef LONGWAVE_COMMON_WIRE_CODEC_H_
#define LONGWAVE_COMMON_WIRE_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/rng.h"

namespace longwave {

// The version of the arithmetic of encode, merge and decode. Each change that gives the same inputs
// other parameters raises it, so that processes of two versions do not share a run.
//   1  the inverse DCT by stages throughout
//   2  few coefficients are summed as basis rows (kernels/dct_plan.h)
inline constexpr uint32_t kArithmeticVersion = 2;

// The map from a tile's elements to its coefficients.
enum class Transform : uint8_t {
  kNone = 0,
  kDct = 1,  // orthonormal DCT-II: two-dimensional over a matrix tile, one-dimensional over a run
};

// The coefficients of a tile that are sent.
enum class Selection : uint8_t {
  kAll = 0,     // all; no indices
  kTopK = 1,    // the k of largest magnitude, ties to the smaller index; Elias-Fano indices
  kRandom = 2,  // k drawn from (run seed, round, tile); no indices
  kStride = 3,  // every (n/k)th, the start moving with the round; no indices
};

// The encoding of a value. The integer codecs write level codes and one scale a tile.
enum class ValueCodec : uint8_t {
  kFp32 = 0,
  kBf16 = 1,
  kInt8 = 2,
  kInt4 = 3,
  kInt2 = 4,
  kSign = 5,  // 1 bit: plus or minus the scale
};

// The content of a payload's body for each tile. Both ends know it before the first byte.
struct PayloadFormat {
  Selection selection = Selection::kAll;
  ValueCodec codec = ValueCodec::kFp32;
  // Coefficients a tile, 1 … kTileSizeMax. A smaller tile sends all of its own; kAll ignores k.
  uint16_t k = 0;

  // Equal formats give the same bytes: k is compared only where it has an effect.
  friend constexpr bool operator==(const PayloadFormat& a, const PayloadFormat& b) {
    return a.selection == b.selection && a.codec == b.codec &&
           (a.selection == Selection::kAll || a.k == b.k);
  }
};

// Elements of the largest tile: a 64 × 64 block, or a run of 4096.
inline constexpr uint32_t kTileSizeMax = 4096;

// Bits of one value: 32, 16, 8, 4, 2 or 1.
LONGWAVE_HOST_DEVICE constexpr uint32_t ValueBits(ValueCodec codec) {
  switch (codec) {
    case ValueCodec::kFp32:
      return 32;
    case ValueCodec::kBf16:
      return 16;
    case ValueCodec::kInt8:
      return 8;
    case ValueCodec::kInt4:
      return 4;
    case ValueCodec::kInt2:
      return 2;
    case ValueCodec::kSign:
      return 1;
  }
  return 0;
}

// Integer codecs have one scale of 16 bits a tile; fp32 and bf16 have none.
LONGWAVE_HOST_DEVICE constexpr bool HasScale(ValueCodec codec) { return ValueBits(codec) <= 8; }

// Names in configurations, metrics and logs: "fp32", "bf16", "int8", "int4", "int2", "sign".
std::string_view Name(ValueCodec codec);
std::string_view Name(Selection selection);  // "all", "topk", "random", "stride"
std::string_view Name(Transform transform);  // "none", "dct"

std::string Describe(const PayloadFormat& format);  // "all in fp32", "topk 64 in int4"

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_CODEC_H_
