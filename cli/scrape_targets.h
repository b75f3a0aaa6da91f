#ifndef LONGWAVE_CLI_SCRAPE_TARGETS_H_
#define LONGWAVE_CLI_SCRAPE_TARGETS_H_

#include <string>
#include <vector>

namespace longwave {

struct ScrapeTarget {
  std::string process;  // "shard-0"
  std::string address;  // host:port of its metrics
};

// A targets file for Prometheus (file_sd_configs): one group for each process, with the labels
// `run`, `part` ("shard") and `process`.
std::string FormatTargets(const std::string& run, const std::vector<ScrapeTarget>& targets);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SCRAPE_TARGETS_H_
