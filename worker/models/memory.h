#ifndef LONGWAVE_WORKER_MODELS_MEMORY_H_
#define LONGWAVE_WORKER_MODELS_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/memory.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"

namespace longwave {

struct MemoryNeed {
  double parameter_count = 0;
  double bytes = 0;
};

// Of the replica alone: θ, its gradient and what a step's forward pass keeps.
MemoryNeed ReplicaMemory(const ModelSection& model, uint32_t batch);

// Of a whole worker: the replica's, AdamW's two moments, the momentum (padded to whole tiles), the
// anchor of a pseudo-gradient, what an overlap keeps beside it, Nesterov's velocity, a round's
// payloads and the tables over tiles. Counted from the manifest: nothing of it, the table of tiles
// included, need exist yet.
MemoryNeed WorkerMemory(const RunConfig& config, const Manifest& manifest);

// How many of the run's workers share this machine and its GPU, as far as the configuration tells:
// all of them when the coordinator is at a loopback address, else this one.
uint32_t WorkersHere(const RunConfig& config);

// Of the host's memory, for a worker whose arrays are on a GPU: θ, when the weights are written,
// the payloads and the tables over tiles.
MemoryNeed HostMemory(const RunConfig& config, const Manifest& manifest);

// Of the host's memory, while a worker writes a checkpoint: AdamW's moments and the momentum.
double CheckpointBytes(const RunConfig& config, const Manifest& manifest);

// Whose memory it is, in words.
struct MemoryPlace {
  const char* memory;
  const char* owner;
};
inline constexpr MemoryPlace kMachineMemory = {"memory", "machine"};
inline constexpr MemoryPlace kGpuMemory = {"GPU memory", "GPU"};

// ResourceExhausted, saying what is wanted and what is there, if one worker's need is more than is
// available, or that of all workers of the place more than it has: they start at the same time,
// and each sees the same memory available.
absl::Status CheckMemory(const MemoryNeed& need, uint32_t workers_here, const MachineMemory& memory,
                         const MemoryPlace& place = kMachineMemory);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_MEMORY_H_
