#ifndef LONGWAVE_SERVER_SERVICE_METRICS_FILE_H_
#define LONGWAVE_SERVER_SERVICE_METRICS_FILE_H_

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/control.h"

namespace longwave {

// One finished round as one line of JSON, without the newline. Losses that are not numbers are
// null; state_hash is 16 hex digits, since JSON's numbers end at 2^53.
std::string MetricsLine(const RoundRecord& record);

// <run-dir>/metrics.jsonl: a line a round, each complete on disk before the next.
class MetricsFile {
 public:
  // Creates the folder if need be; what the file already holds stays. PermissionDenied: cannot
  // write.
  static absl::StatusOr<MetricsFile> Open(const std::string& run_dir);
  // Goes on with a run's file: next_round() is the one after the last that it holds, but at most
  // `known_rounds`. What follows its last whole line, of a process that ended over it, is cut off.
  static absl::StatusOr<MetricsFile> Continue(const std::string& run_dir, uint32_t known_rounds);

  // ResourceExhausted: it could not be written; the file is as it was, and may take it later.
  absl::Status Append(const RoundRecord& record);
  // The round after the last that was appended.
  uint32_t next_round() const { return next_round_; }

 private:
  MetricsFile(std::string path, std::ofstream out);

  std::string path_;
  std::ofstream out_;
  uint32_t next_round_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_METRICS_FILE_H_
