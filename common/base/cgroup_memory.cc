#include "common/base/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace longwave {
namespace {

// The value for no limit: "max" in version 2, a number near 2^63 in version 1.
constexpr double kNoLimit = 4e18;

// File names of one version.
struct Version {
  const char* limit;
  const char* usage;
  const char* cache;  // key in memory.stat: memory that is reclaimed without swapping
};
constexpr Version kVersion2 = {"memory.max", "memory.current", "inactive_file"};
constexpr Version kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};

double ReadNumber(const std::string& path) {
  double number = 0;
  return std::ifstream(path) >> number ? number : kNoLimit;
}

double ReadCache(const std::string& folder, const char* key) {
  std::ifstream stat(folder + "/memory.stat");
  std::string name;
  double bytes = 0;
  while (stat >> name >> bytes) {
    if (name == key) return bytes;
  }
  return 0;
}

// Lowers `memory` to the limits of the group at `path` below `mount` and of its ancestors.
void Limit(const std::string& mount, std::string path, const Version& version,
           std::optional<MachineMemory>* memory) {
  for (;; path.resize(path.rfind('/'))) {
    const std::string folder = mount + path;
    const double limit = ReadNumber(folder + "/" + version.limit);
    const double usage = ReadNumber(folder + "/" + version.usage);
    if (limit < kNoLimit && usage < kNoLimit) {
      const double available = limit - usage + ReadCache(folder, version.cache);
      if (!memory->has_value()) *memory = MachineMemory{limit, limit};
      (*memory)->total_bytes = std::min((*memory)->total_bytes, limit);
      (*memory)->available_bytes = std::min((*memory)->available_bytes, std::max(available, 0.0));
    }
    if (path.rfind('/') == std::string::npos) return;
  }
}

}  // namespace

std::optional<MachineMemory> ReadCgroupMemory(const std::string& groups, const std::string& self) {
  std::optional<MachineMemory> memory;
  std::ifstream lines(self);
  // A line is NUMBER:CONTROLLERS:PATH; version 2 has the number 0 and no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (second == first + 1) Limit(groups, path, kVersion2, &memory);
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == "memory") Limit(groups + "/memory", path, kVersion1, &memory);
    }
  }
  return memory;
}

}  // namespace longwave
