#ifndef LONGWAVE_KERNELS_CPU_TILE_MATH_H_
#define LONGWAVE_KERNELS_CPU_TILE_MATH_H_

#include <cstdint>

#include "kernels/cpu/rotations.h"
#include "kernels/dct_stage.h"

namespace longwave::cpu {

// The arithmetic of one tile, compiled for each instruction set from the same sources. Arguments
// are plain, since the functions are the inner loops. All variants give the same bits, except for
// sums that are documented as metrics.

// A tile's place in a flat array (layout.h, Tile) in plain numbers.
struct TilePlace {
  uint64_t offset;
  uint32_t row_stride;
  uint32_t rows, cols;
  uint32_t rows_valid, cols_valid;
};

// Static, as all functions that the sources of one instruction set call: see simd.h.
static inline uint32_t SizeOf(const TilePlace& place) { return place.rows * place.cols; }
static inline bool IsFull(const TilePlace& place) {
  return place.rows_valid == place.rows && place.cols_valid == place.cols;
}

// The plans of a tile: the columns' (length rows) and the rows' (length cols).
struct TilePlans {
  DctPlanView down;
  DctPlanView along;
  float norm;                  // DctNorm
  const Rotations* rotations;  // AllRotations
  const float* basis;          // DctBasis where the inverse is by sums, else null
};

// The values of ops.h's UpdateKind, in its order.
enum class UpdateRule : uint8_t { kSgd, kSign, kNesterov, kInner, kLocal };

// s = scale · (a − b), or scale · a if b is null.
struct TileSignal {
  const float* a;
  const float* b;
  float scale;
};

struct UpdateStep {
  UpdateRule rule;
  float eta, mu, keep, beta;
  float* theta;
  float* velocity;
  float* gradient;
  TileSignal signal;
};

// A range that the next tile will read, prefetched to the second-level cache a few lines at a time
// between other work: a processor stalls on many prefetches at once.
struct Fetcher {
  const char* at = nullptr;
  const char* end = nullptr;
};
static inline void FetchSome(uint32_t lines, Fetcher& fetcher) {
  for (; lines > 0 && fetcher.at < fetcher.end; --lines, fetcher.at += 64) {
    __builtin_prefetch(fetcher.at, 0, 2);
  }
}

// The scratch memory of one thread for one tile: about 100 KiB, of which a tile with few sent
// coefficients touches less than half. Arrays have room for whole vectors past their last element.
struct TileWork {
  static constexpr uint32_t kSize = 4096 + 64;

  alignas(64) float x[kSize];              // a tile, as elements or as coefficients
  alignas(64) float y[kSize];              // between the two passes of a transform
  alignas(64) uint32_t maxima[kSize / 4];  // of the magnitudes' bits in m̂, by any groups of four
  alignas(64) uint32_t candidates[kSize];  // of a selection: indices
  alignas(64) uint32_t magnitudes[kSize];  // and their magnitudes' bits
  alignas(64) float values[kSize];         // values to send, in index order
  alignas(64) uint32_t codes[kSize];       // their codes
  alignas(64) uint16_t indices[kSize];

