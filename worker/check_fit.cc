#include "worker/check_fit.h"

#include "common/base/memory.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "worker/models/memory.h"

namespace longwave {

absl::Status CheckFit(const RunConfig& config, bool has_folder, const Manifest& manifest,
                      const Device& device) {
  const uint32_t workers_here = WorkersHere(config);
  const bool keeps = has_folder && CanCatchUp(config) && config.cluster.checkpoint_rounds > 0;
  const double checkpoint = keeps ? CheckpointBytes(config, manifest) : 0;
  MemoryNeed need = WorkerMemory(config, manifest);
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory machine, ReadMachineMemory());
  if (!device.ops->on_device) {
    need.bytes += checkpoint;
    return CheckMemory(need, workers_here, machine);
  }
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory gpu, device.ops->memory());
  LONGWAVE_RETURN_IF_ERROR(CheckMemory(need, workers_here, gpu, kGpuMemory));
  MemoryNeed on_host = HostMemory(config, manifest);
  on_host.bytes += checkpoint;
  return CheckMemory(on_host, workers_here, machine);
}

}  // namespace longwave
