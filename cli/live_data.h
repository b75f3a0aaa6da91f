#ifndef LONGWAVE_CLI_LIVE_DATA_H_
#define LONGWAVE_CLI_LIVE_DATA_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/report/run_records.h"
#include "common/config/run_config.h"
#include "common/control/control.h"

namespace longwave {

// A run that is alive, in the shape that the report's page reads, from its coordinator's status.
// Not thread-safe.
class LiveData {
 public:
  LiveData(std::string name, RunConfig config);

  // Takes the present status, with every record, and returns what is new as JSON: {made, update,
  // run}, with the number of the update, a run's summary, the rounds and events since the last one,
  // and each worker's new values. note: what the view says of the run beside its status; "":
  // nothing.
  std::string Update(const RunStatus& status, const std::string& note, absl::Time now);
  // Everything so far, thinned, as JSON: {made, update, runs: [run]}.
  std::string Whole() const;

 private:
  struct Worker {
    std::string standing;
    uint32_t rounds = 0;
    double computing = 0, syncing = 0;  // seconds
    std::vector<double> round, share, length;
  };

  void AddEvent(const char* level, std::string text, absl::Time now);
  void NoteEvents(const RunStatus& status, const std::vector<std::string>& troubles,
                  absl::Time now);
  // first: how many values of each worker are known already; none of a new one.
  nlohmann::ordered_json WorkersFrom(const std::map<std::string, size_t>& first) const;

  const std::string name_;
  const RunConfig config_;
  nlohmann::ordered_json summary_ = nlohmann::ordered_json::object();
  RoundSeries rounds_;
  std::map<uint32_t, std::string> names_;  // of the workers, in the order of their indices
  std::map<std::string, Worker> workers_;
  std::vector<nlohmann::ordered_json> events_;
  std::string phase_, interval_;
  std::set<std::string> troubles_;
  int64_t made_ = 0;  // in milliseconds since 1970
  uint64_t update_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_LIVE_DATA_H_