  // The last selection's threshold as a magnitude's bits, where the next search starts; 0: none. It
  // does not affect results.
  uint32_t threshold = 0;
  Fetcher fetcher;
};

// The results of Accumulate. The sums are metrics: fp32 in lanes where that is accurate enough.
struct TileSums {
  double signal;
  double momentum;
  bool finite;
};

struct AccumulateArgs {
  TilePlace place;
  const TilePlans* plans;  // null: no transform
  TileSignal signal;
  float beta;
  float* momentum;
  // The tile after this one, to be prefetched; the last tile repeats itself.
  TilePlace next;
  const float* next_momentum;  // prefetched here without a transform; with one, by work.fetcher
};

// Levels of the codecs of one or two bits.
struct NarrowLevels {
  float threshold;  // magnitudes above it take the large level; infinity with one bit
  float small, large;
};

// A tile of a shard's merge, with its contributions summed.
struct MergedTile {
  uint32_t n;
  uint64_t* sums;  // as int64, times 2^exponent; zero behind n, and set to zero afterwards
  // Each sum's shares. With share_bytes 1, 2, 4 or 8: an array of such integers, set to zero
  // afterwards. With 0: in the high bits of the sums, as shares · 2^(64 − share_bits) + sum modulo
  // 2^64; the sums then have less than 64 − share_bits bits, sign included. A sum without shares is
  // zero.
  void* shares;
  uint32_t share_bytes;
  int share_bits;
  int exponent;
  uint64_t unit;  // the weight of a share
  double floor;   // the least divisor
  uint64_t floor_shares;
  bool add;  // adds to `out`, which has no −0, instead of writing it
  float* out;
  float largest;  // limit of results; with shares in the sums, only an addition can reach it
};

struct TileMath {
  // m̂ ← fma(beta, m̂, T(s)), or unchanged if that is not finite; sets work.maxima.
  TileSums (*accumulate)(const AccumulateArgs& args, TileWork& work);
  // work.indices and work.values ← the k largest magnitudes of x, ties to the smaller index, in
  // index order. x is the m̂ of the last accumulate, all finite; k <= n.
  void (*select_top_k)(uint32_t n, uint32_t k, const float* x, TileWork& work);
  double (*square_sum)(uint32_t n, const float* x);
  // m[i] ← fma(factor, v[i], m[i]).
  void (*add_scaled)(uint32_t n, float factor, const float* v, float* m);

  // m[indices[i]] ← fma(factor, v[i], m[indices[i]]).
  void (*add_scaled_at)(uint32_t n, float factor, const float* v, const uint16_t* indices,
                        float* m);

  // QuantizeTile of tests/support/reference in parts. `values` and `codes` have room for whole
  // vectors. The largest magnitude's bits:
  uint32_t (*largest)(uint32_t n, const float* values);
  // The scale before rounding, from the largest magnitude's bits, which are not zero.
  float (*fit_sign)(uint32_t n, float* values, uint32_t largest);
  float (*fit_int2)(uint32_t n, float* values, uint32_t largest);
  // Computes codes, and replaces values by those that the receiver will read; `bits` is 1 or 2 for
  // narrow, 4 or 8 for wide.
  void (*quantize_narrow)(uint32_t bits, const NarrowLevels& levels, uint32_t n, float* values,
                          uint32_t* codes);
  void (*quantize_wide)(uint32_t bits, float scale, uint32_t n, float* values, uint32_t* codes);
  void (*quantize_bf16)(uint32_t n, float* values, uint32_t* codes);
  // Writes all bytes of the codes in WriteTile's format.
  void (*pack)(uint32_t bits, uint32_t n, const uint32_t* codes, uint8_t* to);
  // The values of ReadTile from packed codes. levels: of all codes of 1 or 2 bits, times the scale.
  void (*read_narrow)(uint32_t bits, const float* levels, uint32_t n, const uint8_t* from,
                      float* values);
  void (*read_wide)(uint32_t bits, float scale, uint32_t n, const uint8_t* from, float* values);
  void (*read_bf16)(uint32_t n, const uint8_t* from, float* values);

  // u = T⁻¹ of `count` values at `indices` (or, if indices is null, of work.x), then the update of
  // ops.h over the tile's valid elements. plans: null for no transform.
  void (*decode)(const TilePlace& place, const TilePlace& next, const TilePlans* plans,
                 const UpdateStep& step, uint32_t count, const uint16_t* indices,
                 const float* values, TileWork& work);

  // out ← Σ / max(shares · unit, floor), or out + that, saturated; maxima as TileWork's. Returns
  // the number of nonzero quotients.
  uint32_t (*finish_merge)(const MergedTile& tile, uint32_t* maxima);
  // Computes TileWork's maxima of any x.
  void (*maxima)(uint32_t n, const float* x, uint32_t* maxima);
  // sums[indices[i]] += addends[code i], codes of `bits` 1 or 2. Indices are distinct.
  void (*add_codes)(uint32_t bits, const uint64_t* addends, const uint8_t* codes, uint32_t count,
                    const uint16_t* indices, uint64_t* sums);

  // Σ Mix64(Mix64(flat index) + bits) over the tile's valid elements.
  uint64_t (*hash)(const TilePlace& tile, const float* theta);
};

extern const TileMath kTileMathGeneric;
#ifdef LONGWAVE_CPU_X86
extern const TileMath kTileMathAvx2;
extern const TileMath kTileMathAvx512;
#endif

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_TILE_MATH_H_
