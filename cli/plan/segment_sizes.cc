#include "cli/plan/segment_sizes.h"

#include "common/base/status_macros.h"
#include "common/security/security_mode.h"
#include "common/wire/payload.h"
#include "server/shard/merged_bytes.h"

namespace longwave {

MergeOptions MergeOf(const RunConfig& config) {
  return {.run_seed = config.run.seed,
          .up = config.sync.up,
          .rho = config.sync.rho,
          .down = config.sync.down};
}

Encryption EncryptionOf(const RunConfig& config) {
  const ClusterSection& cluster = config.cluster;
  return IsSecured(config.security.mode, {cluster.coordinator, cluster.shard_host})
             ? Encryption::kCurve
             : Encryption::kNone;
}

absl::StatusOr<std::vector<SegmentSizes>> SizesOf(const RunConfig& config, const Layout& layout) {
  const MergeOptions merge = MergeOf(config);
  LONGWAVE_RETURN_IF_ERROR(Validate(merge));
  std::vector<SegmentSizes> sizes;
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    const Segment& segment = layout.segments()[s];
    const std::vector<uint32_t> tiles = layout.TileSizes(s);
    LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout push,
                              PayloadLayout::Create(config.sync.up, tiles));
    const size_t merged = MergedBytesMax(merge, config.run.workers, tiles);
    const auto coefficients = static_cast<double>(segment.coefficient_count);
    double elements = 0;
    for (const Tile& tile : layout.tiles(segment))
      elements += static_cast<double>(tile.rows_valid) * tile.cols_valid;
    const auto frame = [&](size_t payload) {
      return static_cast<double>(FrameWireBytes(payload, EncryptionOf(config)));
    };
    sizes.push_back({.shard = segment.shard,
                     .coefficients = coefficients,
                     .state = sizeof(float) * StateArrays(config) * elements,
                     .residual = KeepsResidual(merge) ? sizeof(float) * coefficients : 0,
                     .push_payload = static_cast<double>(push.bytes()),
                     .merged_payload = static_cast<double>(merged),
                     .push_frame = frame(push.bytes()),
                     .merged_frame = frame(merged)});
  }
  return sizes;
}

}  // namespace longwave
