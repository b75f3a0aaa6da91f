#include "tests/bench/shard/load.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "tests/bench/clock.h"

namespace longwave {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr absl::Duration kBusyBackoff = absl::Milliseconds(10);
constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();

}  // namespace

Load::Load(const LoadOptions& options, const BenchPushes* pushes, WakeEvent wake)
    : options_(options),
      pushes_(*pushes),
      workers_(options.workers.size(),
               Worker{.rounds_done = std::vector<uint64_t>(pushes->segments())}),
      waiter_(std::move(wake)),
      kept_(size_t{options.kept_rounds} * pushes->segments()) {}

absl::StatusOr<std::unique_ptr<Load>> Load::Connect(const LoadOptions& options,
                                                    const BenchPushes* pushes) {
  LONGWAVE_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  std::unique_ptr<Load> load(new Load(options, pushes, std::move(wake)));
  LONGWAVE_RETURN_IF_ERROR(load->Greet());
  return load;
}

absl::Status Load::Greet() {
  for (const uint32_t worker : options_.workers) {
    for (const std::string& endpoint : options_.endpoints) {
      LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Dealer> dealer, Dealer::Connect(endpoint));
      const HelloFrame hello = {
          .run = options_.run, .connection = options_.epoch, .worker = worker};
      LONGWAVE_RETURN_IF_ERROR(dealer->Send(hello, Buffer()));
      dealers_.push_back(std::move(dealer));
    }
  }
  greetings_missing_ = dealers_.size();
  return Serve([this] { return greetings_missing_ == 0; });
}

absl::StatusOr<LoadFigures> Load::Run(uint64_t rounds, absl::Duration duration) {
  const double processor_before = SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
  const LinkCounts before = Counts();
  const absl::Time begin = MonotonicNow();
  figures_ = {};
  closes_.clear();
  first_round_ = begun_;
  end_ = rounds > 0 ? begun_ + rounds : kNoEnd;
  deadline_ = begin + duration;
  running_ = static_cast<uint32_t>(workers_.size());
  for (uint32_t worker = 0; worker < workers_.size(); ++worker)
    LONGWAVE_RETURN_IF_ERROR(Begin(worker));
  LONGWAVE_RETURN_IF_ERROR(Serve([this] { return running_ == 0; }));
  LONGWAVE_RETURN_IF_ERROR(CheckFrames());
  figures_.seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  figures_.generator_seconds = SecondsOf(CLOCK_PROCESS_CPUTIME_ID) - processor_before;
  figures_.rounds = begun_ - first_round_;
  const LinkCounts after = Counts();
  figures_.link = {.sent = after.sent - before.sent,
                   .received = after.received - before.received,
                   .payload_sent = after.payload_sent - before.payload_sent,
                   .payload_received = after.payload_received - before.payload_received};
  for (const Close& close : closes_)
    figures_.close_seconds.push_back(absl::ToDoubleSeconds(close.first_merged - close.last_push));
  return figures_;
}

bool Load::MayBegin(uint64_t round) {
  if (round < begun_) return true;
  // A stretch has a round at least.
  if (end_ == kNoEnd && round > first_round_ && MonotonicNow() >= deadline_) end_ = round;
  if (round >= end_) return false;
  begun_ = round + 1;
  closes_.resize((begun_ - first_round_) * pushes_.segments());
  return true;
}

absl::Status Load::Begin(uint32_t index) {
  Worker& worker = workers_[index];
  if (!MayBegin(worker.round)) {
    --running_;
    return absl::OkStatus();
  }
  worker.missing = pushes_.segments();
  for (uint32_t segment = 0; segment < pushes_.segments(); ++segment)
    LONGWAVE_RETURN_IF_ERROR(Push(index, segment));
  return absl::OkStatus();
}

absl::Status Load::Push(uint32_t index, uint32_t segment) {
  const BenchPush& push = pushes_.Of(index, segment);
  const uint64_t round = workers_[index].round;
  const PushFrame header = {.run = options_.run,
                            .epoch = options_.epoch,
                            .round = static_cast<uint32_t>(round),
                            .worker = options_.workers[index],
                            .segment = segment,
                            .weight = push.weight,
                            .norm = push.norm};
  Dealer& dealer = *dealers_[size_t{index} * options_.endpoints.size() + options_.shards[segment]];
  LONGWAVE_RETURN_IF_ERROR(dealer.Send(header, push.payload));
  CloseOf(round, segment).last_push = MonotonicNow();
  return absl::OkStatus();
}

absl::Status Load::PushAgain() {
  while (!retries_.empty() && retries_.front().due <= MonotonicNow()) {
    const Retry retry = retries_.front();
    retries_.erase(retries_.begin());
    LONGWAVE_RETURN_IF_ERROR(Push(retry.worker, retry.segment));
  }
  return absl::OkStatus();
}

