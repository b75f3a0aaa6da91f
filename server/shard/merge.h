#ifndef LONGWAVE_SERVER_SHARD_MERGE_H_
#define LONGWAVE_SERVER_SHARD_MERGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/layout/layout.h"
#include "common/wire/codec.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "server/shard/tile_merger.h"
#include "server/shard/tile_runner.h"

namespace longwave {

// The merge of one segment's contributions: per coefficient
//
//   G = Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w)         E ← E + G;  Ĝ = Q(S(E));  E ← E − Ĝ
//
// Σ_senders runs over the contributions that hold the coefficient (with whatever value, zero
// included), Σ_all over all contributions of the round. A coefficient that nobody sent has G = 0.
//
// The sums are exact: they depend on the set of contributions alone, not on their order, and are
// the same on every machine. Per tile, with N contributions:
//   0. v = w · factor, rounded to double. Without clipping the factor is 1 and v is w, exactly. A
//      contribution with factor 0 is as none, its weight too, unless all have it.
//   1. B = the largest bound of |v·value| over them, in double. In an integer codec the bound is
//      v · (scale · TopLevel), in fp32 and bf16 it is the largest |v·value|.
//   2. The quantum is 2^−s with s = 61 − e − ceil(log2 N), where e is B's exponent: B < 2^e. (At
//      most 900, which only clipping to next to nothing reaches.)
//   3. Integer codecs: v · scale is rounded once to a multiple of the quantum; level times that is
//      added up in int64. fp32 and bf16: each v · value is rounded to such a multiple and added up.
//      Rounding is to nearest, ties to even. (Where v is w, w · scale is exact before.)
//   4. Σ_senders w is added up beside it, in integers too. Clipping does not lessen it.
//   5. G = float((double(sum) · 2^−s) / max(double(Σ_senders), ρ · double(Σ_all))): each operation
//      is rounded once to double, the result once to float, and −0 becomes +0.
// |sum| ≤ N · (B·2^s + 128) < 2^62, so it cannot overflow. The absolute error of Σ w·q̂ is at most
// N · TopLevel · 2^−s / 2, which is 2^−33 of B at the very most for a thousand contributions in
// int8: what is smaller than that beside the largest value of its tile is lost, nothing else is.
//
// G and E + G saturate at ±kMergedMax, so no hostile contribution brings an infinity about.
inline constexpr float kMergedMax = 0x1p120f;

struct MergeOptions {
  uint64_t run_seed = 0;  // what random and stride selection draw from
  PayloadFormat up;
  double rho = 0;  // 0 … 1
  // What goes down:
  //   kTopK, codec, k   the k largest of E + G a tile; the rest stays in E.
  //   kAll, codec       all that was merged, in the form that is small for how it came up:
  //     up kAll            {kAll, codec}
  //     up kRandom/kStride {up.selection, codec, up.k}: the round's own support, without indices.
  //     up kTopK           {kTopK, codec, k}, or {kAll, codec} where that is no larger.
  // For up kTopK, k is chosen for each payload, whose head names it: the most nonzero coefficients
  // of G in any tile, at least 1. Tiles with fewer fill up with zeros. Integer codecs never go down
  // as kAll: they have no zero, and 4096 levels where few coefficients are not zero would be mostly
  // noise. They take the k largest of E + G; from the second round on their own rounding errors in
  // E fill the tiles, so that zeros are hardly written.
  // A codec that rounds (every one but fp32) leaves its error in E: nothing is lost. Under kAll in
  // fp32 nothing is ever held back, and E is not kept (see KeepsResidual).
  // kRandom and kStride as such are refused.
  PayloadFormat down;
};

// InvalidArgument: rho out of [0, 1], k out of range, down selection kRandom or kStride.
absl::Status Validate(const MergeOptions& options);

// Whether E can be other than zero.
bool KeepsResidual(const MergeOptions& options);

// What each contribution's values are multiplied by, beside its weight, to clip it to `clip` times
// the norm that is usual: min(1, clip · usual / norm); or 0, which leaves it out, where its norm is
// more than kLeftOutAbove times what it would be clipped to. What is usual, of the norms above zero
// (a worker that has nothing to say of a segment says nothing of what is usual in it):
//   three or more   their median, the lower one of an even number
//   two             the median of them and `last`
//   one             `last`
// last: the norm of the segment's last merged update; 0: there is none, and of two or one all
// factors are 1. So they are with clip 0. norms, last: finite, not negative.
inline constexpr double kLeftOutAbove = 1000;
std::vector<double> ClipFactors(std::span<const float> norms, float last, double clip);

struct MergedSegment {
  std::vector<std::byte> payload;  // Ĝ, its format in its head
  uint64_t weight_sum = 0;
  double square_sum = 0;  // of Ĝ as dequantized

  float norm() const;  // as a header states it
};

// Merges segments one after the other, each of them on the threads of a runner. Holds the buffers
// of one tile a slot (TileMerger's 72 KB and a TileWork's 100 KB, of which little is touched, so
// that a merge stays in a core's second-level cache), 4 bytes a tile of guesses, and, under "all of
// topk" in fp32 only, a segment of floats.
class Merger {
 public:
  // options: as Validate has passed them. runner: null for the caller alone.
  explicit Merger(const MergeOptions& options, std::shared_ptr<TileRunner> runner = nullptr);

  // contributions: 1 or more, of this segment and round. residual: E of the segment's coefficients
  // if KeepsResidual, else empty.
  MergedSegment Merge(const Layout& layout, uint32_t segment, uint32_t round,
                      std::span<const Contribution> contributions, std::span<float> residual);

 private:
  // Buffers of one tile, of which each slot of the runner has its own.
  struct Slot {
    TileMerger tiles;
    cpu::TileWork work;
    uint32_t nonzero_max = 0;  // of the tiles that the slot has merged so far
  };

  // One merge, as its tiles see it.
  struct Job;
  // Selects, quantizes and writes one tile of `values`; what was written is taken out of `values`
  // when they are E. work.maxima: of `values`. Returns the sum of squares of what was written.
  static double EmitTile(const PayloadLayout& layout, uint32_t tile, uint64_t draw,
                         std::span<float> values, bool values_are_residual, uint32_t* guess,
                         std::span<std::byte> payload, cpu::TileWork& work);

  const MergeOptions options_;
  const std::shared_ptr<TileRunner> runner_;
  std::vector<std::unique_ptr<Slot>> slots_;
  // Of each tile of the layout, near which magnitude its last top k ended: where the search for
  // the next one starts. Changes how long that takes and nothing else.
  std::vector<uint32_t> guesses_;
  std::vector<float> dense_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_MERGE_H_
