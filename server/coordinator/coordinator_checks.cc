// Checks of registrations and heartbeats, without side effects.

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/sentences.h"

namespace longwave {
namespace {

using Setting = std::pair<std::string_view, std::string_view>;

// The lines "key: value" of a text.
std::vector<Setting> Settings(std::string_view text) {
  std::vector<Setting> settings;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t colon = std::min(line.find(": "), line.size());
    settings.emplace_back(line.substr(0, colon), line.substr(std::min(line.size(), colon + 2)));
  }
  return settings;
}

// The value of the key; null if it is absent.
const std::string_view* Find(const std::vector<Setting>& settings, std::string_view key) {
  for (const auto& [name, value] : settings) {
    if (name == key) return &value;
  }
  return nullptr;
}

// Both are whole numbers.
bool IsBelow(std::string_view got, std::string_view limit) {
  uint64_t number = 0, most = 0;
  return absl::SimpleAtoi({got.data(), got.size()}, &number) &&
         absl::SimpleAtoi({limit.data(), limit.size()}, &most) && number < most;
}

bool Contains(const std::vector<uint64_t>& words, uint64_t word) {
  return std::ranges::find(words, word) != words.end();
}

absl::Status TakenPlace(const std::string& who) {
  return Aborted("another process has taken the place of ", who,
                 ", which this process had: it has to end");
}

}  // namespace

absl::Status Coordinator::CheckSettings(const std::string& who, const std::string& settings,
                                        std::span<const std::string> at_most) const {
  if (settings == options_.settings) return absl::OkStatus();
  const std::vector<Setting> ours = Settings(options_.settings);
  const std::vector<Setting> theirs = Settings(settings);
  const auto refuse = [&](std::string_view key, std::string_view got, std::string_view wanted,
                          std::string_view why) {
    return InvalidArgument(who, ": ", Quotable(key), ": got ", Quotable(got), ", wanted ", wanted,
                           " as the coordinator has it: ", why);
  };
  constexpr std::string_view kOneForAll = "all processes of a run need one configuration";
  for (const auto& [key, wanted] : ours) {
    const std::string_view* const got = Find(theirs, key);
    if (got != nullptr && *got == wanted) continue;
    if (std::ranges::find(at_most, key) == at_most.end()) {
      return refuse(key, got ? *got : "nothing", wanted, kOneForAll);
    }
    if (got == nullptr || !IsBelow(*got, wanted)) {
      return refuse(key, got ? *got : "nothing", absl::StrCat("at most ", std::string(wanted)),
                    "by it the shards bound what a contribution may weigh");
    }
  }
  for (const auto& [key, got] : theirs) {
    if (Find(ours, key) == nullptr) return refuse(key, got, "nothing", kOneForAll);
  }
  if (std::ranges::equal(ours, theirs, {}, &Setting::first, &Setting::first)) {
    return absl::OkStatus();
  }
  return InvalidArgument(who,
                         " lists its settings in another order; wanted a process of this version");
}

// Of two processes of one folder the later one has the place, whichever is heard first: messages of
// the earlier process may arrive after it, for example when the coordinator was stopped. A folder
// that was restored from a backup, or copied, counts its processes as well. Its residual gives it
// away: the residual does not account for the rounds that this name has taken part in since. (The
// shards know of pushes that no report has mentioned yet.)
absl::Status Coordinator::CheckOrder(const RegisterWorker& request) const {
  const Worker* const worker = FindWorker(request.name);
  if (worker == nullptr || request.incarnation == worker->incarnation) return absl::OkStatus();
  constexpr char kSetAside[] =
      "; a folder that was restored from a backup, or copied, is to be set aside: start without "
      "one";
  const uint64_t accounted = request.process >> 32;
  const uint32_t taken_part = ledger_.TakenPart(worker->member.worker);
  if (accounted != 0 && accounted < taken_part) {
    return Aborted(Describe(worker->member), ": the residual in its folder accounts for ",
                   accounted, " rounds, wanted the ", taken_part, " that it has taken part in",
                   kSetAside);
  }
  const auto process = static_cast<uint32_t>(request.process);
  const auto newest = static_cast<uint32_t>(worker->process);
  if (request.identity == 0 || worker->identity != request.identity || process == 0 ||
      process >= newest) {
    return absl::OkStatus();
  }
  return Aborted(Describe(worker->member), ": process ", process,
                 " of the folder asks for the place that process ", newest,
                 " has; wanted a later one: this process has to end", kSetAside);
}

