#include "tests/sim/canary.h"

#include <iterator>

#include "common/base/enum_name.h"

namespace longwave::sim {

std::string_view Name(Canary canary) {
  static constexpr std::string_view kNames[] = {"none",
                                                "unsynced-log",
                                                "dropped-record",
                                                "forgotten-folder",
                                                "doubled-push",
                                                "altered-merge",
                                                "kept-late-push",
                                                "restored-accepted",
                                                "forgotten-push",
                                                "skipped-update",
                                                "ignored-repair",
                                                "silent-retry",
                                                "hoarded-log",
                                                "forgetful-coordinator",
                                                "unsynced-record",
                                                "unaccounted-residual",
                                                "stale-connection",
                                                "trusting-shard",
                                                "trusted-folder",
                                                "unkept-fill",
                                                "forgotten-flight",
                                                "unnamed-answer",
                                                "own-start",
                                                "deaf-shard",
                                                "trusted-backup",
                                                "unread-journal",
                                                "cut-journal",
                                                "trusted-journal",
                                                "own-interval",
                                                "unkept-interval"};
  static_assert(std::size(kNames) == static_cast<size_t>(Canary::kCount));
  return EnumName(canary, kNames);
}

}  // namespace longwave::sim
