#ifndef LONGWAVE_SERVER_SERVICE_METRICS_FILE_H_
#define LONGWAVE_SERVER_SERVICE_METRICS_FILE_H_

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/control/control.h"

namespace longwave {

// A finished round as one line of JSON, without the newline. Losses that are not finite are null.
// state_hash is 16 hex digits, since JSON numbers are exact up to 2^53 only.
std::string MetricsLine(const RoundRecord& record);

// <run-dir>/metrics.jsonl: a line for each round, whole before the next one.
class MetricsFile {
 public:
  // Creates the folder if need be, and keeps the file's content. PermissionDenied: not writable.
  static absl::StatusOr<MetricsFile> Open(const std::string& run_dir);
  // Continues a run's file. next_round() is the round after the file's last, but at most
  // `known_rounds`. An incomplete last line is cut off.
  static absl::StatusOr<MetricsFile> Continue(const std::string& run_dir, uint32_t known_rounds);

  // ResourceExhausted: the write failed. The file is unchanged, and a retry may succeed.
  absl::Status Append(const RoundRecord& record);
  // The round after the last one appended.
  uint32_t next_round() const { return next_round_; }

 private:
  MetricsFile(std::string path, std::ofstream out);

  std::string path_;
  std::ofstream out_;
  uint32_t next_round_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_METRICS_FILE_H_
