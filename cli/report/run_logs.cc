#include "cli/report/run_logs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/report/numbers.h"
#include "cli/report/thin.h"
#include "common/log/log_time.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// "2026-11-23 10:02:11.482Z rotterdam info text…"
struct LogLine {
  absl::Time time;
  std::string_view process, level, text;
};

std::optional<LogLine> Parse(std::string_view line) {
  const std::optional<absl::Time> time = LogTimeOf(line);
  if (!time.has_value()) return std::nullopt;
  std::array<std::string_view, 4> words;   // the last one is the rest
  line.remove_prefix(line.find(' ') + 1);  // the date
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t end = i + 1 < words.size() ? line.find(' ') : line.size();
    if (end == std::string_view::npos) return std::nullopt;
    words[i] = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  return LogLine{*time, words[1], words[2], words[3]};
}

// The number behind `key` in the text.
std::optional<double> NumberAfter(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(at + key.size());
  rest = rest.substr(0, rest.find_first_not_of("0123456789."));
  double number = 0;
  return absl::SimpleAtod({rest.data(), rest.size()}, &number) ? std::optional(number)
                                                               : std::nullopt;
}

// Adds the parts of a sync's time, as "…: encoding 0.25, waiting 0.50" has them.
void AddParts(std::string_view text, Json* parts) {
  const size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return;
  for (text.remove_prefix(colon + 2); !text.empty();) {
    const std::string_view part = text.substr(0, text.find(", "));
    text.remove_prefix(std::min(text.size(), part.size() + 2));
    const std::string name(part.substr(0, part.find(' ')));
    (*parts)[name] = parts->value(name, 0.0) + NumberAfter(part, " ").value_or(0);
  }
}

Json WorkerOf(const std::string& name, const std::vector<std::string>& lines) {
  std::vector<double> rounds, shares, lengths;
  Json parts = {{"computing", 0.0}};
  std::optional<std::pair<absl::Time, double>> before;
  std::optional<double> round;
  for (const std::string& line : lines) {
    const std::optional<LogLine> parsed = Parse(line);
    if (!parsed.has_value()) continue;
    if (parsed->text.starts_with("round ")) round = NumberAfter(parsed->text, "round ");
    const auto computed = NumberAfter(parsed->text, "computed for ");
    const auto synced = NumberAfter(parsed->text, "synced for ");
    if (!computed || !synced || !round || !parsed->text.starts_with("computed for ")) continue;
    rounds.push_back(*round);
    shares.push_back(*computed / std::max(1e-9, *computed + *synced));
    const double done = before.has_value() ? *round - before->second : 0;
    lengths.push_back(done > 0 ? absl::ToDoubleSeconds(parsed->time - before->first) / done
                               : std::numeric_limits<double>::quiet_NaN());
    before = {parsed->time, *round};
    parts["computing"] = parts["computing"].get<double>() + *computed;
    AddParts(parsed->text, &parts);
  }
  return {{"name", name},
          {"round", NumbersJson(Thin(rounds, kWorkerPoints, Thinning::kLast))},
          {"compute_share", NumbersJson(Thin(shares, kWorkerPoints, Thinning::kMean))},
          {"round_seconds", NumbersJson(Thin(lengths, kWorkerPoints, Thinning::kMean))},
          {"seconds", std::move(parts)}};
}

bool IsEvent(const LogLine& line, const std::string& process) {
  if (line.level == "warning" || line.level == "error") return true;
  return line.level == "info" && !process.starts_with("worker-") &&
         !line.text.starts_with("metrics http");
}

}  // namespace

RunLogs ReadLogs(const std::string& logs_folder) {
  RunLogs logs;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(logs_folder, error)) {
    if (entry.path().extension() != ".log") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    logs.emplace_back(entry.path().stem().string(), std::move(lines));
  }
  std::ranges::sort(logs, {},
                    [](const auto& log) { return std::pair(log.first.size(), log.first); });
  return logs;
}

Json WorkersOf(const RunLogs& logs) {
  Json workers = Json::array();
  for (const auto& [process, lines] : logs) {
    if (process.starts_with("worker-")) workers.push_back(WorkerOf(process, lines));
  }
  return workers;
}

Json EventsOf(const RunLogs& logs) {
  std::vector<std::pair<absl::Time, Json>> events;
  for (const auto& [process, lines] : logs) {
    for (const std::string& line : lines) {
      const std::optional<LogLine> parsed = Parse(line);
      if (!parsed.has_value() || !IsEvent(*parsed, process)) continue;
      events.emplace_back(parsed->time, Json{{"time", absl::ToUnixMillis(parsed->time)},
                                             {"process", process},
                                             {"level", std::string(parsed->level)},
                                             {"text", std::string(parsed->text)}});
    }
  }
  std::ranges::stable_sort(events, {}, &std::pair<absl::Time, Json>::first);
  Json array = Json::array();
  const size_t left_out = events.size() > kEventsMax ? events.size() - kEventsMax : 0;
  for (size_t i = 0; i < events.size(); ++i) {
    if (left_out > 0 && i == kEventsMax / 2) {
      Json gap = events[i].second;
      gap["process"] = "report";
      gap["level"] = "info";
      gap["text"] = absl::StrCat(left_out, " events are left out here; the logs have them");
      array.push_back(std::move(gap));
      i += left_out;
    }
    array.push_back(std::move(events[i].second));
  }
  return array;
}

}  // namespace longwave
