#include "server/shard/merge.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/wire/tile_codec.h"

namespace longwave {
namespace {

float Saturate(double value) {
  const float clamped =
      static_cast<float>(std::clamp(value, -double{kMergedMax}, double{kMergedMax}));
  return clamped + 0.0f;  // −0 becomes +0: one number, one encoding
}

// Whether each payload chooses its own k; see MergeOptions::down.
bool SendsUnion(const MergeOptions& options) {
  return options.down.selection == Selection::kAll && options.up.selection == Selection::kTopK;
}

// The format of a merged payload unless SendsUnion.
PayloadFormat FixedDownFormat(const MergeOptions& options) {
  PayloadFormat format = options.down;
  if (format.selection == Selection::kAll && options.up.selection != Selection::kAll) {
    format.selection = options.up.selection;
    format.k = options.up.k;
  }
  return format;
}

PayloadLayout LayoutOf(const PayloadFormat& format, std::span<const uint32_t> tile_sizes) {
  auto layout = PayloadLayout::Create(format, tile_sizes);
  LONGWAVE_CHECK(layout.ok());  // options were validated, tile sizes come from a Layout
  return *std::move(layout);
}

PayloadLayout UnionLayout(const MergeOptions& options, uint32_t k,
                          std::span<const uint32_t> tile_sizes) {
  const ValueCodec codec = options.down.codec;
  const PayloadFormat sparse{Selection::kTopK, codec, static_cast<uint16_t>(std::max(k, 1u))};
  if (HasScale(codec)) return LayoutOf(sparse, tile_sizes);
  PayloadLayout dense = LayoutOf({Selection::kAll, codec, 0}, tile_sizes);
  // Nearly all of a large segment with indices may be more than a frame carries; dense fits.
  auto layout = PayloadLayout::Create(sparse, tile_sizes);
  return layout.ok() && layout->bytes() < dense.bytes() ? *std::move(layout) : dense;
}

absl::Status CheckK(const PayloadFormat& format, const char* direction) {
  if (format.selection == Selection::kAll || (format.k >= 1 && format.k <= kTileSizeMax)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(direction, ".k is ", format.k, ", wanted 1 to ", kTileSizeMax));
}

}  // namespace

absl::Status Validate(const MergeOptions& options) {
  if (!(options.rho >= 0 && options.rho <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("rho is ", options.rho, ", wanted 0 to 1"));
  }
  if (options.down.selection != Selection::kAll && options.down.selection != Selection::kTopK) {
    return absl::InvalidArgumentError(
        absl::StrCat("down.selection is ", std::string(Name(options.down.selection)),
                     ", wanted all (which follows up.selection) or topk"));
  }
  if (absl::Status status = CheckK(options.up, "up"); !status.ok()) return status;
  return CheckK(options.down, "down");
}

bool KeepsResidual(const MergeOptions& options) {
  return options.down.selection == Selection::kTopK || options.down.codec != ValueCodec::kFp32;
}

MergedSegment Merger::Merge(const Layout& layout, uint32_t segment, uint32_t round,
                            std::span<const Contribution> contributions,
                            std::span<float> residual) {
  LONGWAVE_CHECK(!contributions.empty());
  const Segment& place = layout.segments()[segment];
  const std::vector<uint32_t> tile_sizes = layout.TileSizes(segment);
  const bool has_residual = KeepsResidual(options_);
  LONGWAVE_CHECK(residual.size() == (has_residual ? place.coefficient_count : 0));

  const auto draw_of = [&](uint32_t tile) {
    return SelectionDraw(options_.run_seed, round, uint64_t{place.tile_begin} + tile);
  };
  const auto merge_into_residual = [&](uint32_t tile, std::span<float> e) {
    const std::span<float> g = std::span(merged_).first(e.size());
    const uint32_t nonzero =
        MergeTile(tile, static_cast<uint32_t>(e.size()), draw_of(tile), contributions, g);
    for (size_t i = 0; i < e.size(); ++i) e[i] = Saturate(double{e[i]} + double{g[i]});
    return nonzero;
  };

  MergedSegment result;
  for (const Contribution& contribution : contributions) result.weight_sum += contribution.weight;

  if (!SendsUnion(options_)) {
    const PayloadLayout down = LayoutOf(FixedDownFormat(options_), tile_sizes);
    result.payload.resize(down.bytes());
    BeginPayload(down, result.payload);
    size_t begin = 0;
    for (uint32_t tile = 0; tile < tile_sizes.size(); begin += tile_sizes[tile++]) {
      std::span<float> values = std::span(merged_).first(tile_sizes[tile]);
      if (has_residual) {
        values = residual.subspan(begin, tile_sizes[tile]);
        merge_into_residual(tile, values);
      } else {
        MergeTile(tile, tile_sizes[tile], draw_of(tile), contributions, values);
      }
      result.square_sum +=
          EmitTile(down, tile, draw_of(tile), values, has_residual, result.payload);
    }
    return result;
  }

  // The payload's k depends on every tile, so all are merged before the first is written.
  if (!has_residual) dense_.resize(place.coefficient_count);
  const std::span<float> all = has_residual ? residual : std::span<float>(dense_);
  uint32_t k = 0;
  size_t begin = 0;
  for (uint32_t tile = 0; tile < tile_sizes.size(); begin += tile_sizes[tile++]) {
    const std::span<float> values = all.subspan(begin, tile_sizes[tile]);
    k = std::max(k, has_residual
                        ? merge_into_residual(tile, values)
                        : MergeTile(tile, tile_sizes[tile], draw_of(tile), contributions, values));
  }
  const PayloadLayout down = UnionLayout(options_, k, tile_sizes);
  result.payload.resize(down.bytes());
  BeginPayload(down, result.payload);
  begin = 0;
  for (uint32_t tile = 0; tile < tile_sizes.size(); begin += tile_sizes[tile++]) {
    result.square_sum += EmitTile(down, tile, draw_of(tile), all.subspan(begin, tile_sizes[tile]),
                                  has_residual, result.payload);
  }
  return result;
}

uint32_t Merger::MergeTile(uint32_t tile, uint32_t tile_size, uint64_t draw,
                           std::span<const Contribution> contributions, std::span<float> merged) {
  std::fill_n(sums_.begin(), tile_size, 0);
  std::fill_n(sender_weights_.begin(), tile_size, 0);
  int exponent = 0;
  if (!ChooseQuantum(tile, draw, contributions, &exponent)) {
    std::fill(merged.begin(), merged.end(), 0.0f);
    return 0;
  }
  uint64_t weight_sum = 0;
  for (const Contribution& contribution : contributions) {
    weight_sum += contribution.weight;
    Accumulate(contribution, tile, draw, exponent);
  }

  const double quantum = std::ldexp(1.0, -exponent);
  const double floor = options_.rho * static_cast<double>(weight_sum);
  uint32_t nonzero = 0;
  for (uint32_t i = 0; i < tile_size; ++i) {
    if (sums_[i] == 0) {  // not sent, or its contributions cancel
      merged[i] = 0;
      continue;
    }
    const double divisor = std::max(static_cast<double>(sender_weights_[i]), floor);
    merged[i] = Saturate(static_cast<double>(sums_[i]) * quantum / divisor);
    nonzero += merged[i] != 0;
  }
  return nonzero;
}

bool Merger::ChooseQuantum(uint32_t tile, uint64_t draw,
                           std::span<const Contribution> contributions, int* exponent) {
  double bound = 0;
  for (const auto& [weight, layout, payload] : contributions) {
    const uint32_t count = layout->sent_count(tile);
    const ValueCodec codec = layout->format().codec;
    const std::span<uint16_t> indices = std::span(indices_).first(count);
    double magnitude = 0;
    if (HasScale(codec)) {
      const float scale =
          ReadTileLevels(*layout, tile, payload, draw, indices, std::span(levels_).first(count));
      magnitude = double{scale} * TopLevel(codec);
    } else {
      const std::span<float> values = std::span(values_).first(count);
      ReadTile(*layout, tile, payload, draw, indices, values);
      for (const float value : values) magnitude = std::max(magnitude, std::fabs(double{value}));
    }
    bound = std::max(bound, static_cast<double>(weight) * magnitude);
  }
  if (bound == 0) return false;
  int bound_exponent = 0;
  std::frexp(bound, &bound_exponent);  // bound < 2^bound_exponent
  *exponent = 61 - bound_exponent - static_cast<int>(std::bit_width(contributions.size() - 1));
  return true;
}

void Merger::Accumulate(const Contribution& contribution, uint32_t tile, uint64_t draw,
                        int exponent) {
  const PayloadLayout& layout = *contribution.layout;
  const uint32_t count = layout.sent_count(tile);
  const std::span<uint16_t> indices = std::span(indices_).first(count);
  const double weight = static_cast<double>(contribution.weight);
  const auto signed_weight = static_cast<int64_t>(contribution.weight);
  if (HasScale(layout.format().codec)) {
    const std::span<int32_t> levels = std::span(levels_).first(count);
    const float scale = ReadTileLevels(layout, tile, contribution.payload, draw, indices, levels);
    const int64_t multiplier = std::llrint(std::ldexp(weight * double{scale}, exponent));
    for (uint32_t i = 0; i < count; ++i) {
      sums_[indices[i]] += levels[i] * multiplier;
      sender_weights_[indices[i]] += signed_weight;
    }
    return;
  }
  const std::span<float> values = std::span(values_).first(count);
  ReadTile(layout, tile, contribution.payload, draw, indices, values);
  const double unit = std::ldexp(1.0, exponent);
  for (uint32_t i = 0; i < count; ++i) {
    sums_[indices[i]] += std::llrint(weight * double{values[i]} * unit);
    sender_weights_[indices[i]] += signed_weight;
  }
}

double Merger::EmitTile(const PayloadLayout& layout, uint32_t tile, uint64_t draw,
                        std::span<float> values, bool values_are_residual,
                        std::span<std::byte> payload) {
  const uint32_t count = layout.sent_count(tile);
  const std::span<uint16_t> indices = std::span(indices_).first(count);
  SelectIndices(layout.format().selection, values, draw, indices);
  const std::span<float> sent = std::span(values_).first(count);
  const std::span<uint32_t> codes = std::span(codes_).first(count);
  for (uint32_t i = 0; i < count; ++i) sent[i] = values[indices[i]];
  const uint16_t scale = QuantizeTile(layout.format().codec, sent, codes);
  WriteTile(layout, tile, indices, codes, scale, payload);
  double square_sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    square_sum += double{sent[i]} * double{sent[i]};
    if (values_are_residual) values[indices[i]] -= sent[i];
  }
  return square_sum;
}

}  // namespace longwave
