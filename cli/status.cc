#include "cli/status.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "cli/display.h"
#include "cli/interrupts.h"
#include "cli/json_text.h"
#include "cli/live_page.h"
#include "cli/status_feed.h"
#include "cli/summary.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

// The status of a run with its own configuration.
struct Known {
  RunConfig config;
  RunStatus status;
};

absl::StatusOr<Known> Ask(const Target& target) {
  const std::unique_ptr<CoordinatorClient> client =
      CoordinatorClient::Connect(target.address, kCommandDeadline, target.security);
  Known known;
  LONGWAVE_ASSIGN_OR_RETURN(known.config, GetConfig(*client));
  // Of the records only the last one.
  LONGWAVE_ASSIGN_OR_RETURN(known.status, client->GetStatus());
  if (known.status.record_count == 0) return known;
  LONGWAVE_ASSIGN_OR_RETURN(known.status, client->GetStatus(known.status.record_count - 1));
  return known;
}

constexpr absl::Duration kSilenceNoted = absl::Seconds(3);
// Enough for the first answer, which may have a megabyte of rounds, over a slow link.
constexpr absl::Duration kCallTimeout = absl::Seconds(5);

absl::StatusOr<RunPhase> Watch(const Target& target, const WebOptions& web, bool plain) {
  LONGWAVE_ASSIGN_OR_RETURN(const Interrupts interrupts, Interrupts::Block());
  StatusFeed feed;
  feed.Connect(target.address, target.security, kCallTimeout);
  const std::unique_ptr<CoordinatorClient> patient =
      CoordinatorClient::Connect(target.address, kCommandDeadline, target.security);
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, GetConfig(*patient));
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<LivePage> page,
      LivePage::Start(web, config.run.name.empty() ? target.address : config.run.name, config));
  const std::unique_ptr<Display> display = Display::Create(plain);
  pollfd interrupted = {interrupts.fd(), POLLIN, 0};
  do {
    feed.Refresh();
    const std::string note =
        feed.silence() > kSilenceNoted ? "the coordinator does not answer" : "";
    if (page != nullptr) page->Update(feed.status(), note);
    display->Update({.config = &config,
                     .status = &feed.status(),
                     .coordinator_address = target.address,
                     .elapsed_s = feed.status().seconds,
                     .note = note});
  } while (!feed.has_all() &&
           poll(&interrupted, 1, absl::ToInt64Milliseconds(StatusFeed::kInterval)) <= 0 &&
           feed.silence() <= StatusFeed::kSilenceMax);
  if (feed.silence() > StatusFeed::kSilenceMax) {
    return Unavailable("the coordinator has not answered for ",
                       absl::FormatDuration(StatusFeed::kSilenceMax), "; the run was ",
                       Name(feed.status().phase), " then");
  }
  return feed.status().phase;
}

}  // namespace

std::string FormatStatusJson(const RunConfig& config, const RunStatus& status) {
  using Json = nlohmann::ordered_json;
  Json workers = Json::array(), shards = Json::array(), refusals = Json::object();
  for (const MemberStatus& member : status.members) {
    const WorkerState& state = member.state;
    workers.push_back({{"name", member.member.name},
                       {"index", member.member.worker},
                       {"state", Name(state.phase)},
                       {"ranks", std::max(1u, state.ranks)},
                       {"step", state.step},
                       {"rounds", RoundsDone(state)},
                       {"train_loss", NumberOrNull(state.train_loss)},
                       {"tokens", state.tokens},
                       {"bytes_pushed", state.bytes.pushed},
                       {"bytes_pulled", state.bytes.pulled},
                       {"heard_seconds_ago", member.heartbeat_age_s}});
  }
  for (const ShardStatus& shard : status.shards) {
    shards.push_back(
        {{"index", shard.shard.shard},
         {"state", Name(shard)},
         {"open_round",
          shard.state.open_round == kRoundNever ? Json() : Json(shard.state.open_round)},
         {"pushes_accepted", shard.state.pushes_accepted},
         {"pushes_late", shard.state.pushes_late},
         {"pushes_rejected", shard.state.pushes_rejected},
         {"bytes_received", shard.state.bytes_received},
         {"bytes_sent", shard.state.bytes_sent},
         {"heard_seconds_ago", shard.heartbeat_age_s}});
  }
  for (const RefusalCount& refusal : status.refusals) refusals[refusal.reason] = refusal.count;
  Json json = FiguresJson(Summarize(config, status, RunOutcome::kStopped, status.failure, 0));
  json.update({{"phase", Name(status.phase)},
               {"trouble", TroubleLines(status)},
               {"rounds_of", RoundsOf(config, status)},
               {"steps_of", config.run.steps},
               {"seconds", status.seconds},
               {"seconds_left", SecondsLeft(config, status)},
               {"train_loss", TrainLoss(status)},
               {"tokens_per_second", TokensPerSecond(status)},
               {"epoch", status.epoch},
               {"secured", status.secured},
               {"refusals", refusals},
               {"workers_wanted", status.workers_wanted},
               {"workers", workers},
               {"shards_wanted", status.shards_wanted},
               {"shards", shards}});
  json["interval"] = Json();
  if (status.interval.has_value()) {
    const IntervalStatus& interval = *status.interval;
    json["interval"] = {{"inner_steps", interval.inner_steps},
                        {"first_round", interval.first_round},
                        {"changes", interval.changes},
                        {"reason", interval.reason},
                        {"lost_share", NumberOrNull(interval.lost_share)}};
  }
  return JsonText(json);
}

int RunStatusCommand(const Target& target, bool json) {
  const absl::StatusOr<Known> known = Ask(target);
  if (!known.ok()) return ExitStatus("longwave status: failed", known.status());
  if (json) {
    std::fputs(FormatStatusJson(known->config, known->status).c_str(), stdout);
  } else {
    PrintView({.config = &known->config,
               .status = &known->status,
               .is_whole = true,
               .coordinator_address = target.address,
               .elapsed_s = known->status.seconds});
  }
  return 0;
}

int RunTop(const Target& target, const WebOptions& web, bool plain) {
  const absl::StatusOr<RunPhase> phase = Watch(target, web, plain);
  if (!phase.ok()) return ExitStatus("longwave top: failed", phase.status());
  PrintLine(stdout, "longwave top: the run is ", std::string(Name(*phase)));
  return *phase == RunPhase::kFailed ? 1 : 0;
}

}  // namespace longwave
