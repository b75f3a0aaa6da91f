#include "common/base/threads.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/base/cgroup.h"

namespace longwave {

uint32_t UsableCores() {
  uint32_t cores = std::thread::hardware_concurrency();
  // Fails on a machine of more than 1024 cores.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = static_cast<uint32_t>(CPU_COUNT(&set));
  if (const auto quota = ReadCgroupCores(); quota.has_value() && *quota < cores)
    cores = static_cast<uint32_t>(std::ceil(*quota));
  return std::max(1u, cores);
}

uint32_t DefaultThreads(uint32_t processes) {
  // OpenMP permits a list, for nested regions.
  const char* const given = std::getenv("OMP_NUM_THREADS");
  uint32_t threads = 0;
  if (given != nullptr && absl::SimpleAtoi(given, &threads) && threads > 0) return threads;
  return std::max(1u, UsableCores() / std::max(1u, processes));
}

}  // namespace longwave
