#ifndef LONGWAVE_WORKER_MODELS_MEMORY_H_
#define LONGWAVE_WORKER_MODELS_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/memory.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "kernels/ops.h"

namespace longwave {

struct MemoryNeed {
  double parameter_count = 0;
  double bytes = 0;
};

// Memory of the replica alone: θ, its gradient and the activations of a step's forward pass.
MemoryNeed ReplicaMemory(const ModelSection& model, const Manifest& manifest,
                         const TrainSection& train);

// Memory of a whole worker: the replica's, the optimizer's two arrays, the momentum (padded to
// whole tiles), the anchor of a pseudo-gradient, further arrays for an overlap, Nesterov's
// velocity, a round's payloads and the tables over tiles. Computed from the manifest before any of
// it, such as the table of tiles, exists.
MemoryNeed WorkerMemory(const RunConfig& config, const Manifest& manifest);

// How many of the run's workers share this machine and its GPU: all if the coordinator's address is
// a loopback one, else one.
uint32_t WorkersHere(const RunConfig& config);

// Host memory of a worker with its arrays on a GPU: θ while the weights are written, the payloads
// and the tables over tiles.
MemoryNeed HostMemory(const RunConfig& config, const Manifest& manifest);

// Host memory while a worker writes a checkpoint: the optimizer's arrays and the momentum.
double CheckpointBytes(const RunConfig& config, const Manifest& manifest);

// Words for messages about a kind of memory.
struct MemoryPlace {
  const char* memory;
  const char* owner;
};
inline constexpr MemoryPlace kMachineMemory = {"memory", "machine"};
inline constexpr MemoryPlace kGpuMemory = {"GPU memory", "GPU"};

// ResourceExhausted, with the wanted and present sizes, if one worker needs more than is available,
// or all workers of the place more than it has in total. Workers start at the same time, and each
// sees the same memory available.
absl::Status CheckMemory(const MemoryNeed& need, uint32_t workers_here, const MachineMemory& memory,
                         const MemoryPlace& place = kMachineMemory);

// Whether the worker's arrays fit into their memories (`ops` says which), and those of the run's
// other workers that are on this machine, too. has_folder: for checkpoints.
absl::Status CheckFit(const RunConfig& config, bool has_folder, const Manifest& manifest,
                      const KernelOps& ops);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_MEMORY_H_
