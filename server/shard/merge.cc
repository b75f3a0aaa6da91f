#include "server/shard/merge.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/wire/square_sum.h"
#include "common/wire/tile_codec.h"
#include "kernels/cpu/values.h"
#include "server/shard/merged_bytes.h"

namespace longwave {
namespace {

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
  // With indices for nearly all of a large segment a payload may exceed a frame, while dense fits.
  auto layout = PayloadLayout::Create(sparse, tile_sizes);
  return layout.ok() && layout->bytes() < dense.bytes() ? *std::move(layout) : dense;
}

absl::Status CheckK(const PayloadFormat& format, const char* direction) {
  if (format.selection == Selection::kAll || (format.k >= 1 && format.k <= kTileSizeMax)) {
    return absl::OkStatus();
  }
  return InvalidArgument(direction, ".k is ", format.k, ", wanted 1 to ", kTileSizeMax);
}

}  // namespace

absl::Status Validate(const MergeOptions& options) {
  if (!(options.rho >= 0 && options.rho <= 1)) {
    return InvalidArgument("rho is ", options.rho, ", wanted 0 to 1");
  }
  if (options.down.selection != Selection::kAll && options.down.selection != Selection::kTopK) {
    return InvalidArgument("down.selection is ", Name(options.down.selection),
                           ", wanted all (which follows up.selection) or topk");
  }
  if (absl::Status status = CheckK(options.up, "up"); !status.ok()) return status;
  return CheckK(options.down, "down");
}

size_t MergedBytesMax(const MergeOptions& options, uint32_t contributions,
                      std::span<const uint32_t> tile_sizes) {
  if (!SendsUnion(options)) return LayoutOf(FixedDownFormat(options), tile_sizes).bytes();
  const uint64_t chosen = uint64_t{contributions} * options.up.k;
  const auto k = static_cast<uint32_t>(std::min<uint64_t>(chosen, kTileSizeMax));
  return UnionLayout(options, k, tile_sizes).bytes();
}

bool KeepsResidual(const MergeOptions& options) {
  return options.down.selection == Selection::kTopK || options.down.codec != ValueCodec::kFp32;
}

std::vector<double> ClipFactors(std::span<const float> norms, float last, double clip) {
  std::vector<double> factors(norms.size(), 1.0);
  std::vector<float> sorted;
  std::copy_if(norms.begin(), norms.end(), std::back_inserter(sorted),
               [](float norm) { return norm > 0; });
  if (clip == 0 || sorted.empty() || (sorted.size() < 3 && last == 0)) return factors;
  if (sorted.size() == 1) sorted.front() = last;
  if (sorted.size() == 2) sorted.push_back(last);
  const auto median = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), median, sorted.end());
  const double limit = clip * double{*median};
  for (size_t i = 0; i < norms.size(); ++i) {
    const double norm = norms[i];
    if (norm > limit) factors[i] = norm > kLeftOutAbove * limit ? 0 : limit / norm;
  }
  return factors;
}

float MergedSegment::norm() const {
  return static_cast<float>(std::min(std::sqrt(square_sum), double{FLT_MAX}));
}

Merger::Merger(const MergeOptions& options, std::shared_ptr<TileThreads> threads)
    : options_(options),
      threads_(threads != nullptr ? std::move(threads) : std::make_shared<TileThreads>(1)) {
  for (uint32_t i = 0; i < threads_->slot_count(); ++i) slots_.push_back(std::make_unique<Slot>());
}

struct Merger::Job {
  Job(const MergeOptions& options, const Layout& layout, uint32_t segment, uint32_t of_round,
      std::span<const Contribution> contributions)
      : plan(contributions, options.rho),
        tile_sizes(layout.TileSizes(segment)),
        begins(tile_sizes.size()),
        square_sums(tile_sizes.size()),
        tile_begin(layout.segments()[segment].tile_begin),
        run_seed(options.run_seed),
        round(of_round) {
    std::exclusive_scan(tile_sizes.begin(), tile_sizes.end(), begins.begin(), size_t{0});
  }
  uint64_t DrawOf(uint32_t tile) const {
    return SelectionDraw(run_seed, round, uint64_t{tile_begin} + tile);
  }
  // The tile's part of the segment's coefficients `all`.
  std::span<float> Of(std::span<float> all, uint32_t tile) const {
    return all.subspan(begins[tile], tile_sizes[tile]);
  }
  uint32_t tile_count() const { return static_cast<uint32_t>(tile_sizes.size()); }

  const MergePlan plan;
  const std::vector<uint32_t> tile_sizes;
  std::vector<size_t> begins;
  std::vector<double> square_sums;  // by tile: the sum over them does not depend on threads
  const uint32_t tile_begin;
  const uint64_t run_seed;
  const uint32_t round;
};

