#include "server/shard/tile_merger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/elias_fano.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "kernels/cpu/values.h"
#include "server/shard/merge.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longwave {
namespace {

// Number of contributions whose indices are read before the first of them is added up. A load from
// a payload waits for earlier stores to sums whose address ends in the same twelve bits, and
// interleaved stores would be too many. Payloads are also prefetched this far ahead, since with
// hundreds of them the processor does not predict the next one.
constexpr size_t kBatch = 12;

// Bytes of the smallest integer type for `share_sum`.
uint32_t ShareBytes(uint64_t share_sum) {
  if (share_sum <= std::numeric_limits<uint8_t>::max()) return 1;
  if (share_sum <= std::numeric_limits<uint16_t>::max()) return 2;
  return share_sum <= std::numeric_limits<uint32_t>::max() ? 4 : 8;
}

// Calls f with `memory` as an array of that integer type.
template <typename F>
void WithShares(uint64_t share_sum, std::byte* memory, const F& f) {
  switch (ShareBytes(share_sum)) {
    case 1:
      return f(reinterpret_cast<uint8_t*>(memory));
    case 2:
      return f(reinterpret_cast<uint16_t*>(memory));
    case 4:
      return f(reinterpret_cast<uint32_t*>(memory));
    default:
      return f(reinterpret_cast<uint64_t*>(memory));
  }
}

// Both 2^±kExponentMax, and products and quotients with them, are normal doubles.
constexpr int kExponentMax = 900;

// std::llrint in the default rounding mode, inlined.
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

// Adds values and shares of one contribution, both in one word a coefficient.
struct AddOnTop {
  uint64_t Addend(int64_t value) const { return static_cast<uint64_t>(value) + share; }
  void Add(uint32_t index, uint64_t addend) const { sums[index] += addend; }

  uint64_t* sums;
  uint64_t share;  // at its place in the word
};
// Adds values and shares of one contribution, each in its own array.
template <typename Share>
struct AddBeside {
  uint64_t Addend(int64_t value) const { return static_cast<uint64_t>(value); }
  void Add(uint32_t index, uint64_t addend) const {
    sums[index] += addend;
    shares[index] = static_cast<Share>(shares[index] + share);
  }

  uint64_t* sums;
  Share* shares;
  Share share;
};

// Adds addend(code) for codes of kBits each. A block of codes is one word, so the inner loop loads
// only sums.
template <uint32_t kBits, typename Sink, typename Addend>
void AddCodes(std::span<const std::byte> codes, std::span<const uint16_t> indices,
              const Addend& addend, const Sink& sink) {
  constexpr uint32_t kPerWord = 64 / kBits;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  const auto count = static_cast<uint32_t>(indices.size());
  const uint16_t* const index = indices.data();
  for (uint32_t i = 0; i < count; i += kPerWord) {
    uint64_t word = LoadWordAt(codes, i * kBits / 8);
    const uint32_t end = std::min(count, i + kPerWord);
    for (uint32_t j = i; j < end; ++j, word >>= kBits) sink.Add(index[j], addend(word & kMask));
  }
}

// As AddCodes, with a table of the codes' addends.
template <uint32_t kBits, typename Sink>
void AddLevels(ValueCodec codec, int64_t multiple, std::span<const std::byte> codes,
               std::span<const uint16_t> indices, const Sink& sink) {
  std::array<uint64_t, 1u << kBits> table;
  for (uint32_t code = 0; code < table.size(); ++code) {
    table[code] = sink.Addend(LevelOf(codec, code) * multiple);
  }
  AddCodes<kBits>(
      codes, indices, [&](uint64_t code) { return table[code]; }, sink);
}

}  // namespace

