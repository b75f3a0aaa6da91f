#ifndef LONGWAVE_SERVER_SHARD_MERGE_H_
#define LONGWAVE_SERVER_SHARD_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/layout/layout.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"
#include "server/shard/tile_merger.h"
#include "server/shard/tile_threads.h"

namespace longwave {

// The merge of one segment's contributions: per coefficient
//
//   G = Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w)         E ← E + G;  Ĝ = Q(S(E));  E ← E − Ĝ
//
// Σ_senders runs over the contributions that hold the coefficient (with whatever value, zero
// included), Σ_all over all contributions of the round. A coefficient that no contribution holds
// has G = 0.
//
// The sums are exact: they depend on the set of contributions alone, not on their order, and are
// the same on every machine. Per tile, with N contributions:
//   0. v = w · factor, rounded to double. Without clipping the factor is 1 and v is w, exactly. A
//      contribution with factor 0 is ignored with its weight, unless all have factor 0.
//   1. B = the largest bound of |v·value| over them, in double. In an integer codec the bound is
//      v · (scale · TopLevel), in fp32 and bf16 it is the largest |v·value|.
//   2. The quantum is 2^−s with s = 61 − e − ceil(log2 N), where e is B's exponent: B < 2^e. s is
//      at most 900, which only clipping to nearly zero reaches.
//   3. Integer codecs: v · scale is rounded once to a multiple of the quantum. Level times that
//      multiple is summed in int64. fp32 and bf16: each v · value is rounded to such a multiple and
//      summed. Rounding is to nearest, ties to even. (If v is w, w · scale is exact before.)
//   4. Σ_senders w is summed in integers, too. Clipping does not reduce it.
//   5. G = float((double(sum) · 2^−s) / max(double(Σ_senders), ρ · double(Σ_all))): each operation
//      is rounded once to double, the result once to float, and −0 becomes +0.
// |sum| ≤ N · (B·2^s + 128) < 2^62, so the sum cannot overflow. The absolute error of Σ w·q̂ is at
// most N · TopLevel · 2^−s / 2. For a thousand contributions in int8 that is at most 2^−33 of B:
// only values below that, relative to the largest value of the tile, are lost.
//
// G and E + G saturate at ±kMergedMax, so no hostile contribution causes an infinity.
inline constexpr float kMergedMax = 0x1p120f;

struct MergeOptions {
  uint64_t run_seed = 0;  // seed of random and stride selection
  PayloadFormat up;
  double rho = 0;  // 0 … 1
  // The form of the merged update:
  //   kTopK, codec, k   the k largest of E + G a tile; the rest stays in E.
  //   kAll, codec       the whole merged update, in the smallest form for the pushes' selection:
  //     up kAll            {kAll, codec}
  //     up kRandom/kStride {up.selection, codec, up.k}: the round's own support, without indices.
  //     up kTopK           {kTopK, codec, k}, or {kAll, codec} where that is no larger.
  // For up kTopK each payload has its own k, which its head names: the largest number of nonzero
  // coefficients of G in any tile, at least 1. Tiles with fewer fill up with zeros. Integer codecs
  // never go down as kAll: they have no zero, and 4096 levels for a few nonzero coefficients would
  // be mostly noise. They send the k largest of E + G. From the second round on their own rounding
  // errors in E fill the tiles, so zeros are rare. Every codec but fp32 rounds, and the rounding
  // error stays in E, so nothing is lost. kAll in fp32 never holds anything back, and E is not kept
  // (see KeepsResidual). kRandom and kStride themselves are refused.
  PayloadFormat down;
};

// InvalidArgument: rho out of [0, 1], k out of range, down selection kRandom or kStride.
absl::Status Validate(const MergeOptions& options);

// Whether E can be nonzero.
bool KeepsResidual(const MergeOptions& options);

// The factors, beside the weights, that clip contributions to `clip` times the usual norm: min(1,
// clip · usual / norm). The factor is 0, which leaves the contribution out, if its norm is more
// than kLeftOutAbove times the clipped norm. The usual norm, over the norms above zero (a worker
// with nothing to send for a segment says nothing about the usual norm there):
//   three or more   their median, the lower one of an even number
//   two             the median of them and `last`
//   one             `last`
// last: norm of the segment's last merged update; 0: none yet, and with one or two norms all
// factors are 1. With clip 0 all factors are 1. norms, last: finite, not negative.
inline constexpr double kLeftOutAbove = 1000;
std::vector<double> ClipFactors(std::span<const float> norms, float last, double clip);

struct MergedSegment {
  std::vector<std::byte> payload;  // Ĝ, its format in its head
  uint64_t weight_sum = 0;
  double square_sum = 0;  // of Ĝ as dequantized

  float norm() const;  // in the form of a header
};

// Merges segments one after the other, each on the same threads. Holds one tile's buffers a
// slot (TileMerger's 72 KB and a TileWork's 100 KB, of which little is touched, so that a merge
// stays in a core's second-level cache), 4 bytes a tile of guesses, and a segment of floats only
// under "all of topk" in fp32.
class Merger {
 public:
  // options: passed by Validate. threads: null for the caller's thread.
  explicit Merger(const MergeOptions& options, std::shared_ptr<TileThreads> threads = nullptr);

  // contributions: 1 or more, of this segment and round. residual: E of the segment's coefficients
  // if KeepsResidual, else empty.
  MergedSegment Merge(const Layout& layout, uint32_t segment, uint32_t round,
                      std::span<const Contribution> contributions, std::span<float> residual);

 private:
  // Buffers of one tile, one set for each slot of the threads.
  struct Slot {
    TileMerger tiles;
    cpu::TileWork work;
    uint32_t nonzero_max = 0;  // of the tiles that the slot has merged so far
  };

  // A merge from the view of its tiles.
  struct Job;
  // Selects, quantizes and writes one tile of `values`. If `values` are E, the written part is
  // subtracted. work.maxima: of `values`. Returns the sum of squares of the written part.
  static double EmitTile(const PayloadLayout& layout, uint32_t tile, uint64_t draw,
                         std::span<float> values, bool values_are_residual, uint32_t* guess,
                         std::span<std::byte> payload, cpu::TileWork& work);

  const MergeOptions options_;
  const std::shared_ptr<TileThreads> threads_;
  std::vector<std::unique_ptr<Slot>> slots_;
  // For each tile of the layout, the magnitude near which its last top k ended. The search for the
  // next top k starts there. The guess affects time only.
  std::vector<uint32_t> guesses_;
  std::vector<float> dense_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_MERGE_H_
