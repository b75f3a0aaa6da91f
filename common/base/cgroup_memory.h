#ifndef LONGWAVE_COMMON_BASE_CGROUP_MEMORY_H_
#define LONGWAVE_COMMON_BASE_CGROUP_MEMORY_H_

#include <optional>
#include <string>

#include "common/base/memory.h"

namespace longwave {

// The memory that this process's control groups leave it (a container's limit, a service's
// MemoryMax), of version 2 or 1: the least of its own group and those above. Nothing: no group has
// a limit. `groups`: where they are mounted; `self`: which ones this process is in.
std::optional<MachineMemory> ReadCgroupMemory(const std::string& groups = "/sys/fs/cgroup",
                                              const std::string& self = "/proc/self/cgroup");

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_CGROUP_MEMORY_H_