MergePlan::MergePlan(std::span<const Contribution> all, double rho) : contributions(all) {
  unit = 0;
  for (const Contribution& contribution : all) {
    unit = std::gcd(unit, contribution.weight);
    weight_sum += contribution.weight;
  }
  LONGWAVE_CHECK(unit > 0);
  bool all_scaled = true;
  for (const Contribution& contribution : all) {
    multipliers.push_back(static_cast<double>(contribution.weight) * contribution.factor);
    shares.push_back(contribution.weight / unit);
    const ValueCodec codec = contribution.layout->format().codec;
    all_scaled = all_scaled && HasScale(codec);
    if (all_scaled) top_levels.push_back(TopLevel(codec));
  }
  if (!all_scaled) top_levels.clear();
  share_sum = weight_sum / unit;
  floor = rho * static_cast<double>(weight_sum);
  // The quotient may be rounded up or down, so the exact comparison corrects it.
  const auto is_floor = [&](uint64_t s) { return static_cast<double>(s * unit) <= floor; };
  floor_shares = std::min(share_sum, static_cast<uint64_t>(floor / static_cast<double>(unit)));
  while (floor_shares < share_sum && is_floor(floor_shares + 1)) ++floor_shares;
  while (floor_shares > 0 && !is_floor(floor_shares)) --floor_shares;
}

uint32_t TileMerger::Merge(const MergePlan& plan, uint32_t tile, uint64_t draw, Outcome outcome,
                           std::span<float> out, uint32_t* maxima) {
  math_ = &cpu::TileMathOf(ChosenIsa());
  const auto n = static_cast<uint32_t>(out.size());
  const bool adds = outcome == Outcome::kAdd;
  if (!Sum(plan, tile, draw)) {
    if (!adds) std::fill(out.begin(), out.end(), 0.0f);
    math_->maxima(n, out.data(), maxima);
    return 0;
  }
  // Step 5.
  const bool on_top = share_bits_ > 0;
  return math_->finish_merge({.n = n,
                              .sums = sums_.data(),
                              .shares = shares_.data(),
                              .share_bytes = on_top ? 0 : ShareBytes(plan.share_sum),
                              .share_bits = share_bits_,
                              .exponent = exponent_,
                              .unit = plan.unit,
                              .floor = plan.floor,
                              .floor_shares = plan.floor_shares,
                              .add = adds,
                              .out = out.data(),
                              .largest = kMergedMax},
                             maxima);
}

bool TileMerger::Sum(const MergePlan& plan, uint32_t tile, uint64_t draw) {
  if (!ChooseQuantum(plan, tile)) return false;
  ChooseMultiples(plan);
  if (share_bits_ > 0) {
    Accumulate(plan, tile, draw, [&](uint64_t share) {
      return AddOnTop{sums_.data(), share << (64 - share_bits_)};
    });
    return true;
  }
  WithShares(plan.share_sum, shares_.data(), [&]<typename Share>(Share* shares) {
    Accumulate(plan, tile, draw, [&](uint64_t share) {
      return AddBeside<Share>{sums_.data(), shares, static_cast<Share>(share)};
    });
  });
  return true;
}

bool TileMerger::ChooseQuantum(const MergePlan& plan, uint32_t tile) {
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
  // Only clipping to nearly zero comes near the limit. Smaller values count as zero.
  exponent_ =
      std::min(61 - bound_exponent - static_cast<int>(std::bit_width(count - 1)), kExponentMax);
  return true;
}

void TileMerger::ChooseMultiples(const MergePlan& plan) {
  const size_t count = plan.contributions.size();
  const double unit = std::ldexp(1.0, exponent_);
  multiples_.resize(count);
  // A zero scale comes with codes of zero, whatever their levels: the multiple is zero, too.
  for (size_t c = 0; c < count; ++c) {
    multiples_[c] = RoundToInt(plan.multipliers[c] * double{scales_[c]} * unit);
  }
  share_bits_ = 0;
  if (plan.top_levels.empty()) return;
  // An unclipped weight times a scale has few digits. All multiples then end in zeros, and dropping
  // these shortens the sums, which are below 2^62 with them.
  uint64_t any = 0;
  uint64_t sum_max = 0;  // of the magnitudes of one coefficient
  for (size_t c = 0; c < count; ++c) {
    const auto multiple = static_cast<uint64_t>(multiples_[c]);
    any |= multiple;
    sum_max += multiple * plan.top_levels[c];
  }
  if (any == 0) return;
  const int zeros = std::countr_zero(any);
  const int share_bits = static_cast<int>(std::bit_width(plan.share_sum));
  const int sum_bits = static_cast<int>(std::bit_width(sum_max >> zeros)) + 1;
  const double largest = std::ldexp(static_cast<double>(sum_max), -exponent_);
  if (share_bits + sum_bits > 64 ||
      largest > kMergedMax * std::max(plan.floor, static_cast<double>(plan.unit))) {
    return;
  }
  for (int64_t& multiple : multiples_) multiple >>= zeros;
  exponent_ -= zeros;
  share_bits_ = share_bits;
}

