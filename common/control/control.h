#ifndef LONGWAVE_COMMON_CONTROL_CONTROL_H_
#define LONGWAVE_COMMON_CONTROL_CONTROL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longwave/v1/coordinator.records.h"

namespace longwave {

// The control plane's records, which proto/longwave/v1/coordinator.proto describes, as plain
// structs.

// The first round of a member that has not caught up yet; no round at all.
inline constexpr uint32_t kRoundNever = ~uint32_t{0};

// The hash of a whole state from its segments' hashes, in order.
uint64_t CombineHashes(const std::vector<uint64_t>& segment_hashes);

// The last values, for FieldReader; the first is 1.
constexpr RunPhase LastOf(RunPhase) { return RunPhase::kStopped; }
constexpr WorkerPhase LastOf(WorkerPhase) { return WorkerPhase::kJoining; }

ByteCounts operator+(ByteCounts a, const ByteCounts& b);

std::string SentenceOf(const Warning& warning);  // "worker-1: …", or of the whole run the text

bool IsOver(RunPhase phase);               // finished, failed or stopped
bool HasLeft(WorkerPhase phase);           // lost, failed or expelled
std::string_view Name(RunPhase phase);     // "waiting", "training", "finished", "failed", "stopped"
std::string_view Name(WorkerPhase phase);  // "starting", "training", "syncing", "validating", …

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONTROL_CONTROL_H_
