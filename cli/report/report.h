#ifndef LONGWAVE_CLI_REPORT_REPORT_H_
#define LONGWAVE_CLI_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// The folder's file that has its report.
inline constexpr char kReportFile[] = "/report.html";
// Text that the run's model has made, by `up`; not of every run.
inline constexpr char kSampleFile[] = "/sample.txt";

// `longwave report`: writes one HTML file, which needs no other, of runs of `up` that are alive or
// over, beside each other. folders: the runs'. Errors: NotFound (no run's folder),
// PermissionDenied, InvalidArgument (the configuration), Unavailable (the file).
absl::Status WriteReport(const std::vector<std::string>& folders, const std::string& file);

// The page itself.
absl::StatusOr<std::string> ReportPage(const std::vector<std::string>& folders);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_REPORT_H_
