#include "cli/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

// A finding has one line, but a quoted library's or server's sentence may have line ends.
std::string OneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return Utf8Prefix(Printable(text), 2000);
}

}  // namespace

std::vector<std::string> ReportLines(const std::vector<Finding>& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    std::string line = absl::StrFormat("%-8s %-12s %s", Name(finding.verdict), finding.part,
                                       OneLine(finding.what));
    if (finding.verdict != Finding::Verdict::kOk) line += "; remedy: " + OneLine(finding.remedy);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string ReportJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json report;
  report["verdict"] = Name(Worst(findings));
  report["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    report["findings"].push_back({{"part", finding.part},
                                  {"verdict", Name(finding.verdict)},
                                  {"what", OneLine(finding.what)},
                                  {"remedy", OneLine(finding.remedy)}});
  }
  return report.dump(2);
}

}  // namespace longwave
