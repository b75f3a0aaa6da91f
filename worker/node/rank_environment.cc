#include "worker/node/rank_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace longwave {
namespace {

constexpr char kVariable[] = "CUDA_VISIBLE_DEVICES";

bool IsGpu(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "nvidia") || name.empty()) return false;
  return std::ranges::all_of(name, [](char c) { return absl::ascii_isdigit(c); });
}

}  // namespace

uint32_t GpusIn(const std::string& devices) {
  uint32_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(devices, error))
    count += IsGpu(entry.path().filename().string());
  return count;
}

std::string GpuOfRank(uint32_t rank, const std::string& visible, uint32_t gpus) {
  if (!visible.empty()) {
    const std::vector<std::string> names = absl::StrSplit(visible, ',');
    return names[rank % names.size()];
  }
  return gpus == 0 ? "" : absl::StrCat(rank % gpus);
}

std::vector<std::string> EnvironmentOfRank(uint32_t rank) {
  const char* const visible = getenv(kVariable);
  const bool hides_all = visible != nullptr && *visible == '\0';
  const std::string gpu =
      hides_all ? "" : GpuOfRank(rank, visible == nullptr ? "" : visible, GpusIn("/dev"));
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!gpu.empty() && absl::StartsWith(*each, absl::StrCat(kVariable, "="))) continue;
    environment.emplace_back(*each);
  }
  if (!gpu.empty()) environment.push_back(absl::StrCat(kVariable, "=", gpu));
  return environment;
}

}  // namespace longwave
