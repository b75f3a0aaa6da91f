#ifndef LONGWAVE_CLI_REPORT_RUN_RECORDS_H_
#define LONGWAVE_CLI_REPORT_RUN_RECORDS_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/report/thin.h"

namespace longwave {

// The rounds of a run as arrays by name: step, tokens, seconds, train_loss, validation_loss,
// bytes_pushed, bytes_pulled, compute_share, members, round_seconds.
class RoundSeries {
 public:
  RoundSeries();
  // record: with the names of metrics.jsonl. What it lacks is not known.
  void Add(const nlohmann::ordered_json& record);
  size_t size() const { return columns_.back().values.size(); }
  // The rounds from the first-th that was added on. At most kRoundPoints values long: losses,
  // shares and lengths are means over the rounds of a point, all others are as of its last one.
  // null: not known.
  nlohmann::ordered_json From(size_t first) const;

 private:
  struct Column {
    const char* name;
    Thinning thinning;
    std::vector<double> values;
  };
  std::vector<Column> columns_;
  double seconds_ = 0;  // as of the last round
};
inline constexpr size_t kRoundPoints = 600;

// The lines of metrics.jsonl, without torn or foreign ones.
nlohmann::ordered_json RoundsOf(const std::string& metrics_file);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_RUN_RECORDS_H_
