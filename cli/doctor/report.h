#ifndef LONGWAVE_CLI_DOCTOR_REPORT_H_
#define LONGWAVE_CLI_DOCTOR_REPORT_H_

#include <string>
#include <vector>

#include "cli/doctor/checks.h"

namespace longwave {

// A line each: "warning  clock        3.2 s behind …; remedy: let the system set it …".
std::vector<std::string> ReportLines(const std::vector<Finding>& findings);
// {"verdict": "warning", "findings": [{"part", "verdict", "what", "remedy"}, …]}
std::string ReportJson(const std::vector<Finding>& findings);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_REPORT_H_