// Whether a worker of that name finds a place.
absl::Status Coordinator::CheckPlace(const RegisterWorker& request, absl::Time now) const {
  if (const Worker* worker = FindWorker(request.name); worker != nullptr) {
    if (worker->incarnation == request.incarnation || worker->lost) return absl::OkStatus();
    if (request.identity == 0 || worker->identity != request.identity) {
      return AlreadyExists(absl::StrFormat(
          "worker name %s is taken by a live member that was heard %.1f s ago; wanted another name",
          request.name, absl::ToDoubleSeconds(now - worker->heard)));
    }
    return absl::OkStatus();
  }
  if (phase_ == RunPhase::kWaiting && workers_.size() >= options_.workers_wanted) {
    return Unavailable(
        "worker ", request.name, " asks to join, but all ", options_.workers_wanted,
        " workers that the run begins with are registered; it may join once training has begun");
  }
  if (membership_.members.size() >= options_.workers_max) {
    return ResourceExhausted("worker ", request.name, " asks to join, but the run has ",
                             membership_.members.size(), " members, wanted fewer than ",
                             options_.workers_max, " (cluster.workers_max)");
  }
  if (workers_.size() >= kWorkersMax) {
    return ResourceExhausted("worker ", request.name, ": the run has had ", kWorkersMax,
                             " names, and takes no more");
  }
  return absl::OkStatus();
}