MergedSegment Merger::Merge(const Layout& layout, uint32_t segment, uint32_t round,
                            std::span<const Contribution> all_contributions,
                            std::span<float> residual) {
  LONGWAVE_CHECK(!all_contributions.empty());
  std::vector<Contribution> contributions;
  std::copy_if(all_contributions.begin(), all_contributions.end(),
               std::back_inserter(contributions), [](const auto& one) { return one.factor > 0; });
  if (contributions.empty())
    contributions.assign(all_contributions.begin(), all_contributions.end());
  const Segment& place = layout.segments()[segment];
  const bool has_residual = KeepsResidual(options_);
  LONGWAVE_CHECK(residual.size() == (has_residual ? place.coefficient_count : 0));
  guesses_.resize(std::max<size_t>(guesses_.size(), size_t{place.tile_begin} + place.tile_count));
  Job job(options_, layout, segment, round, contributions);

  MergedSegment result;
  result.weight_sum = job.plan.weight_sum;
  std::span<float> all = residual;
  const auto emit = [&](const PayloadLayout& down, uint32_t tile, std::span<float> values,
                        Slot& slot) {
    job.square_sums[tile] =
        EmitTile(down, tile, job.DrawOf(tile), values, has_residual,
                 &guesses_[size_t{place.tile_begin} + tile], result.payload, slot.work);
  };
  const auto outcome = has_residual ? TileMerger::Outcome::kAdd : TileMerger::Outcome::kWrite;
  const auto begin_payload = [&](const PayloadLayout& down) {
    result.payload.resize(down.bytes());
    BeginPayload(down, result.payload);
  };

  if (!SendsUnion(options_)) {
    const PayloadLayout down = LayoutOf(FixedDownFormat(options_), job.tile_sizes);
    begin_payload(down);
    threads_->Run(job.tile_count(), [&](uint32_t begin, uint32_t end, uint32_t number) {
      Slot& slot = *slots_[number];
      for (uint32_t tile = begin; tile < end; ++tile) {
        const std::span<float> values = has_residual
                                            ? job.Of(residual, tile)
                                            : std::span(slot.work.x).first(job.tile_sizes[tile]);
        slot.tiles.Merge(job.plan, tile, job.DrawOf(tile), outcome, values, slot.work.maxima);
        emit(down, tile, values, slot);
      }
    });
  } else {
    // The payload's k depends on every tile, so all tiles are merged before the first is written.
    if (!has_residual) {
      dense_.resize(place.coefficient_count);
      all = dense_;
    }
    for (const auto& slot : slots_) slot->nonzero_max = 0;
    threads_->Run(job.tile_count(), [&](uint32_t begin, uint32_t end, uint32_t number) {
      Slot& slot = *slots_[number];
      for (uint32_t tile = begin; tile < end; ++tile) {
        const uint32_t nonzero = slot.tiles.Merge(job.plan, tile, job.DrawOf(tile), outcome,
                                                  job.Of(all, tile), slot.work.maxima);
        slot.nonzero_max = std::max(slot.nonzero_max, nonzero);
      }
    });
    uint32_t k = 0;
    for (const auto& slot : slots_) k = std::max(k, slot->nonzero_max);
    const PayloadLayout down = UnionLayout(options_, k, job.tile_sizes);
    begin_payload(down);
    threads_->Run(job.tile_count(), [&](uint32_t begin, uint32_t end, uint32_t number) {
      for (uint32_t tile = begin; tile < end; ++tile) {
        const std::span<float> values = job.Of(all, tile);
        Slot& slot = *slots_[number];
        cpu::TileMathOf(ChosenIsa()).maxima(job.tile_sizes[tile], values.data(), slot.work.maxima);
        emit(down, tile, values, slot);
      }
    });
  }
  for (const double square_sum : job.square_sums) result.square_sum += square_sum;
  return result;
}

double Merger::EmitTile(const PayloadLayout& layout, uint32_t tile, uint64_t draw,
                        std::span<float> values, bool values_are_residual, uint32_t* guess,
                        std::span<std::byte> payload, cpu::TileWork& work) {
  const cpu::TileMath& math = cpu::TileMathOf(ChosenIsa());
  const PayloadFormat& format = layout.format();
  const uint32_t count = layout.sent_count(tile);
  const std::span<uint16_t> indices(work.indices, count);
  if (format.selection == Selection::kTopK) {
    work.threshold = *guess;
    math.select_top_k(static_cast<uint32_t>(values.size()), count, values.data(), work);
    *guess = work.threshold;
  } else {
    SelectIndices(format.selection, values, draw, indices);
    for (uint32_t i = 0; i < count; ++i) work.values[i] = values[indices[i]];
  }
  const uint16_t scale = cpu::QuantizeValues(math, format.codec, count, work);
  WriteTileHead(layout, tile, indices, scale, payload);
  math.pack(ValueBits(format.codec), count, work.codes,
            reinterpret_cast<uint8_t*>(payload.data()) + layout.offsets(tile).values);
  if (values_are_residual) {
    for (uint32_t i = 0; i < count; ++i) values[indices[i]] -= work.values[i];
  }
  return TileSquareSum(layout, tile, payload);
}

}  // namespace longwave
