#include "common/wire/control.h"

#include "common/base/rng.h"

namespace longwave {

uint64_t CombineHashes(const std::vector<uint64_t>& segment_hashes) {
  // Each step is a bijection of the state, which the next one mixes again. So exchanging two
  // segments' hashes, or adding a zero, changes the result.
  uint64_t state = Mix64(0x9e3779b97f4a7c15u + segment_hashes.size());
  for (uint64_t hash : segment_hashes) state = Mix64(state ^ hash) + 0x9e3779b97f4a7c15u;
  return state;
}

bool IsOver(RunPhase phase) { return phase != RunPhase::kWaiting && phase != RunPhase::kTraining; }

std::string_view Name(RunPhase phase) {
  switch (phase) {
    case RunPhase::kWaiting:
      return "waiting";
    case RunPhase::kTraining:
      return "training";
    case RunPhase::kFinished:
      return "finished";
    case RunPhase::kFailed:
      return "failed";
    case RunPhase::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view Name(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::kStarting:
      return "starting";
    case WorkerPhase::kTraining:
      return "training";
    case WorkerPhase::kSyncing:
      return "syncing";
    case WorkerPhase::kValidating:
      return "validating";
    case WorkerPhase::kDone:
      return "done";
    case WorkerPhase::kFailed:
      return "failed";
    case WorkerPhase::kLost:
      return "lost";
    case WorkerPhase::kJoining:
      return "joining";
    case WorkerPhase::kExpelled:
      return "expelled";
  }
  return "unknown";
}

}  // namespace longwave