// Shards identify a connection's worker by its key, so two workers cannot share one.
absl::Status Coordinator::CheckDataKey(const RegisterWorker& request) const {
  if (request.data_key.empty()) return absl::OkStatus();
  for (const auto& [index, worker] : workers_) {
    if (worker.member.data_key != request.data_key || worker.member.name == request.name) continue;
    return InvalidArgument("worker ", request.name, ": its data key is that of ",
                           Describe(worker.member),
                           "; wanted a key of its own, which each process makes when it starts");
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckStart(const RegisterWorker& request, uint64_t segments) const {
  const std::vector<uint64_t>& hashes = request.start_hashes;
  if (hashes.empty()) return absl::OkStatus();
  if (hashes.size() != segments) {
    return InvalidArgument("worker ", request.name, ": got ", hashes.size(),
                           " hashes of first weights, wanted ", segments, ", one a segment");
  }
  if (options_.takes_other_starts || start_hashes_.empty()) return absl::OkStatus();
  const auto [got, wanted] = std::ranges::mismatch(hashes, start_hashes_);
  if (got == hashes.end()) return absl::OkStatus();
  return InvalidArgument(absl::StrFormat(
      "worker %s begins with other weights than the run: segment %d: got hash %016x, wanted %016x; "
      "the same version of longwave draws the same weights from one run.seed. With run.start: "
      "member the worker would join all the same and fetch the run's weights",
      request.name, got - hashes.begin(), *got, *wanted));
}

// A lost member may be the one that was wrong.
absl::Status Coordinator::CheckAlike(const RegisterWorker& request) const {
  for (const Alike& own : request.alike) {
    for (const auto& [index, other] : workers_) {
      if (other.lost || other.member.name == request.name) continue;
      const auto same = std::ranges::find(other.alike, own.name, &Alike::name);
      if (same == other.alike.end()) continue;
      if (same->hash == own.hash) break;
      return InvalidArgument(absl::StrFormat(
          "worker %s: %s: got %s (hash %016x), wanted what %s has, %s (hash %016x): no sync makes "
          "them equal",
          request.name, Quotable(own.name), Quotable(own.summary), own.hash, other.member.name,
          Quotable(same->summary), same->hash));
    }
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckRegistration(const RegisterWorker& request, absl::Time now) const {
  if (is_over()) return FailedPrecondition(OverSentence());
  if (request.name.empty() || request.name.size() > kNameBytesMax) {
    return InvalidArgument("worker name of ", request.name.size(), " bytes, wanted 1 to ",
                           kNameBytesMax);
  }
  if (const Worker* worker = FindWorker(request.name);
      worker != nullptr && Contains(worker->former, request.incarnation)) {
    return TakenPlace(Describe(worker->member));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckOrder(request));
  LONGWAVE_RETURN_IF_ERROR(CheckSettings(absl::StrCat("worker ", request.name), request.settings,
                                         options_.settings_at_most));
  LONGWAVE_RETURN_IF_ERROR(CheckPlace(request, now));
  LONGWAVE_RETURN_IF_ERROR(CheckDataKey(request));
  LONGWAVE_RETURN_IF_ERROR(Validate(request.manifest));
  if (!manifest_) return absl::OkStatus();
  if (std::string difference = FirstDifference(request.manifest, *manifest_); !difference.empty()) {
    return InvalidArgument("model of worker ", request.name, " differs: ", difference);
  }
  if (request.layout_hash != layout_hash_) {
    return InvalidArgument(absl::StrFormat(
        "worker %s cuts the model another way: layout hash %016x, wanted %016x; the tiling, block, "
        "segment_tiles and shards of its configuration must be the run's",
        request.name, request.layout_hash, layout_hash_));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckAlike(request));
  return CheckStart(request, ledger_.segment_count());
}

absl::Status Coordinator::CheckRegistration(const RegisterShard& request, absl::Time now) const {
  if (is_over()) return FailedPrecondition(OverSentence());
  LONGWAVE_RETURN_IF_ERROR(
      CheckSettings(absl::StrCat("shard ", request.shard), request.settings, {}));
  if (request.shard >= options_.shards_wanted) {
    return InvalidArgument("shard ", request.shard, ", wanted an index below ",
                           options_.shards_wanted);
  }
  if (request.run != 0 && request.run != run_) {
    return FailedPrecondition(absl::StrFormat(
        "shard %d: its folder is of run %016x, wanted this one, %016x, or an empty folder",
        request.shard, request.run, run_));
  }
  const auto found = shards_.find(request.shard);
  if (found == shards_.end()) return absl::OkStatus();
  const Shard& shard = found->second;
  if (Contains(shard.former, request.incarnation)) {
    return TakenPlace(absl::StrCat("shard ", request.shard));
  }
  if (shard.incarnation == request.incarnation) return absl::OkStatus();
  // The range was restored on another machine, whose state is newer whether or not its heartbeats
  // arrive just now.
  if (request.run != 0 && request.folder != shard.folder) {
    return FailedPrecondition(absl::StrFormat(
        "shard %d: its folder is %016x, but the range was made again elsewhere, in folder %016x; "
        "wanted that one, or an empty folder: remove this one to begin anew",
        request.shard, request.folder, shard.folder));
  }
  const absl::Duration silence = now - shard.heard;
  if (silence >= options_.replace_after) return absl::OkStatus();
  return Unavailable(absl::StrFormat(
      "shard %d, %s the run's folder, asks for the place of one at %s that was heard %s ago; "
      "wanted it to be silent for %s",
      request.shard, request.run != 0 ? "with" : "without", shard.address.data_endpoint,
      FormatSeconds(silence), FormatSeconds(options_.replace_after)));
}

absl::Status Coordinator::CheckHeartbeat(const WorkerHeartbeat& heartbeat) const {
  if (is_over()) return absl::OkStatus();  // the answer is kStop
  // The coordinator's record may be from an older time, which the shards' heartbeats will show,
  // and the worker may have joined since. A worker that states a wrong epoch harms only itself.
  if (goes_on_ && heartbeat.known_epoch > membership_.epoch) {
    return Unavailable("heartbeat of worker ", heartbeat.worker, ": it knows epoch ",
                       heartbeat.known_epoch, ", wanted none after ", membership_.epoch);
  }
  const auto found = workers_.find(heartbeat.worker);
  if (found == workers_.end()) {
    return NotFound("heartbeat of worker ", heartbeat.worker, ": wanted one of the ",
                    workers_.size(), " registered workers");
  }
  const Worker& worker = found->second;
  if (Contains(worker.former, heartbeat.incarnation)) return TakenPlace(Describe(worker.member));
  if (worker.incarnation != heartbeat.incarnation) {
    return Aborted(absl::StrFormat("heartbeat of %s: incarnation %016x, wanted %016x",
                                   Describe(worker.member), heartbeat.incarnation,
                                   worker.incarnation));
  }
  if (worker.left || !heartbeat.failure.empty()) return absl::OkStatus();
  if (schedule_) {
    LONGWAVE_RETURN_IF_ERROR(
        schedule_->CheckKnown(heartbeat, IsBeforeTaken(heartbeat.known_epoch)));
  }
  if (phase_ == RunPhase::kWaiting && (!heartbeat.rounds.empty() || heartbeat.final)) {
    return InvalidArgument(Describe(worker.member),
                           " reports rounds, but the run has not begun; wanted none");
  }
  return ledger_.Check(worker.member, heartbeat.rounds);
}

absl::Status Coordinator::CheckHeartbeat(const ShardHeartbeat& heartbeat) const {
  if (is_over()) return absl::OkStatus();
  const auto found = shards_.find(heartbeat.shard);
  if (found == shards_.end()) {
    return NotFound("heartbeat of shard ", heartbeat.shard, ": wanted one of the ", shards_.size(),
                    " registered shards");
  }
  const Shard& shard = found->second;
  if (Contains(shard.former, heartbeat.incarnation)) {
    return TakenPlace(absl::StrCat("shard ", heartbeat.shard));
  }
  if (shard.incarnation != heartbeat.incarnation) {
    return Aborted(absl::StrFormat("heartbeat of shard %d: incarnation %016x, wanted %016x",
                                   heartbeat.shard, heartbeat.incarnation, shard.incarnation));
  }
  return absl::OkStatus();
}

std::string Coordinator::FailureIn(const WorkerHeartbeat& heartbeat) {
  if (!heartbeat.failure.empty()) return heartbeat.failure;
  const auto sentence = [&](const char* which, uint64_t step, double loss) {
    return absl::StrCat("the ", which, " loss at step ", step, " is ", loss,
                        ", wanted a finite number");
  };
  for (const RoundReport& report : heartbeat.rounds) {
    if (report.train_loss && !std::isfinite(*report.train_loss)) {
      return sentence("training", report.step, *report.train_loss);
    }
    if (report.validation_loss && !std::isfinite(*report.validation_loss)) {
      return sentence("validation", report.step, *report.validation_loss);
    }
  }
  if (heartbeat.final && heartbeat.final->validation_loss &&
      !std::isfinite(*heartbeat.final->validation_loss)) {
    return sentence("final validation", heartbeat.state.step, *heartbeat.final->validation_loss);
  }
  return "";
}

}  // namespace longwave
