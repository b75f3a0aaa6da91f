#include "cli/top.h"

#include <poll.h>

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/display.h"
#include "cli/interrupts.h"
#include "cli/status_feed.h"
#include "cli/view.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

constexpr absl::Duration kSilenceNoted = absl::Seconds(3);
// Enough for the first answer, which may have a megabyte of rounds, over a slow link.
constexpr absl::Duration kCallTimeout = absl::Seconds(5);

absl::StatusOr<RunPhase> Watch(const Target& target, bool plain) {
  LONGWAVE_ASSIGN_OR_RETURN(const Interrupts interrupts, Interrupts::Block());
  StatusFeed feed;
  feed.Connect(target.address, target.security, kCallTimeout);
  const std::unique_ptr<CoordinatorClient> patient =
      CoordinatorClient::Connect(target.address, kCommandDeadline, target.security);
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, GetConfig(*patient));
  const std::unique_ptr<Display> display = Display::Create(plain);
  pollfd interrupted = {interrupts.fd(), POLLIN, 0};
  do {
    feed.Refresh();
    const bool is_silent = feed.silence() > kSilenceNoted;
    display->Update({.config = &config,
                     .status = &feed.status(),
                     .coordinator_address = target.address,
                     .elapsed_s = feed.status().seconds,
                     .note = is_silent ? "the coordinator does not answer" : ""});
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

int RunTop(const Target& target, bool plain) {
  const absl::StatusOr<RunPhase> phase = Watch(target, plain);
  if (!phase.ok()) return ExitStatus("longwave top: failed", phase.status());
  PrintLine(stdout, absl::StrCat("longwave top: the run is ", std::string(Name(*phase))));
  return *phase == RunPhase::kFailed ? 1 : 0;
}

}  // namespace longwave
