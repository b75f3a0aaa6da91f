#ifndef LONGWAVE_CLI_PLAN_SEGMENT_SIZES_H_
#define LONGWAVE_CLI_PLAN_SEGMENT_SIZES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/link/sealed_frame.h"
#include "server/shard/merge.h"

namespace longwave {

// Sizes of one segment in bytes, but for the coefficients, by the functions that size its payloads,
// frames and arrays in a run.
struct SegmentSizes {
  uint32_t shard = 0;
  double coefficients = 0;
  double state = 0;     // θ and Nesterov's velocity
  double residual = 0;  // E, at the shard
  double push_payload = 0, merged_payload = 0;
  double push_frame = 0, merged_frame = 0;  // on the wire
};

// Errors: InvalidArgument (formats that do not fit the tiles).
absl::StatusOr<std::vector<SegmentSizes>> SizesOf(const RunConfig& config, const Layout& layout);

// A shard's merge under the configuration.
MergeOptions MergeOf(const RunConfig& config);

// Of the data plane, with the configuration's addresses.
Encryption EncryptionOf(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_SEGMENT_SIZES_H_
