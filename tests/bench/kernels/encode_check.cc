#include "tests/bench/kernels/encode_check.h"

#include <cmath>

#include "common/wire/tile_codec.h"
#include "tests/support/reference/dct.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave::bench {
namespace {

constexpr uint32_t kTilesChecked = 6;
// Single precision against double, relative to a tile's norm: a transform along 4096 and the few
// operations beside it.
constexpr double kTolerance = 8e-6;

double SignalAt(const Arrays& arrays, uint64_t i) {
  const double a = arrays.a[i];
  return arrays.b == nullptr ? a : a - double{arrays.b[i]};
}

std::vector<double> ExpectedMomentum(const Problem& problem, const Setting& setting,
                                     const Tile& tile, const Arrays& arrays) {
  std::vector<double> s(tile.size());
  for (uint32_t r = 0; r < tile.rows; ++r) {
    for (uint32_t c = 0; c < tile.cols; ++c) {
      s[r * tile.cols + c] =
          SignalAt(arrays, (tile.offset + uint64_t{r} * tile.row_stride + c) % problem.period());
    }
  }
  if (TransformOf(setting.shape) == Transform::kDct) s = ref::Dct(s, tile.rows, tile.cols);
  for (uint32_t i = 0; i < tile.size(); ++i) {
    s[i] += double{kBeta} * problem.momentum()[(tile.coefficient_offset + i) % problem.period()];
  }
  return s;
}

double Square(double x) { return x * x; }

}  // namespace

std::vector<uint32_t> TilesChecked(const Layout& layout) {
  const uint64_t last = layout.tiles().size() - 1;
  std::vector<uint32_t> tiles;
  for (uint64_t i = 0; i < kTilesChecked; ++i) {
    tiles.push_back(static_cast<uint32_t>(last * i / (kTilesChecked - 1)));
  }
  return tiles;
}

bool TileIsRight(const Problem& problem, const Setting& setting, uint32_t index,
                 const Arrays& arrays, const Payloads& payloads, std::span<const float> residual) {
  const Layout& layout = problem.layout(setting.shape);
  const Tile& tile = layout.tiles()[index];
  uint32_t segment = 0;
  while (index >= layout.segments()[segment].tile_begin + layout.segments()[segment].tile_count) {
    ++segment;
  }
  const PayloadLayout& of_segment = payloads.layouts[segment];
  if (!ValidatePayload(of_segment, payloads.bytes[segment]).ok()) return false;
  const uint32_t in_segment = index - layout.segments()[segment].tile_begin;
  std::vector<uint16_t> chosen(of_segment.sent_count(in_segment));
  std::vector<float> sent(chosen.size());
  ReadTile(of_segment, in_segment, payloads.bytes[segment], 0, chosen, sent);

  const std::vector<double> expected = ExpectedMomentum(problem, setting, tile, arrays);
  std::vector<float> rounded(expected.begin(), expected.end());
  std::vector<uint16_t> best(chosen.size());
  SelectTopK(rounded, best);
  std::vector<float> values(best.size());
  for (size_t i = 0; i < best.size(); ++i) values[i] = rounded[best[i]];
  std::vector<float> dequantized = values;
  std::vector<uint32_t> codes(best.size());
  QuantizeTile(setting.codec, dequantized, codes);

  double norm = 0, lost = 0, chosen_energy = 0, best_energy = 0, error = 0, best_error = 0;
  std::vector<double> kept(residual.begin(), residual.end());
  for (size_t i = 0; i < chosen.size(); ++i) {
    kept[chosen[i]] += double{kAlpha} * sent[i];
    chosen_energy += Square(expected[chosen[i]]);
    best_energy += Square(values[i]);
    error += Square(expected[chosen[i]] - sent[i]);
    best_error += Square(double{values[i]} - dequantized[i]);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    norm += Square(expected[i]);
    lost += Square(kept[i] - expected[i]);
  }
  norm = std::sqrt(norm);
  return norm > 0 && std::sqrt(lost) <= kTolerance * norm &&
         chosen_energy >= best_energy - kTolerance * norm * norm &&
         std::sqrt(error) <= 1.001 * std::sqrt(best_error) + kTolerance * norm;
}

}  // namespace longwave::bench
