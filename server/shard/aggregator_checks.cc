#include "server/shard/aggregator_checks.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/status_macros.h"
#include "common/wire/square_sum.h"

namespace longwave {
namespace {

// Tolerance of a stated norm, relative and absolute: far above the rounding of any order of
// summation and of denormal numbers, far below any gain from a false norm.
constexpr double kNormTolerance = 1e-3;
constexpr double kNormToleranceBeyond = FLT_MIN;

// The largest form of a merged update (see MergeOptions).
PayloadFormat LargestDown(const AggregatorOptions& options) {
  const PayloadFormat& down = options.down;
  if (down.selection != Selection::kAll || options.up.selection == Selection::kAll) return down;
  if (options.up.selection != Selection::kTopK) {
    return {options.up.selection, down.codec, options.up.k};
  }
  return HasScale(down.codec) ? PayloadFormat{Selection::kTopK, down.codec, kTileSizeMax} : down;
}

// Bytes that a shard's process holds: the bounds in Aggregator's header for the configured formats,
// and the rest from the options.
struct Need {
  double coefficients = 0;
  double state = 0;   // E and tables
  double merged = 0;  // the segments' last closed rounds
  double open = 0;    // pushes
  double oldest = 0;  // the part of `open` for the oldest segment, taken beyond any limit

