#include "common/base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <functional>
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

// Calls with the folder of each group at `path` below `mount`, from itself to the topmost.
void ForEachAbove(const std::string& mount, std::string path,
                  const std::function<void(const std::string&)>& call) {
  for (;; path.resize(path.rfind('/'))) {
    call(mount + path);
    if (path.rfind('/') == std::string::npos) return;
  }
}

// Calls with the folder of each group of the process that has a say in what `controller` limits,
// and with whether the group is of version 2.
void ForEachGroup(const std::string& groups, const std::string& self, const std::string& controller,
                  const std::function<void(const std::string&, bool)>& call) {
  std::ifstream lines(self);
  // A line is NUMBER:CONTROLLERS:PATH; version 2 has the number 0 and no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (second == first + 1)
      ForEachAbove(groups, path, [&](const std::string& folder) { call(folder, true); });
    for (std::string name; std::getline(controllers, name, ',');)
      if (name == controller)
        ForEachAbove(std::string(groups).append("/").append(name), path,
                     [&](const std::string& folder) { call(folder, false); });
  }
}

// Version 2 has both in one file, "50000 100000", with "max" for no quota; version 1 has -1.
double ReadCores(const std::string& folder, bool is_version2) {
  double quota = 0, period = 0;
  if (is_version2) {
    if (!(std::ifstream(folder + "/cpu.max") >> quota >> period)) return kNoLimit;
  } else {
    quota = ReadNumber(folder + "/cpu.cfs_quota_us");
    period = ReadNumber(folder + "/cpu.cfs_period_us");
    if (quota >= kNoLimit || period >= kNoLimit) return kNoLimit;
  }
  return quota > 0 && period > 0 ? quota / period : kNoLimit;
}

}  // namespace

std::optional<MachineMemory> ReadCgroupMemory(const std::string& groups, const std::string& self) {
  std::optional<MachineMemory> memory;
  ForEachGroup(groups, self, "memory", [&](const std::string& folder, bool is_version2) {
    const Version& version = is_version2 ? kVersion2 : kVersion1;
    const double limit = ReadNumber(folder + "/" + version.limit);
    const double usage = ReadNumber(folder + "/" + version.usage);
    if (limit >= kNoLimit || usage >= kNoLimit) return;
    const double available = limit - usage + ReadCache(folder, version.cache);
    if (!memory.has_value()) memory = MachineMemory{limit, limit};
    memory->total_bytes = std::min(memory->total_bytes, limit);
    memory->available_bytes = std::min(memory->available_bytes, std::max(available, 0.0));
  });
  return memory;
}

std::optional<double> ReadCgroupCores(const std::string& groups, const std::string& self) {
  double cores = kNoLimit;
  ForEachGroup(groups, self, "cpu", [&](const std::string& folder, bool is_version2) {
    cores = std::min(cores, ReadCores(folder, is_version2));
  });
  return cores < kNoLimit ? std::optional(cores) : std::nullopt;
}

}  // namespace longwave
