#ifndef LONGWAVE_CLI_REPORT_RUN_RECORDS_H_
#define LONGWAVE_CLI_REPORT_RUN_RECORDS_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace longwave {

// The rounds of a run, of the lines of metrics.jsonl, as arrays by name: step, tokens, seconds,
// train_loss, validation_loss, bytes_pushed, bytes_pulled, compute_share, members, round_seconds.
// At most kRoundPoints long: losses, shares and lengths are means over the rounds of a point, all
// others are as of its last one. null: not known. A torn or foreign line is left out.
inline constexpr size_t kRoundPoints = 600;
nlohmann::ordered_json RoundsOf(const std::string& metrics_file);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_RUN_RECORDS_H_