  double total(const AggregatorOptions& options) const {
    return state + merged + open + static_cast<double>(options.snapshot_bytes) +
           static_cast<double>(options.queue_bytes);
  }
};

// InvalidArgument: the payload of a segment exceeds a frame.
absl::StatusOr<Need> NeedOf(const AggregatorOptions& options, const Layout& layout) {
  constexpr double kTileTableBytes =
      sizeof(uint32_t) + 2 * (sizeof(TileOffsets) + sizeof(uint32_t));
  const double residual_bytes = KeepsResidual(MergeOptionsOf(options)) ? sizeof(float) : 0;
  Need need;
  double round_bytes = 0;  // of a push to each segment
  double largest_bytes = 0;
  for (uint32_t i = 0; i < layout.segments().size(); ++i) {
    const Segment& segment = layout.segments()[i];
    if (segment.shard != options.shard) continue;
    const std::vector<uint32_t> tile_sizes = layout.TileSizes(i);
    const auto bytes_as = [&](const PayloadFormat& format) -> absl::StatusOr<double> {
      const auto form = PayloadLayout::Create(format, tile_sizes);
      if (form.ok()) return static_cast<double>(form->bytes());
      return InvalidArgument("segment ", i, " as ", Describe(format), ": ",
                             form.status().message());
    };
    // "All of topk" goes down in one of these forms, or as topk in an integer codec, which always
    // fits.
    const PayloadFormat all{Selection::kAll, options.down.codec, 0};
    LONGWAVE_ASSIGN_OR_RETURN(const double push_bytes, bytes_as(options.up));
    for (const PayloadFormat& format : {options.down, all}) {
      LONGWAVE_RETURN_IF_ERROR(bytes_as(format).status());
    }
    LONGWAVE_ASSIGN_OR_RETURN(const double merged_bytes, bytes_as(LargestDown(options)));
    need.coefficients += static_cast<double>(segment.coefficient_count);
    need.state += static_cast<double>(segment.coefficient_count) * residual_bytes +
                  segment.tile_count * kTileTableBytes;
    need.merged += merged_bytes;
    round_bytes += push_bytes;
    largest_bytes = std::max(largest_bytes, push_bytes);
  }
  need.open = options.workers * round_bytes;
  need.oldest = options.workers * largest_bytes;
  if (options.open_bytes_max > 0) {
    need.open = std::min(need.open, static_cast<double>(options.open_bytes_max) + need.oldest);
  }
  return need;
}

// Checks that every segment's payloads fit into frames and the whole shard into memory.
absl::Status CheckSegments(const AggregatorOptions& options, const Layout& layout) {
  LONGWAVE_ASSIGN_OR_RETURN(const Need need, NeedOf(options, layout));
  const double total = need.total(options);
  const auto available = static_cast<double>(options.available_bytes);
  if (options.available_bytes == 0 || total <= available) return absl::OkStatus();
  return ResourceExhausted("shard ", options.shard, ": ", FormatCount(need.coefficients),
                           " coefficients and up to ", options.workers, " workers want about ",
                           FormatBytes(total), " of memory (", FormatBytes(need.state),
                           " of state, ", FormatBytes(need.merged), " of merged rounds, ",
                           FormatBytes(need.open), " of open pushes, ",
                           FormatBytes(static_cast<double>(options.snapshot_bytes)),
                           " of snapshots, ", FormatBytes(static_cast<double>(options.queue_bytes)),
                           " of queues), ", FormatBytes(available),
                           " are available; more shards, a smaller cluster.shard_memory_mb or a "
                           "smaller cluster.workers_max need less");
}

absl::Status CheckFormat(const PayloadFormat& up, const PayloadFormat& format) {
  const bool wants_integers = HasScale(up.codec);
  bool fits = format.selection == up.selection && (!wants_integers || HasScale(format.codec));
  const bool has_k = up.selection == Selection::kRandom || up.selection == Selection::kStride;
  if (has_k) fits = fits && format.k == up.k;
  if (fits) return absl::OkStatus();
  return InvalidArgument("payload is ", Describe(format), ", wanted ", Name(up.selection),
                         has_k ? absl::StrCat(" ", up.k) : "", " in any ",
                         wants_integers ? "integer codec" : "codec");
}

}  // namespace

absl::StatusOr<uint64_t> OpenBytesLeft(const AggregatorOptions& options, const Layout& layout) {
  LONGWAVE_ASSIGN_OR_RETURN(Need need, NeedOf(options, layout));
  need.open = need.oldest;
  const double left = static_cast<double>(options.available_bytes) - need.total(options);
  return static_cast<uint64_t>(std::max(1.0, left));  // 0 would mean no limit
}

std::string PlaceOf(const FrameName& frame) {
  const std::string place = absl::StrCat("round ", frame.round, ", segment ", frame.segment);
  if (frame.kind == FrameKind::kMerged) return place;
  return absl::StrCat("worker ", frame.worker, ", ", place);
}

MergeOptions MergeOptionsOf(const AggregatorOptions& options) {
  return {options.run_seed, options.up, options.rho, options.down};
}

absl::Status CheckOptions(const AggregatorOptions& options, const Layout& layout) {
  LONGWAVE_RETURN_IF_ERROR(Validate(MergeOptionsOf(options)));
  if (!(options.clip >= 0 && std::isfinite(options.clip))) {
    return InvalidArgument("clip is ", options.clip, ", wanted 0 (off) or a multiple above it");
  }
  if (!(options.quorum >= 0 && options.quorum <= 1)) {
    return InvalidArgument("quorum is ", options.quorum, ", wanted 0 to 1");
  }
  if (options.grace_min < absl::ZeroDuration() || options.grace_max < options.grace_min) {
    return InvalidArgument("grace is ", FormatSeconds(options.grace_min), " to ",
                           FormatSeconds(options.grace_max), ", wanted 0 or more, ascending");
  }
  if (const uint32_t shards = layout.options().shard_count; options.shard >= shards) {
    return InvalidArgument("shard is ", options.shard, ", wanted one of the layout's ", shards);
  }
  return CheckSegments(options, layout);
}

absl::StatusOr<std::shared_ptr<const PayloadLayout>> CheckPushPayload(
    const PayloadFormat& up, std::span<const uint32_t> tile_sizes,
    std::span<const std::byte> payload,
    std::vector<std::shared_ptr<const PayloadLayout>>& formats) {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload));
  LONGWAVE_RETURN_IF_ERROR(CheckFormat(up, format));
  const auto known =
      std::ranges::find_if(formats, [&](const auto& form) { return form->format() == format; });
  if (known != formats.end()) {
    LONGWAVE_RETURN_IF_ERROR(ValidatePayload(**known, payload));
    return *known;
  }
  LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout created, PayloadLayout::Create(format, tile_sizes));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(created, payload));
  if (formats.size() >= kPushFormatsMax) formats.erase(formats.begin());
  formats.push_back(std::make_shared<const PayloadLayout>(std::move(created)));
  return formats.back();
}

absl::Status CheckPushNorm(float norm, bool is_clipped, const PayloadLayout& layout,
                           std::span<const std::byte> payload) {
  // The negated comparison rejects NaN.
  if (!(norm >= 0)) return InvalidArgument("norm ", norm, ", wanted 0 or more");
  if (!is_clipped) return absl::OkStatus();  // nothing uses the norm
  const double wanted = std::sqrt(PayloadSquareSum(layout, payload));
  if (wanted > kPushNormMax) {
    return InvalidArgument("norm ", wanted, ", wanted at most ", kPushNormMax);
  }
  if (std::fabs(norm - wanted) <= kNormTolerance * wanted + kNormToleranceBeyond) {
    return absl::OkStatus();
  }
  return InvalidArgument("norm ", norm, ", wanted its payload's, which is ", wanted);
}

}  // namespace longwave
