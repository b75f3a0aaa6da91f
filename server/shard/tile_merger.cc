#include "server/shard/tile_merger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "server/shard/finish_tile.h"
#include "server/shard/merge.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longwave {
namespace {

// Contributions whose indices are read before the first of them is added up: a load from a payload
// waits for stores to sums before it that end in the same twelve bits of address, of which there
// are too many to have them in between. Also how far ahead payloads are fetched: with hundreds of
// them no processor guesses the next one.
constexpr size_t kBatch = 12;
constexpr size_t kFloatsALine = 16;

// 2^±kExponentMax are doubles, and so are the products of the one and quotients by the other.
constexpr int kExponentMax = 900;

// std::llrint in the default rounding, without its call.
int64_t RoundToInt(double value) {
#if defined(__x86_64__)
  return _mm_cvtsd_si64(_mm_set_sd(value));
#else
  return std::llrint(value);
#endif
}

void Prefetch(const Contribution& contribution, uint32_t tile) {
  const TileOffsets& offsets = contribution.layout->offsets(tile);
  const std::byte* const from = contribution.payload.data();
  if (contribution.layout->format().selection == Selection::kTopK) {
    __builtin_prefetch(from + offsets.indices);
    __builtin_prefetch(from + offsets.indices + 63);
  }
  __builtin_prefetch(from + offsets.values);
}

// The largest magnitude of a tile in fp32 or bf16.
double LargestMagnitude(ValueCodec codec, const std::byte* from, uint32_t count) {
  uint32_t largest = 0;
  if (codec == ValueCodec::kFp32) {
    for (uint32_t i = 0; i < count; ++i) {
      largest = std::max(largest, LoadLe<uint32_t>(from + 4 * size_t{i}) & 0x7fffffffu);
    }
  } else {
    for (uint32_t i = 0; i < count; ++i) {
      largest = std::max(largest, LoadLe<uint16_t>(from + 2 * size_t{i}) & 0x7fffu);
    }
    largest <<= 16;
  }
  return std::bit_cast<float>(largest);
}

// Adds addend(code) for the codes of kBits each. A block of codes is a word, so that the loop over
// it has no loads but those of the sums.
template <uint32_t kBits, typename Share, typename Addend>
void AddCodes(std::span<const std::byte> codes, std::span<const uint16_t> indices, Share share,
              const Addend& addend, int64_t* sums, Share* shares) {
  constexpr uint32_t kPerWord = 64 / kBits;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  const auto count = static_cast<uint32_t>(indices.size());
  const uint16_t* const index = indices.data();
  for (uint32_t i = 0; i < count; i += kPerWord) {
    uint64_t word = LoadWordAt(codes, i * kBits / 8);
    const uint32_t end = std::min(count, i + kPerWord);
    for (uint32_t j = i; j < end; ++j, word >>= kBits) {
      sums[index[j]] += addend(word & kMask);
      shares[index[j]] = static_cast<Share>(shares[index[j]] + share);
    }
  }
}

// The same by a table of the codes' addends.
template <uint32_t kBits, typename Share>
void AddLevels(ValueCodec codec, int64_t multiplier, std::span<const std::byte> codes,
               std::span<const uint16_t> indices, Share share, int64_t* sums, Share* shares) {
  std::array<int64_t, 1u << kBits> table;
  for (uint32_t code = 0; code < table.size(); ++code) {
    table[code] = LevelOf(codec, code) * multiplier;
  }
  AddCodes<kBits>(
      codes, indices, share, [&](uint64_t code) { return table[code]; }, sums, shares);
}

}  // namespace

MergePlan::MergePlan(std::span<const Contribution> all, double rho) : contributions(all) {
  unit = 0;
  for (const Contribution& contribution : all) {
    unit = std::gcd(unit, contribution.weight);
    weight_sum += contribution.weight;
  }
  LONGWAVE_CHECK(unit > 0);
  for (const Contribution& contribution : all) {
    multipliers.push_back(static_cast<double>(contribution.weight) * contribution.factor);
    shares.push_back(contribution.weight / unit);
  }
  share_sum = weight_sum / unit;
  floor = rho * static_cast<double>(weight_sum);
  // The quotient may be rounded up or down: the comparison that it stands for decides.
  const auto is_floor = [&](uint64_t s) { return static_cast<double>(s * unit) <= floor; };
  floor_shares = std::min(share_sum, static_cast<uint64_t>(floor / static_cast<double>(unit)));
  while (floor_shares < share_sum && is_floor(floor_shares + 1)) ++floor_shares;
  while (floor_shares > 0 && !is_floor(floor_shares)) --floor_shares;
}

uint32_t TileMerger::Merge(const MergePlan& plan, uint32_t tile, uint64_t draw,
                           std::span<float> merged) {
  if (!Sum(plan, tile, static_cast<uint32_t>(merged.size()), draw)) {
    std::fill(merged.begin(), merged.end(), 0.0f);
    return 0;
  }
  return Finish<false>(plan, merged);
}

uint32_t TileMerger::MergeInto(const MergePlan& plan, uint32_t tile, uint64_t draw,
                               std::span<float> e, std::span<const float> next) {
  next_ = next;
  const bool any = Sum(plan, tile, static_cast<uint32_t>(e.size()), draw);
  next_ = {};
  return any ? Finish<true>(plan, e) : 0;
}

bool TileMerger::Sum(const MergePlan& plan, uint32_t tile, uint32_t tile_size, uint64_t draw) {
  if (!ChooseQuantum(plan, tile, &exponent_)) return false;
  uint64_t sent = 0;
  for (const Contribution& contribution : plan.contributions) {
    sent += contribution.layout->sent_count(tile);
    if (sent > kListMax) break;
  }
  listed_ = sent <= kListMax && 4 * sent <= tile_size ? static_cast<uint32_t>(sent) : 0;
  WithShares(plan.share_sum, shares_.data(),
             [&](auto* shares) { Accumulate(plan, tile, draw, shares); });
  return true;
}

