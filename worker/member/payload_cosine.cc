#include "worker/member/payload_cosine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "common/base/status_macros.h"
#include "common/wire/payload.h"
#include "common/wire/tile_codec.h"

namespace longwave {
namespace {

absl::StatusOr<PayloadLayout> ValidatedLayout(std::span<const uint32_t> tile_sizes,
                                              std::span<const std::byte> payload) {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload));
  LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout layout, PayloadLayout::Create(format, tile_sizes));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(layout, payload));
  return layout;
}

// A tile's coefficients, with zeros for those that were not sent.
class DenseTile {
 public:
  std::span<const float> Read(const PayloadLayout& layout, uint32_t tile,
                              std::span<const std::byte> payload, uint64_t draw) {
    const std::span<float> dense = std::span(dense_).first(layout.tile_size(tile));
    const uint32_t count = layout.sent_count(tile);
    const std::span<uint16_t> indices = std::span(indices_).first(count);
    const std::span<float> values = std::span(values_).first(count);
    ReadTile(layout, tile, payload, draw, indices, values);
    std::ranges::fill(dense, 0.0f);
    for (uint32_t i = 0; i < count; ++i) dense[indices[i]] = values[i];
    return dense;
  }

 private:
  std::array<uint16_t, kTileSizeMax> indices_;
  std::array<float, kTileSizeMax> values_;
  std::array<float, kTileSizeMax> dense_;
};

}  // namespace

double PayloadPair::cosine() const {
  const double norms = std::sqrt(a_square_sum) * std::sqrt(b_square_sum);
  return norms > 0 ? std::clamp(product / norms, -1.0, 1.0) : 0;
}

absl::StatusOr<PayloadPair> ComparePayloads(const Layout& layout, uint32_t segment,
                                            uint64_t run_seed, uint32_t round,
                                            std::span<const std::byte> a,
                                            std::span<const std::byte> b) {
  const std::vector<uint32_t> tile_sizes = layout.TileSizes(segment);
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout layout_a, ValidatedLayout(tile_sizes, a));
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout layout_b, ValidatedLayout(tile_sizes, b));
  PayloadPair pair;
  DenseTile tile_a, tile_b;
  for (uint32_t t = 0; t < tile_sizes.size(); ++t) {
    const uint64_t place = uint64_t{layout.segments()[segment].tile_begin} + t;
    const uint64_t draw = SelectionDraw(run_seed, round, place);
    const std::span<const float> x = tile_a.Read(layout_a, t, a, draw);
    const std::span<const float> y = tile_b.Read(layout_b, t, b, draw);
    for (size_t i = 0; i < x.size(); ++i) {
      pair.a_square_sum += double{x[i]} * double{x[i]};
      pair.b_square_sum += double{y[i]} * double{y[i]};
      pair.product += double{x[i]} * double{y[i]};
    }
  }
  return pair;
}

}  // namespace longwave
