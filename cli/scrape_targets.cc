#include "cli/scrape_targets.h"

#include <nlohmann/json.hpp>

namespace longwave {

std::string FormatTargets(const std::string& run, const std::vector<ScrapeTarget>& targets) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const ScrapeTarget& target : targets) {
    const std::string part = target.process.substr(0, target.process.find('-'));
    groups.push_back({{"targets", nlohmann::ordered_json::array({target.address})},
                      {"labels", {{"run", run}, {"part", part}, {"process", target.process}}}});
  }
  return groups.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace longwave
