#include "worker/sync/ledger_options.h"

#include <algorithm>

#include "common/base/rng.h"

namespace longwave {

absl::Duration TimeOnTheWay(const LedgerOptions& options, uint64_t outstanding_bytes) {
  const uint64_t others = (options.workers - 1) * outstanding_bytes;
  const absl::Duration shared =
      absl::Seconds(static_cast<int64_t>(others / kShardBytesPerSecondMin));
  return absl::Seconds(static_cast<int64_t>(outstanding_bytes / kBytesPerSecondMin)) +
         std::min(shared, kSharedLinkMax);
}

absl::Duration BusyBackoff(const LedgerOptions& options, uint32_t segment, int refusals) {
  const absl::Duration longest =
      std::min(kBusyBackoffMin * (1 << std::min(refusals, 10)), kBusyBackoffMax);
  Rng rng((uint64_t{options.worker} << 32) | segment, static_cast<uint64_t>(refusals));
  return longest * (0.5 + 0.5 * rng.Uniform());
}

}  // namespace longwave
