#include "cli/runs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/json_text.h"
#include "cli/report/round_record.h"
#include "cli/run_folder.h"
#include "cli/text.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/config.h"
#include "common/config/key_types.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Enough for the last validation loss of nearly every run.
constexpr std::streamoff kTailBytes = 1 << 20;

// The place that a run has come to, as far as the end of its records tells.
struct Progress {
  uint64_t rounds = 0;
  uint64_t step = 0;
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  double validation_loss = std::numeric_limits<double>::quiet_NaN();
};

Progress ReadProgress(const std::string& path) {
  Progress progress;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  for (std::string line; std::getline(file, line);) {
    const Json record = RecordOf(line);
    if (!record.is_object()) continue;
    progress.rounds = record["round"].get<uint64_t>() + 1;
    const double step = NumberAt(record, "step");
    progress.step = step >= 0 ? static_cast<uint64_t>(step) : 0;
    progress.train_loss = NumberAt(record, "train_loss");
    const double validation_loss = NumberAt(record, "validation_loss");
    if (validation_loss == validation_loss) progress.validation_loss = validation_loss;
  }
  return progress;
}

// Whether an `up` works in the folder, by its lock. One that was killed leaves its files behind,
// and its coordinator's port may be another's by now.
bool IsInUse(const std::string& folder) {
  const Descriptor lock(open((folder + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  return lock.get() >= 0 && flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

// "running", how `up` ended, or "killed" where it could not say so.
std::string StateOf(const std::string& folder) {
  if (IsInUse(folder)) return "running";
  const auto text = ReadTextFile(folder + "/summary.json");
  const std::string outcome = TextAt(
      nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false), "outcome");
  return outcome.empty() ? "killed" : outcome;
}

absl::Time TimeOfLastRecord(const std::string& folder) {
  struct stat file = {};
  if (stat((folder + "/metrics.jsonl").c_str(), &file) != 0)
    stat((folder + "/config.yaml").c_str(), &file);
  return absl::FromTimeT(file.st_mtime);
}

std::vector<std::string> RowOf(const std::string& folder, absl::Time time) {
  const auto config = LoadConfig(folder + "/config.yaml");
  const Progress progress = ReadProgress(folder + "/metrics.jsonl");
  const uint64_t rounds = config.ok() ? ExpectedRounds(*config, progress.rounds, progress.step) : 0;
  return {fs::path(folder).filename().string(),
          StateOf(folder),
          absl::StrCat(progress.rounds, "/", rounds > 0 ? absl::StrCat(rounds) : "?"),
          FormatLoss(progress.train_loss),
          FormatLoss(progress.validation_loss),
          absl::FormatTime("%Y-%m-%d %H:%M", time, absl::LocalTimeZone())};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> RunLines(const std::string& runs_dir) {
  LONGWAVE_RETURN_IF_ERROR(CheckReadable(runs_dir));
  std::vector<std::pair<absl::Time, std::string>> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs_dir, error)) {
    const std::string folder = entry.path().string();
    std::error_code ignored;
    if (fs::exists(folder + "/config.yaml", ignored))
      folders.emplace_back(TimeOfLastRecord(folder), folder);
  }
  if (error) {
    return NotFound(runs_dir, ": ", error.message(),
                    ", wanted the folder of runs of `longwave up` (--runs-dir)");
  }
  std::ranges::sort(folders, std::greater());
  TextTable table;
  table.AddRow({"run", "state", "round", "loss", "validation", "last record"});
  for (const auto& [time, folder] : folders) table.AddRow(RowOf(folder, time));
  return table.Lines();
}

absl::StatusOr<Target> FindTarget(const Target& given, const std::string& runs_dir) {
  if (IsHostPort(given.address)) return given;
  const std::string folder = FindRunFolder(given.address, runs_dir);
  LONGWAVE_RETURN_IF_ERROR(CheckReadable(folder + "/config.yaml"));
  std::error_code error;
  if (!fs::exists(folder + "/config.yaml", error)) {
    return InvalidArgument("got ", Quotable(given.address),
                           ", wanted host:port, or the folder or name of a run of `longwave up`");
  }
  if (!IsInUse(folder)) {
    return FailedPrecondition("the run in ", folder, " does not run here (", StateOf(folder),
                              "), wanted one that does, or host:port");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::string address,
                            ReadTextFile(folder + RunFolder::kAddressFile));
  Target target = {.address = std::string(absl::StripAsciiWhitespace(address)),
                   .security = given.security};
  const std::string credentials = folder + "/security/operator";
  if (target.security.empty() && fs::exists(credentials, error)) target.security = credentials;
  return target;
}

uint64_t RoundsRecorded(const std::string& run_folder) {
  return ReadProgress(run_folder + "/metrics.jsonl").rounds;
}

absl::Status PrintMetrics(const std::string& run_folder) {
  const std::string path = run_folder + "/metrics.jsonl";
  LONGWAVE_RETURN_IF_ERROR(CheckReadable(path));
  std::ifstream file(path);
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    const Json record = RecordOf(line);
    if (!record.is_object()) continue;
    std::string head, row;
    if (keys.empty()) {
      for (const auto& [key, unused] : record.items()) keys.push_back(key);
      for (const std::string& key : keys) absl::StrAppend(&head, head.empty() ? "" : ",", key);
      PrintLine(stdout, head);
    }
    for (const std::string& key : keys) {
      const auto value = record.find(key);
      const bool is_known = value != record.end() && !value->is_null();
      absl::StrAppend(&row, row.empty() ? "" : ",",
                      !is_known            ? ""
                      : value->is_string() ? value->get<std::string>()
                                           : value->dump());
    }
    PrintLine(stdout, row);
  }
  if (!keys.empty()) return absl::OkStatus();
  return NotFound("got no rounds in ", path, ", wanted a run that has finished one");
}

}  // namespace longwave
