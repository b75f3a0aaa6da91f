#ifndef LONGWAVE_SERVER_SHARD_TILE_MERGER_H_
#define LONGWAVE_SERVER_SHARD_TILE_MERGER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/payload.h"
#include "kernels/cpu/tile_math.h"

namespace longwave {

// An accepted push. Its payload was validated against its layout.
struct Contribution {
  uint64_t weight = 1;  // 1 … kWeightMax
  const PayloadLayout* layout = nullptr;
  std::span<const std::byte> payload;
  double factor = 1;  // 0 … 1, see ClipFactors
};

// Values common to all tiles of a merge. Weights are multiples of their greatest common divisor, so
// equal weights become counts. A smaller type for sums of weights leaves more of a tile's sums in
// the first-level cache.
struct MergePlan {
  MergePlan(std::span<const Contribution> contributions, double rho);

  std::span<const Contribution> contributions;
  std::vector<double> multipliers;  // w · factor of each
  std::vector<uint64_t> shares;     // w / unit of each
  uint64_t unit = 1;
  uint64_t share_sum = 0;
  uint64_t weight_sum = 0;
  double floor = 0;  // ρ · Σ_all w
  // The largest sum of shares whose weight is at most `floor`. Up to this sum the divisor is
  // `floor`.
  uint64_t floor_shares = 0;
  std::vector<uint64_t> top_levels;  // of each contribution's codec; empty if one has no levels
};

// Sums of one tile: steps 1 to 5 of merge.h. Only the buffers persist between tiles: 32 KB of sums,
// as much for sender weights (of which a merge uses what their type needs, or none) and 8 KB of
// indices.
class TileMerger {
 public:
  enum class Outcome : uint8_t {
    kWrite,  // out ← G of the tile
    kAdd,    // out ← out + G, saturated: equals kWrite to a buffer and then adding that; out
             // has no −0
  };
  // maxima: those of cpu::TileWork for `out`. Returns the number of nonzero coefficients of G.
  uint32_t Merge(const MergePlan& plan, uint32_t tile, uint64_t draw, Outcome outcome,
                 std::span<float> out, uint32_t* maxima);

 private:
  // Sums up the tile's contributions. False if every value of the tile is zero.
  bool Sum(const MergePlan& plan, uint32_t tile, uint64_t draw);
  // Steps 1 and 2: sets exponent_ and scales_. False if every value is zero.
  bool ChooseQuantum(const MergePlan& plan, uint32_t tile);
  // The first half of step 3: sets multiples_ of integer codecs. If the multiples leave room, the
  // sums of shares become the highest share_bits_ of the sums' words, which halves the work.
  void ChooseMultiples(const MergePlan& plan);
  template <typename SinkOf>
  void Accumulate(const MergePlan& plan, uint32_t tile, uint64_t draw, const SinkOf& sink_of);
  template <typename Sink>
  void AccumulateOne(const MergePlan& plan, uint32_t tile, size_t number,
                     std::span<const uint16_t> indices, const Sink& sink);

  const cpu::TileMath* math_ = nullptr;  // of ChosenIsa
  int exponent_ = 0;    // s of the current tile, less the zeros dropped from multiples_
  int share_bits_ = 0;  // 0: shares are in shares_
  std::vector<float> scales_;
  std::vector<int64_t> multiples_;  // w · factor · scale of each, in quanta
  alignas(64) std::array<uint64_t, kTileSizeMax> sums_{};  // zero between tiles
  // Of the type that holds the plan's sum of shares; zero between tiles.
  alignas(64) std::array<std::byte, kTileSizeMax * sizeof(uint64_t)> shares_{};
  alignas(64) std::array<uint16_t, kTileSizeMax> indices_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_TILE_MERGER_H_
