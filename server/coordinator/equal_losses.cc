#include "server/coordinator/equal_losses.h"

#include <algorithm>
#include <functional>

namespace longwave {

std::vector<std::vector<uint32_t>> EqualLosses::Take(const std::map<uint32_t, double>& losses) {
  std::erase_if(recent_, [&](const auto& entry) { return !losses.contains(entry.first); });
  std::map<std::vector<double>, std::vector<uint32_t>> groups;
  for (const auto& [worker, loss] : losses) {
    std::vector<double>& recent = recent_[worker];
    if (recent.size() == kRounds) recent.erase(recent.begin());
    recent.push_back(loss);
    const bool changes = std::ranges::adjacent_find(recent, std::not_equal_to<>()) != recent.end();
    if (recent.size() == kRounds && changes) groups[recent].push_back(worker);
  }
  std::vector<std::vector<uint32_t>> equal;
  for (auto& [recent, workers] : groups) {
    const bool is_known =
        std::ranges::all_of(workers, [this](uint32_t worker) { return found_.contains(worker); });
    if (workers.size() < 2 || is_known) continue;
    found_.insert(workers.begin(), workers.end());
    equal.push_back(std::move(workers));
  }
  return equal;
}

}  // namespace longwave
