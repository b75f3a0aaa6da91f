#ifndef LONGWAVE_WORKER_NODE_RANK_ENVIRONMENT_H_
#define LONGWAVE_WORKER_NODE_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace longwave {

// The environment that this process, rank 0, gives to another rank: rank r sees the r-th of the
// GPUs that this process sees (CUDA_VISIBLE_DEVICES), over again where the machine has fewer. Rank
// 0 uses the first. Without a GPU, or where the variable is set and empty, the
// environment stays as it is.
std::vector<std::string> EnvironmentOfRank(uint32_t rank);

// The GPUs among the device files of a folder: nvidia and a number. A container has those of its
// own GPUs, with the numbers that they have on the host.
uint32_t GpusIn(const std::string& devices);

// The value of CUDA_VISIBLE_DEVICES for a rank. visible: its value here, empty if there is none.
// gpus: of the machine. Empty: none is to be set.
std::string GpuOfRank(uint32_t rank, const std::string& visible, uint32_t gpus);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_RANK_ENVIRONMENT_H_
