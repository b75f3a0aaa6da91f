#ifndef LONGWAVE_COMMON_BASE_CGROUP_H_
#define LONGWAVE_COMMON_BASE_CGROUP_H_

#include <optional>
#include <string>

#include "common/base/memory.h"

namespace longwave {

// The memory that control groups (a container's limits, a service's MemoryMax; version 2 or 1)
// leave this process. The value is the least over the process's own group and its ancestors;
// nullopt if no group has a limit. `groups`: where the groups are mounted. `self`: the file that
// names this process's groups.
std::optional<MachineMemory> ReadCgroupMemory(const std::string& groups = "/sys/fs/cgroup",
                                              const std::string& self = "/proc/self/cgroup");

// The cores that their quota of processor time is worth, likewise: 1.5 is 150 ms of each 100 ms.
std::optional<double> ReadCgroupCores(const std::string& groups = "/sys/fs/cgroup",
                                      const std::string& self = "/proc/self/cgroup");

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_CGROUP_H_
