#ifndef LONGWAVE_SERVER_SHARD_TILE_MERGER_H_
#define LONGWAVE_SERVER_SHARD_TILE_MERGER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/payload.h"

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
};

// Sums of one tile: steps 1 to 5 of merge.h. Holds its buffers and nothing from tile to tile: 32 KB
// of sums, as much for sender weights (of which a merge uses what their type needs) and 8 KB of
// indices.
class TileMerger {
 public:
  // merged ← G of the tile. Returns how many of its coefficients are not zero.
  uint32_t Merge(const MergePlan& plan, uint32_t tile, uint64_t draw, std::span<float> merged);
  // e ← e + G, saturated. The same as Merge into a buffer and then adding that. next: what will be
  // the next call's e, fetched meanwhile; E is larger than caches are.
  uint32_t MergeInto(const MergePlan& plan, uint32_t tile, uint64_t draw, std::span<float> e,
                     std::span<const float> next = {});

 private:
  // Contributions of so few coefficients altogether are finished one coefficient of the list after
  // the other instead of one of the tile after the other.
  static constexpr uint32_t kListMax = 1024;

  // Sums up the tile's contributions. False if every value of the tile is zero.
  bool Sum(const MergePlan& plan, uint32_t tile, uint32_t tile_size, uint64_t draw);
  // Steps 1 and 2: *exponent is s; false if every value is zero. Leaves the scales in scales_.
  bool ChooseQuantum(const MergePlan& plan, uint32_t tile, int* exponent);
  template <typename Share>
  void Accumulate(const MergePlan& plan, uint32_t tile, uint64_t draw, Share* shares);
  template <typename Share>
  void AccumulateOne(const Contribution& contribution, uint32_t tile, double multiplier,
                     float scale, Share share, std::span<const uint16_t> indices, Share* shares);
  // Step 5.
  template <bool kInto>
  uint32_t Finish(const MergePlan& plan, std::span<float> out);

  std::span<const float> next_;
  int exponent_ = 0;     // s of the tile under way
  uint32_t listed_ = 0;  // coefficients in list_, duplicates included; 0: too many for it
  std::vector<float> scales_;
  alignas(64) std::array<int64_t, kTileSizeMax> sums_{};  // zero between tiles
  // Of the type that holds the plan's sum of shares; zero between tiles.
  alignas(64) std::array<std::byte, kTileSizeMax * sizeof(uint64_t)> shares_{};
  alignas(64) std::array<uint16_t, kTileSizeMax> indices_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_TILE_MERGER_H_