bool TileMerger::ChooseQuantum(const MergePlan& plan, uint32_t tile, int* exponent) {
  const size_t count = plan.contributions.size();
  scales_.resize(count);
  double bound = 0;
  for (size_t c = 0; c < count; ++c) {
    const Contribution& contribution = plan.contributions[c];
    const PayloadLayout& layout = *contribution.layout;
    const ValueCodec codec = layout.format().codec;
    const TileOffsets& offsets = layout.offsets(tile);
    double magnitude = 0;
    if (HasScale(codec)) {
      const float scale =
          DecodeScale16(LoadLe<uint16_t>(contribution.payload.data() + offsets.scale));
      scales_[c] = scale;
      magnitude = double{scale} * TopLevel(codec);
    } else {
      magnitude = LargestMagnitude(codec, contribution.payload.data() + offsets.values,
                                   layout.sent_count(tile));
    }
    bound = std::max(bound, plan.multipliers[c] * magnitude);
  }
  if (bound == 0) return false;
  int bound_exponent = 0;
  std::frexp(bound, &bound_exponent);  // bound < 2^bound_exponent
  // Only clipping to next to nothing comes near the limit; what is smaller than that counts as
  // zero.
  *exponent =
      std::min(61 - bound_exponent - static_cast<int>(std::bit_width(count - 1)), kExponentMax);
  return true;
}

template <typename Share>
void TileMerger::Accumulate(const MergePlan& plan, uint32_t tile, uint64_t draw, Share* shares) {
  const std::span<const Contribution> all = plan.contributions;
  for (size_t c = 0; c < std::min(kBatch, all.size()); ++c) Prefetch(all[c], tile);
  size_t fetched = 0;  // of next_
  uint32_t at = 0;     // in indices_, where those of a list stay
  for (size_t begin = 0; begin < all.size();) {
    if (listed_ == 0) at = 0;
    size_t end = begin;
    std::array<std::span<const uint16_t>, kBatch> indices;
    for (uint32_t count; end < std::min(begin + kBatch, all.size()); ++end, at += count) {
      const PayloadLayout& layout = *all[end].layout;
      count = layout.sent_count(tile);
      if (end > begin && at + count > indices_.size()) break;
      // All of a round draw the same random or stride indices, and have all alike.
      if (layout.format().selection != Selection::kTopK && end > begin && listed_ == 0 &&
          all[end - 1].layout->format() == layout.format()) {
        indices[end - begin] = indices[end - 1 - begin];
        count = 0;
        continue;
      }
      const std::span<uint16_t> to = std::span(indices_).subspan(at, count);
      ReadTileIndices(layout, tile, all[end].payload, draw, to);
      indices[end - begin] = to;
    }
    for (size_t c = begin; c < end; ++c) {
      if (c + kBatch < all.size()) Prefetch(all[c + kBatch], tile);
      // An equal part of the next tile's E with each, so that fetching it takes no time of its own.
      const size_t fetch_end = next_.size() * (c + 1) / all.size();
      for (; fetched < fetch_end; fetched += kFloatsALine) {
        __builtin_prefetch(&next_[fetched], 1, 2);
      }
      AccumulateOne(all[c], tile, plan.multipliers[c], scales_[c],
                    static_cast<Share>(plan.shares[c]), indices[c - begin], shares);
    }
    begin = end;
  }
}

template <typename Share>
void TileMerger::AccumulateOne(const Contribution& contribution, uint32_t tile, double multiplier,
                               float scale, Share share, std::span<const uint16_t> indices,
                               Share* shares) {
  const PayloadLayout& layout = *contribution.layout;
  const ValueCodec codec = layout.format().codec;
  const uint32_t bits = ValueBits(codec);
  const std::span<const std::byte> codes =
      contribution.payload.subspan(layout.offsets(tile).values, (indices.size() * bits + 7) / 8);
  const double unit = std::ldexp(1.0, exponent_);
  int64_t* const sums = sums_.data();
  if (HasScale(codec)) {
    // A zero scale has zero codes, whatever levels these stand for: the multiplier is zero too.
    const int64_t m = RoundToInt(multiplier * double{scale} * unit);
    switch (bits) {
      case 1:
        return AddLevels<1>(codec, m, codes, indices, share, sums, shares);
      case 2:
        return AddLevels<2>(codec, m, codes, indices, share, sums, shares);
      case 4:
        return AddLevels<4>(codec, m, codes, indices, share, sums, shares);
      default:
        return AddCodes<8>(
            codes, indices, share,
            [m](uint64_t code) {
              return LevelOf(ValueCodec::kInt8, static_cast<uint32_t>(code)) * m;
            },
            sums, shares);
    }
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint32_t pattern = bits == 32 ? LoadLe<uint32_t>(codes.data() + 4 * i)
                                        : uint32_t{LoadLe<uint16_t>(codes.data() + 2 * i)} << 16;
    const double value = std::bit_cast<float>(pattern);
    sums[indices[i]] += RoundToInt(multiplier * value * unit);
    shares[indices[i]] = static_cast<Share>(shares[indices[i]] + share);
  }
}

template <bool kInto>
uint32_t TileMerger::Finish(const MergePlan& plan, std::span<float> out) {
  const FinishArgs args{.plan = &plan,
                        .exponent = exponent_,
                        .list = std::span(indices_).first(listed_),
                        .sums = sums_.data(),
                        .out = out};
  return WithShares(plan.share_sum, shares_.data(),
                    [&](auto* shares) { return FinishTile<kInto>(args, shares); });
}

}  // namespace longwave
