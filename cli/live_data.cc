#include "cli/live_data.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "cli/report/numbers.h"
#include "cli/report/run_logs.h"
#include "cli/report/thin.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "common/config/config_keys.h"

namespace longwave {
namespace {

using Json = nlohmann::ordered_json;

// In one line, as an event of a stream has it.
std::string LineOf(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

// With the names of metrics.jsonl.
Json RecordJson(const RoundRecord& record) {
  return {{"round", record.round},
          {"step", record.step},
          {"tokens", record.tokens},
          {"seconds", record.seconds},
          {"bytes_pushed", record.bytes.pushed},
          {"bytes_pulled", record.bytes.pulled},
          {"members", record.members},
          {"train_loss", NumberOrNull(record.train_loss)},
          {"validation_loss", NumberOrNull(record.validation_loss)},
          {"compute_share", record.compute_share}};
}

// The words of an event, when they change for a worker.
std::string Standing(WorkerPhase phase) {
  if (HasLeft(phase)) return absl::StrCat("has left: ", std::string(Name(phase)));
  return phase == WorkerPhase::kJoining ? "joins" : "takes part";
}

std::vector<double> From(const std::vector<double>& values, size_t first) {
  return {values.begin() + static_cast<ptrdiff_t>(std::min(first, values.size())), values.end()};
}

}  // namespace

LiveData::LiveData(std::string name, RunConfig config)
    : name_(std::move(name)), config_(std::move(config)) {}

void LiveData::AddEvent(const char* level, std::string text, absl::Time now) {
  events_.push_back({{"time", absl::ToUnixMillis(now)},
                     {"process", "coordinator"},
                     {"level", level},
                     {"text", std::move(text)}});
}

void LiveData::NoteEvents(const RunStatus& status, const std::vector<std::string>& troubles,
                          absl::Time now) {
  if (std::exchange(phase_, Name(status.phase)) != phase_)
    AddEvent("info", absl::StrCat("the run is ", phase_), now);
  for (const MemberStatus& member : status.members) {
    std::string& known = workers_[member.member.name].standing;
    std::string standing = Standing(member.state.phase);
    if (known == standing) continue;
    const bool has_left = HasLeft(member.state.phase);
    AddEvent(
        has_left ? "warning" : "info",
        absl::StrCat("worker ", member.member.worker, " (", member.member.name, ") ", standing),
        now);
    known = std::move(standing);
  }
  if (status.interval && std::exchange(interval_, status.interval->reason) != interval_)
    AddEvent("info", interval_, now);
  for (const std::string& trouble : troubles) {
    if (!troubles_.contains(trouble)) AddEvent("warning", trouble, now);
  }
  troubles_ = {troubles.begin(), troubles.end()};
}

std::string LiveData::Update(const RunStatus& status, const std::string& note, absl::Time now) {
  made_ = absl::ToUnixMillis(now);
  ++update_;
  std::vector<std::string> troubles = TroubleLines(status);
  for (const Warning& warning : status.warnings) troubles.push_back(SentenceOf(warning));
  if (!note.empty()) troubles.push_back(note);
  summary_ = FiguresJson(Summarize(config_, status, RunOutcome::kStopped, status.failure, 0));
  summary_["outcome"] = Name(status.phase);
  summary_["warnings"] = troubles;

  const size_t rounds_before = rounds_.size();
  for (size_t i = rounds_before; i < status.records.size(); ++i)
    rounds_.Add(RecordJson(status.records[i]));

  std::map<std::string, size_t> before;
  for (const auto& [name, worker] : workers_) before[name] = worker.round.size();
  const size_t events_before = events_.size();
  NoteEvents(status, troubles, now);
  for (const MemberStatus& member : status.members) {
    names_[member.member.worker] = member.member.name;
    Worker& worker = workers_[member.member.name];
    const WorkerState& state = member.state;
    const uint32_t rounds = RoundsDone(state);
    const double computing = state.seconds_computing - worker.computing;
    const double syncing = state.seconds_syncing - worker.syncing;
    // A process that is new counts its seconds from 0.
    if (rounds > worker.rounds && computing >= 0 && syncing >= 0 && computing + syncing > 0) {
      worker.round.push_back(rounds);
      worker.share.push_back(computing / (computing + syncing));
      worker.length.push_back((computing + syncing) / (rounds - worker.rounds));
    } else if (rounds == worker.rounds && computing >= 0) {
      continue;
    }
    worker.rounds = rounds;
    worker.computing = state.seconds_computing;
    worker.syncing = state.seconds_syncing;
  }
  const Json news = {
      {"summary", summary_},
      {"rounds", rounds_.From(rounds_before)},
      {"workers", WorkersFrom(before)},
      {"events",
       std::vector<Json>(events_.begin() + static_cast<ptrdiff_t>(events_before), events_.end())}};
  if (events_.size() > 2 * kEventsMax)
    events_.erase(events_.begin(), events_.end() - static_cast<ptrdiff_t>(kEventsMax));
  return LineOf({{"made", made_}, {"update", update_}, {"run", news}});
}

Json LiveData::WorkersFrom(const std::map<std::string, size_t>& first) const {
  Json workers = Json::array();
  for (const auto& [index, name] : names_) {
    const Worker& worker = workers_.at(name);
    const auto known = first.find(name);
    const auto values = [&](const std::vector<double>& all, Thinning thinning) {
      return NumbersJson(
          Thin(From(all, known == first.end() ? 0 : known->second), kWorkerPoints, thinning));
    };
    workers.push_back(
        {{"name", name},
         {"round", values(worker.round, Thinning::kLast)},
         {"compute_share", values(worker.share, Thinning::kMean)},
         {"round_seconds", values(worker.length, Thinning::kMean)},
         {"seconds", {{"computing", worker.computing}, {"syncing", worker.syncing}}}});
  }
  return workers;
}

std::string LiveData::Whole() const {
  Json settings = Json::object();
  for (const ConfigKey& key : ConfigKeys()) settings[key.name] = key.get(config_);
  const Json run = {{"name", name_},
                    {"summary", summary_},
                    {"configuration", std::move(settings)},
                    {"rounds", rounds_.From(0)},
                    {"workers", WorkersFrom({})},
                    {"events", events_}};
  return LineOf({{"made", made_}, {"update", update_}, {"runs", Json::array({run})}});
}

}  // namespace longwave
