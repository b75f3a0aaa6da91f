#include "tests/bench/shard/payloads.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave {
namespace {

// indices.size() different indices below n, ascending.
void DrawIndices(uint32_t n, Rng& rng, std::span<uint16_t> indices) {
  if (indices.size() == n) return std::iota(indices.begin(), indices.end(), uint16_t{0});
  std::bitset<kTileSizeMax> chosen;
  for (size_t left = indices.size(); left > 0;) {
    const size_t index = rng.Below(n);
    if (!chosen[index]) --left;
    chosen.set(index);
  }
  size_t i = 0;
  for (uint32_t index = 0; index < n; ++index) {
    if (chosen[index]) indices[i++] = static_cast<uint16_t>(index);
  }
}

float DrawValue(Rng& rng) { return static_cast<float>(rng.Uniform() + 0.25) * 1e-3f; }

// Codes of one tile; returns its scale's code and adds its squares to *square_sum.
uint16_t DrawValues(ValueCodec codec, Rng& rng, std::span<uint32_t> codes, double* square_sum) {
  if (!HasScale(codec)) {
    for (uint32_t& code : codes) {
      const uint32_t sign = static_cast<uint32_t>(rng.Next() >> 63) << 31;
      const uint32_t bits = std::bit_cast<uint32_t>(DrawValue(rng)) | sign;
      const uint32_t kept = codec == ValueCodec::kFp32 ? bits : bits & 0xffff0000u;
      const double value = std::bit_cast<float>(kept);
      *square_sum += value * value;
      code = codec == ValueCodec::kFp32 ? bits : bits >> 16;
    }
    return 0;
  }
  const uint16_t scale = EncodeScale16(DrawValue(rng));
  double levels = 0;
  for (uint32_t& code : codes) {
    code = static_cast<uint32_t>(rng.Below(uint64_t{1} << ValueBits(codec)));
    const double level = LevelOf(codec, code);
    levels += level * level;
  }
  const double value = DecodeScale16(scale);
  *square_sum += levels * value * value;
  return scale;
}

BenchPush MakePush(const PayloadLayout& layout, uint32_t worker, uint32_t segment,
                   uint64_t weight_max) {
  std::vector<std::byte> payload(layout.bytes());
  BeginPayload(layout, payload);
  Rng rng(worker, segment);
  std::vector<uint16_t> indices(kTileSizeMax);
  std::vector<uint32_t> codes(kTileSizeMax);
  double square_sum = 0;
  for (uint32_t tile = 0; tile < layout.tile_count(); ++tile) {
    const uint32_t count = layout.sent_count(tile);
    const auto tile_indices = std::span(indices).first(count);
    const auto tile_codes = std::span(codes).first(count);
    DrawIndices(layout.tile_size(tile), rng, tile_indices);
    const uint16_t scale = DrawValues(layout.format().codec, rng, tile_codes, &square_sum);
    WriteTile(layout, tile, tile_indices, tile_codes, scale, payload);
  }
  return {.payload = Buffer(std::move(payload)),
          .norm = static_cast<float>(std::sqrt(square_sum)),
          .weight = weight_max - std::min<uint64_t>(weight_max - 1, worker % 7)};
}

}  // namespace

absl::StatusOr<BenchPushes> BenchPushes::Create(const Layout& layout, const PayloadFormat& format,
                                                uint32_t workers, uint64_t weight_max) {
  if (format.selection != Selection::kTopK && format.selection != Selection::kAll) {
    return absl::InvalidArgumentError(
        absl::StrCat("pushes of ", Describe(format), "; wanted the selection topk or all"));
  }
  BenchPushes result;
  result.workers_ = workers;
  const auto segments = static_cast<uint32_t>(layout.segments().size());
  for (uint32_t segment = 0; segment < segments; ++segment) {
    LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout payload,
                              PayloadLayout::Create(format, layout.TileSizes(segment)));
    result.layouts_.push_back(std::move(payload));
  }
  result.pushes_.reserve(size_t{workers} * segments);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    for (uint32_t segment = 0; segment < segments; ++segment) {
      result.pushes_.push_back(MakePush(result.layouts_[segment], worker, segment, weight_max));
    }
  }
  return result;
}

uint64_t BenchPushes::coefficients() const {
  uint64_t sum = 0;
  for (uint32_t segment = 0; segment < segments(); ++segment) sum += coefficients(segment);
  return sum;
}

uint64_t BenchPushes::coefficients(uint32_t segment) const {
  const PayloadLayout& layout = layouts_[segment];
  uint64_t sum = 0;
  for (uint32_t tile = 0; tile < layout.tile_count(); ++tile) sum += layout.sent_count(tile);
  return sum;
}

}  // namespace longwave
