#ifndef LONGWAVE_TESTS_SIM_CANARY_H_
#define LONGWAVE_TESTS_SIM_CANARY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace longwave::sim {

// Planted bugs, one of each kind that the simulator must find. They are in the simulator's wrappers
// around the real parts, so no part has a hook for them.
enum class Canary : uint8_t {
  kNone,
  kUnsyncedLog,           // the disk reports syncs that it has not done: accepted before durable
  kDroppedRecord,         // a write of the log never reaches the disk
  kForgottenFolder,       // a shard restarts without its residual and open rounds
  kDoubledPush,           // a push counts again under another member's name
  kAlteredMerge,          // one worker gets an altered merged update
  kKeptLatePush,          // a worker does not return a late push to its residual
  kRestoredAccepted,      // a worker takes an accepted push back, which then counts twice
  kForgottenPush,         // a worker that returns does not ask for the fate of its pushes
  kSkippedUpdate,         // a worker that catches up leaves out a merged update
  kIgnoredRepair,         // a worker does not fetch differing segments
  kSilentRetry,           // a worker sends every frame once
  kHoardedLog,            // a shard's disk never frees dropped files
  kForgetfulCoordinator,  // a coordinator restarts in its initial state
  kUnsyncedRecord,        // the coordinator's disk reports syncs that it has not done
  kUnaccountedResidual,   // a worker with an old folder hides its age
  kStaleConnection,       // a worker keeps a dead connection
  kTrustingShard,         // a shard takes every weight and norm
  kTrustedFolder,         // a shard goes on from its folder despite the coordinator's record
  kUnkeptFill,            // a worker fills a round, and its last checkpoint stays current
  kForgottenFlight,       // a worker that is told to end does not keep the pushes in flight
  kUnnamedAnswer,         // the answer to a hello names another one
  kOwnStart,              // a worker begins with its own first weights instead of the run's
  kDeafShard,             // a shard does not hear that a member is ahead of its log
  kTrustedBackup,         // likewise, and the coordinator takes any folder as the newest
  kUnreadJournal,         // a worker that returns does not read the journal of its pushes
  kCutJournal,            // a checkpoint that is written drops what was pushed since its copy
  kTrustedJournal,        // damage of a journal is taken for its end
  kOwnInterval,           // a worker hears of other inner steps of the rounds than were decided
  kUnkeptInterval,        // the coordinator's record lacks the decided rounds
  kCount,
};
inline constexpr size_t kCanaryCount = static_cast<size_t>(Canary::kCount);

std::string_view Name(Canary canary);  // "none", "unsynced-log", …

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_CANARY_H_
