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

// One accepted push. Its payload has been validated against its layout.
struct Contribution {
  uint64_t weight = 1;  // 1 … kWeightMax
  const PayloadLayout* layout = nullptr;
  std::span<const std::byte> payload;
  double factor = 1;  // 0 … 1, see ClipFactors
};

// What all tiles of a merge have in common. Weights are kept as multiples of their greatest common
// divisor, which makes them counts where all are equal: the smaller the type that holds a sum of
// them, the more of a tile's sums stays in the first-level cache.
struct MergePlan {
  MergePlan(std::span<const Contribution> contributions, double rho);

  std::span<const Contribution> contributions;
  std::vector<double> multipliers;  // w · factor of each
  std::vector<uint64_t> shares;     // w / unit of each
  uint64_t unit = 1;
  uint64_t share_sum = 0;
  uint64_t weight_sum = 0;
  double floor = 0;  // ρ · Σ_all w
  // The largest sum of shares whose weight is not above `floor`: up to it, the divisor is `floor`.
  uint64_t floor_shares = 0;
  std::vector<uint64_t> top_levels;  // of the codec of each; none where one has no levels
};

// Sums of one tile: steps 1 to 5 of merge.h. Holds its buffers and nothing from tile to tile: 32 KB
// of sums, as much for sender weights (of which a merge uses what their type needs, or none) and
// 8 KB of indices.
class TileMerger {
 public:
  enum class Outcome : uint8_t {
    kWrite,  // out ← G of the tile
    kAdd,  // out ← out + G, saturated: the same as writing to a buffer and then adding that; out
           // has no −0
  };
  // maxima: those of cpu::TileWork, of the outcome. Returns how many coefficients of G are not
  // zero.
  uint32_t Merge(const MergePlan& plan, uint32_t tile, uint64_t draw, Outcome outcome,
                 std::span<float> out, uint32_t* maxima);

 private:
  // Sums up the tile's contributions. False if every value of the tile is zero.
  bool Sum(const MergePlan& plan, uint32_t tile, uint64_t draw);
  // Steps 1 and 2: exponent_; false if every value is zero. Leaves the scales in scales_.
  bool ChooseQuantum(const MergePlan& plan, uint32_t tile);
  // The first half of step 3: multiples_ of integer codecs. Where these leave room for them, the
  // sums of shares come to be the highest share_bits_ of the sums' words, which halves the work.
  void ChooseMultiples(const MergePlan& plan);
  template <typename SinkOf>
  void Accumulate(const MergePlan& plan, uint32_t tile, uint64_t draw, const SinkOf& sink_of);
  template <typename Sink>
  void AccumulateOne(const MergePlan& plan, uint32_t tile, size_t number,
                     std::span<const uint16_t> indices, const Sink& sink);

  const cpu::TileMath* math_ = nullptr;  // of ChosenIsa
  int exponent_ = 0;    // s of the tile under way; less by the zeros that multiples_ lost
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