template <typename Done>
absl::Status Load::Serve(const Done& done) {
  last_frame_ = MonotonicNow();
  while (!done()) {
    bool idle = true;
    for (size_t i = 0; i < dealers_.size(); ++i) {
      for (;;) {
        LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Frame> frame,
                                  dealers_[i]->Receive(absl::ZeroDuration()));
        if (!frame.has_value()) break;
        idle = false;
        last_frame_ = MonotonicNow();
        const auto worker = static_cast<uint32_t>(i / options_.endpoints.size());
        LONGWAVE_RETURN_IF_ERROR(Take(worker, *frame));
      }
    }
    LONGWAVE_RETURN_IF_ERROR(PushAgain());
    if (!idle) continue;
    if (MonotonicNow() - last_frame_ > options_.patience) return Silence();
    LONGWAVE_RETURN_IF_ERROR(waiter_.Wait(dealers_, retries_.empty() ? kLook : kBusyBackoff));
  }
  return absl::OkStatus();
}

absl::Status Load::Take(uint32_t worker, const Frame& frame) {
  if (const auto* answer = std::get_if<AnswerFrame>(&frame.header))
    return TakeAnswer(worker, *answer, frame.payload);
  if (const auto* welcome = std::get_if<WelcomeFrame>(&frame.header);
      welcome != nullptr && welcome->outcome == Outcome::kAccepted) {
    if (greetings_missing_ > 0) --greetings_missing_;
    return absl::OkStatus();
  }
  const auto* const merged = std::get_if<MergedFrame>(&frame.header);
  if (merged == nullptr || merged->run != options_.run) {
    return DataLoss("got a frame of kind ", Name(frame.header.kind()),
                    ", wanted answers and merged updates of this run");
  }
  return TakeMerged(worker, *merged, frame.payload);
}

absl::Status Load::TakeAnswer(uint32_t worker, const AnswerFrame& answer, const Buffer& payload) {
  if (answer.outcome == Outcome::kAccepted) {
    ++figures_.accepted;
    return absl::OkStatus();
  }
  if (answer.outcome == Outcome::kBusy) {
    ++figures_.busy;
    retries_.push_back({MonotonicNow() + kBusyBackoff, worker, answer.segment});
    return absl::OkStatus();
  }
  const auto* const reason = reinterpret_cast<const char*>(payload.bytes().data());
  return FailedPrecondition("worker ", answer.worker, ", round ", answer.round, ", segment ",
                            answer.segment, ": ", Name(answer.outcome), ": ",
                            std::string(reason, payload.size()));
}

absl::Status Load::TakeMerged(uint32_t index, const MergedFrame& merged, const Buffer& payload) {
  Worker& worker = workers_[index];
  const uint32_t segment = merged.segment;
  if (running_ == 0 || merged.round != worker.round || segment >= worker.rounds_done.size() ||
      worker.rounds_done[segment] != merged.round ||
      merged.contributions != options_.workers.size()) {
    return DataLoss("worker ", options_.workers[index], " in round ", worker.round,
                    " got a merged update of round ", merged.round, ", segment ", segment, " and ",
                    merged.contributions, " contributions that it does not wait for");
  }
  ++worker.rounds_done[segment];
  Close& close = CloseOf(merged.round, segment);
  if (close.first_merged == absl::InfiniteFuture()) {
    close.first_merged = last_frame_;
    close.crc = merged.payload_crc;
    const auto bytes = payload.bytes();
    if (merged.round < options_.kept_rounds)
      kept_[size_t{merged.round} * pushes_.segments() + segment].assign(bytes.begin(), bytes.end());
  } else if (close.crc != merged.payload_crc) {
    ++figures_.disagreements;
  }
  if (--worker.missing > 0) return absl::OkStatus();
  ++worker.round;
  return Begin(index);
}

LinkCounts Load::Counts() const {
  LinkCounts sum;
  for (const auto& dealer : dealers_) {
    const LinkCounts& counts = dealer->counts();
    sum.sent += counts.sent;
    sum.received += counts.received;
    sum.payload_sent += counts.sent_by_kind[FrameKind::kPush].payload_bytes;
    sum.payload_received += counts.received_by_kind[FrameKind::kMerged].payload_bytes;
  }
  return sum;
}

absl::Status Load::CheckFrames() const {
  for (const auto& dealer : dealers_) {
    if (dealer->counts().frames_refused > 0) return DataLoss(dealer->last_refusal());
  }
  return absl::OkStatus();
}

absl::Status Load::Silence() const {
  LONGWAVE_RETURN_IF_ERROR(CheckFrames());
  const std::string began =
      absl::StrCat("nothing came for ", absl::FormatDuration(options_.patience));
  for (uint32_t i = 0; greetings_missing_ == 0 && i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (worker.missing == 0) continue;
    const auto segment =
        std::ranges::find(worker.rounds_done, worker.round) - worker.rounds_done.begin();
    return absl::DeadlineExceededError(absl::StrCat(began, ": worker ", options_.workers[i],
                                                    " waits for the merged update of round ",
                                                    worker.round, ", segment ", segment));
  }
  return absl::DeadlineExceededError(absl::StrCat(began, ": a greeting has no answer"));
}

}  // namespace longwave
