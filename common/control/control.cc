#include "common/control/control.h"

#include "absl/strings/str_cat.h"
#include "common/base/enum_name.h"
#include "common/base/rng.h"

namespace longwave {

uint64_t CombineHashes(const std::vector<uint64_t>& segment_hashes) {
  // Each step is a bijection of the state, which the next one mixes again. So exchanging two
  // segments' hashes, or adding a zero, changes the result.
  uint64_t state = Mix64(0x9e3779b97f4a7c15u + segment_hashes.size());
  for (uint64_t hash : segment_hashes) state = Mix64(state ^ hash) + 0x9e3779b97f4a7c15u;
  return state;
}

ByteCounts operator+(ByteCounts a, const ByteCounts& b) {
  a.pushed += b.pushed;
  a.pulled += b.pulled;
  a.payload_pushed += b.payload_pushed;
  a.payload_pulled += b.payload_pulled;
  return a;
}

std::string SentenceOf(const Warning& warning) {
  return absl::StrCat(warning.worker, warning.worker.empty() ? "" : ": ", warning.sentence);
}

bool IsOver(RunPhase phase) { return phase != RunPhase::kWaiting && phase != RunPhase::kTraining; }

bool HasLeft(WorkerPhase phase) {
  return phase == WorkerPhase::kLost || phase == WorkerPhase::kFailed ||
         phase == WorkerPhase::kExpelled;
}

std::string_view Name(RunPhase phase) {
  return EnumName(phase, {"waiting", "training", "finished", "failed", "stopped"},
                  RunPhase::kWaiting);
}

std::string_view Name(WorkerPhase phase) {
  return EnumName(phase,
                  {"starting", "training", "syncing", "validating", "done", "failed", "lost",
                   "joining", "expelled"},
                  WorkerPhase::kStarting);
}

}  // namespace longwave
