#include "cli/scrape_targets.h"

#include "cli/json_text.h"

namespace longwave {

std::string FormatTargets(const std::string& run, const std::vector<ScrapeTarget>& targets) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const ScrapeTarget& target : targets) {
    const std::string part = target.process.substr(0, target.process.find('-'));
    groups.push_back({{"targets", nlohmann::ordered_json::array({target.address})},
                      {"labels", {{"run", run}, {"part", part}, {"process", target.process}}}});
  }
  return JsonText(groups);
}

}  // namespace longwave
