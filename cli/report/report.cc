#include "cli/report/report.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/report/page.h"
#include "cli/report/run_logs.h"
#include "cli/report/run_records.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Of a run that is alive, or whose `up` was killed: nothing.
Json SummaryOf(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadTextFile(folder + "/summary.json");
  if (!text.ok()) return Json::object();
  Json summary = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return summary.is_object() ? summary : Json::object();
}

// Null: there is none.
Json SampleOf(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadTextFile(folder + kSampleFile);
  return text.ok() ? Json(*text) : Json();
}

absl::StatusOr<Json> RunOf(const std::string& folder) {
  const std::string config_file = folder + "/config.yaml";
  std::error_code error;
  if (!fs::exists(config_file, error) && !error) {
    return NotFound(folder, " has no config.yaml, wanted the folder of a run of `longwave up`");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(config_file));
  Json settings = Json::object();
  for (const ConfigKey& key : ConfigKeys()) settings[key.name] = key.get(config);
  const RunLogs logs = ReadLogs(folder + "/logs");
  return Json{{"name", fs::path(folder).lexically_normal().filename().string()},
              {"summary", SummaryOf(folder)},
              {"configuration", std::move(settings)},
              {"rounds", RoundsOf(folder + "/metrics.jsonl")},
              {"workers", WorkersOf(logs)},
              {"events", EventsOf(logs)},
              {"sample", SampleOf(folder)}};
}

// JSON within an element of HTML, which only "</script" or "<!--" would end or change.
std::string ForHtml(const Json& json) {
  const std::string text =
      json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return absl::StrReplaceAll(text, {{"<", "\\u003c"}});
}

}  // namespace

absl::StatusOr<std::string> ReportPage(const std::vector<std::string>& folders) {
  Json runs = Json::array();
  for (const std::string& folder : folders) {
    LONGWAVE_ASSIGN_OR_RETURN(Json run, RunOf(folder));
    runs.push_back(std::move(run));
  }
  const Json data{{"made", absl::ToUnixMillis(absl::Now())}, {"runs", std::move(runs)}};
  return absl::StrReplaceAll(kReportHtml, {{"/* page.css */", kReportCss},
                                           {"/* page.js */", kReportJs},
                                           {"/* data */", ForHtml(data)}});
}

absl::Status WriteReport(const std::vector<std::string>& folders, const std::string& file) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string page, ReportPage(folders));
  return WriteFile(file, page);
}

}  // namespace longwave