template <typename SinkOf>
void TileMerger::Accumulate(const MergePlan& plan, uint32_t tile, uint64_t draw,
                            const SinkOf& sink_of) {
  const std::span<const Contribution> all = plan.contributions;
  for (size_t c = 0; c < std::min(kBatch, all.size()); ++c) Prefetch(all[c], tile);
  for (size_t begin = 0, end; begin < all.size(); begin = end) {
    const PayloadLayout& layout = *all[begin].layout;
    const uint32_t count = layout.sent_count(tile);
    const bool is_topk = layout.format().selection == Selection::kTopK;
    const size_t batch = std::min({kBatch, all.size() - begin, indices_.size() / count});
    std::array<const std::byte*, kBatch> blocks;
    for (end = begin; end < begin + batch && all[end].layout == &layout; ++end) {
      blocks[end - begin] = all[end].payload.data() + layout.offsets(tile).indices;
    }
    if (is_topk) {
      // Validation of the payloads decoded these very bytes.
      LONGWAVE_CHECK(EliasFanoDecodeAll(layout.tile_size(tile), count,
                                        std::span(blocks).first(end - begin), indices_.data()));
    } else {
      // All contributions of a round draw the same random or stride indices.
      ReadTileIndices(layout, tile, {}, draw, std::span(indices_).first(count));
    }
    for (size_t c = begin; c < end; ++c) {
      if (c + kBatch < all.size()) Prefetch(all[c + kBatch], tile);
      const size_t at = is_topk ? (c - begin) * count : 0;
      AccumulateOne(plan, tile, c, std::span(indices_).subspan(at, count), sink_of(plan.shares[c]));
    }
  }
}

template <typename Sink>
void TileMerger::AccumulateOne(const MergePlan& plan, uint32_t tile, size_t number,
                               std::span<const uint16_t> indices, const Sink& sink) {
  const Contribution& contribution = plan.contributions[number];
  const PayloadLayout& layout = *contribution.layout;
  const ValueCodec codec = layout.format().codec;
  const uint32_t bits = ValueBits(codec);
  const std::span<const std::byte> codes =
      contribution.payload.subspan(layout.offsets(tile).values, (indices.size() * bits + 7) / 8);
  if (HasScale(codec)) {
    const int64_t multiple = multiples_[number];
    if constexpr (std::is_same_v<Sink, AddOnTop>) {
      if (bits <= 2) {
        std::array<uint64_t, 4> addends;
        for (uint32_t code = 0; code < 1u << bits; ++code) {
          addends[code] = sink.Addend(LevelOf(codec, code) * multiple);
        }
        return math_->add_codes(bits, addends.data(),
                                reinterpret_cast<const uint8_t*>(codes.data()),
                                static_cast<uint32_t>(indices.size()), indices.data(), sink.sums);
      }
    }
    switch (bits) {
      case 1:
        return AddLevels<1>(codec, multiple, codes, indices, sink);
      case 2:
        return AddLevels<2>(codec, multiple, codes, indices, sink);
      case 4:
        return AddLevels<4>(codec, multiple, codes, indices, sink);
      default:
        return AddCodes<8>(
            codes, indices,
            [&](uint64_t code) {
              const int32_t level = LevelOf(ValueCodec::kInt8, static_cast<uint32_t>(code));
              return sink.Addend(level * multiple);
            },
            sink);
    }
  }
  const double multiplier = plan.multipliers[number];
  const double unit = std::ldexp(1.0, exponent_);
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint32_t pattern = bits == 32 ? LoadLe<uint32_t>(codes.data() + 4 * i)
                                        : uint32_t{LoadLe<uint16_t>(codes.data() + 2 * i)} << 16;
    const double value = std::bit_cast<float>(pattern);
    sink.Add(indices[i], sink.Addend(RoundToInt(multiplier * value * unit)));
  }
}

}  // namespace longwave
