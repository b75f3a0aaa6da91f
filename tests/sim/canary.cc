#include "tests/sim/canary.h"

#include "common/base/check.h"

namespace longwave::sim {

std::string_view Name(Canary canary) {
  switch (canary) {
    case Canary::kNone:
      return "none";
    case Canary::kUnsyncedLog:
      return "unsynced-log";
    case Canary::kDroppedRecord:
      return "dropped-record";
    case Canary::kForgottenFolder:
      return "forgotten-folder";
    case Canary::kDoubledPush:
      return "doubled-push";
    case Canary::kAlteredMerge:
      return "altered-merge";
    case Canary::kKeptLatePush:
      return "kept-late-push";
    case Canary::kRestoredAccepted:
      return "restored-accepted";
    case Canary::kForgottenPush:
      return "forgotten-push";
    case Canary::kSkippedUpdate:
      return "skipped-update";
    case Canary::kIgnoredRepair:
      return "ignored-repair";
    case Canary::kSilentRetry:
      return "silent-retry";
    case Canary::kHoardedLog:
      return "hoarded-log";
    case Canary::kForgetfulCoordinator:
      return "forgetful-coordinator";
    case Canary::kUnsyncedRecord:
      return "unsynced-record";
    case Canary::kUnaccountedResidual:
      return "unaccounted-residual";
    case Canary::kStaleConnection:
      return "stale-connection";
    case Canary::kTrustingShard:
      return "trusting-shard";
    case Canary::kTrustedFolder:
      return "trusted-folder";
    case Canary::kUnkeptFill:
      return "unkept-fill";
    case Canary::kForgottenFlight:
      return "forgotten-flight";
    case Canary::kUnnamedAnswer:
      return "unnamed-answer";
    case Canary::kOwnStart:
      return "own-start";
    case Canary::kCount:
      break;
  }
  LONGWAVE_CHECK(false);
}

std::optional<Canary> CanaryNamed(std::string_view name) {
  for (size_t i = 0; i < kCanaryCount; ++i) {
    if (Name(static_cast<Canary>(i)) == name) return static_cast<Canary>(i);
  }
  return std::nullopt;
}

}  // namespace longwave::sim
