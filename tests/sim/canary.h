#ifndef LONGWAVE_TESTS_SIM_CANARY_H_
#define LONGWAVE_TESTS_SIM_CANARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace longwave::sim {

// Planted bugs, one of each kind that the simulator is there to find. They live in the simulator's
// own wrappers around the real parts: the testers are tested, and no part has a hook for it.
enum class Canary : uint8_t {
  kNone,
  kUnsyncedLog,           // a disk that says synced and has not: accepted before it is durable
  kDroppedRecord,         // a write of the log that never reaches the disk
  kForgottenFolder,       // a shard comes back from a crash without its residual and open rounds
  kDoubledPush,           // a push counts a second time, under the name of another member
  kAlteredMerge,          // a merged update that reaches one worker is not what the others got
  kKeptLatePush,          // a worker does not take a late push back into its residual
  kRestoredAccepted,      // a worker takes an accepted push back, which then counts twice
  kForgottenPush,         // a worker that returns does not ask what became of its pushes
  kSkippedUpdate,         // a worker leaves out a merged update of those it catches up by
  kIgnoredRepair,         // a worker does not fetch what differs in its replica
  kSilentRetry,           // a worker sends every frame once
  kHoardedLog,            // a shard whose disk never gives dropped files back
  kForgetfulCoordinator,  // a coordinator that comes back as it was at the beginning
  kUnsyncedRecord,        // a coordinator whose disk says synced and has not
  kUnaccountedResidual,   // a worker with an old folder does not say that it is
  kStaleConnection,       // a worker that keeps a connection that has died
  kTrustingShard,         // a shard takes every weight and norm
  kTrustedFolder,         // a shard goes on from its folder, whatever the coordinator knows of it
  kUnkeptFill,            // a worker fills a round, and its last checkpoint stays as it was
  kForgottenFlight,       // a worker that is told to end keeps nothing of what is in flight
  kUnnamedAnswer,         // the answer of a hello does not say what it answers
  kOwnStart,              // a worker begins with its own first weights, whatever the run's are
  kCount,
};
inline constexpr size_t kCanaryCount = static_cast<size_t>(Canary::kCount);

std::string_view Name(Canary canary);  // "none", "unsynced-log", …
std::optional<Canary> CanaryNamed(std::string_view name);

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_CANARY_H_
