#ifndef LONGWAVE_TESTS_CHAOS_JOURNAL_H_
#define LONGWAVE_TESTS_CHAOS_JOURNAL_H_

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "tests/chaos/integer_signal.h"
#include "worker/member/control_plane.h"
#include "worker/sync/exchange.h"

namespace longwave {

// What a worker of the chaos test says of itself, a line each, in a file that outlives it:
//   begin              a life begins
//   post ROUND         it is about to push to a round, with a step behind it
//   round ROUND NS     it has finished one, at this time of the monotonic clock
//   dropped            it came back without its residual
//   unknown ROUND      a shard did not know any more what became of a push
class Journal {
 public:
  explicit Journal(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    LONGWAVE_CHECK(fd_ >= 0);
  }
  ~Journal() { close(fd_); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // One write: a kill leaves whole lines. What the system has taken is not lost with the process.
  void Say(const std::string& line) {
    const std::string text = line + "\n";
    LONGWAVE_CHECK(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

 private:
  const int fd_;
};

// An exchange that says what is posted.
class JournalingExchange final : public Exchange {
 public:
  JournalingExchange(std::unique_ptr<Exchange> exchange, Journal* journal)
      : exchange_(std::move(exchange)), journal_(journal) {}

  absl::Status Post(SegmentPush push) override {
    if (push.round != posted_ && push.weight == kSignalWeight) {
      journal_->Say(absl::StrCat("post ", push.round));
      posted_ = push.round;
    }
    return exchange_->Post(std::move(push));
  }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) override {
    auto settled = exchange_->Next(timeout);
    if (settled.ok() && settled->has_value() && (*settled)->fate == Fate::kUnknown) {
      journal_->Say(absl::StrCat("unknown ", (*settled)->round));
    }
    return settled;
  }
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override {
    return exchange_->Fetch(segment, from_round, until_round);
  }
  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) override {
    return exchange_->NextFetched(timeout);
  }
  uint32_t NewestOpenRound() const override { return exchange_->NewestOpenRound(); }
  std::optional<SnapshotAsk> NextAsk() override { return exchange_->NextAsk(); }
  bool HasSnapshotRoom(uint32_t segment) const override {
    return exchange_->HasSnapshotRoom(segment);
  }
  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) override {
    return exchange_->PostSnapshot(segment, round, std::move(payload));
  }
  absl::Status SetEndpoints(const std::vector<std::string>& endpoints) override {
    return exchange_->SetEndpoints(endpoints);
  }
  ByteCounts counts() const override { return exchange_->counts(); }

 private:
  const std::unique_ptr<Exchange> exchange_;
  Journal* const journal_;
  uint32_t posted_ = kRoundNever;
};

// A host that says which rounds are finished, and knows which step comes next.
class JournalingHost final : public ControlPlane {
 public:
  JournalingHost(ControlPlane* host, Journal* journal) : host_(host), journal_(journal) {}

  uint64_t next_step() const { return next_step_; }

  uint32_t epoch() const override { return host_->epoch(); }
  bool validates() const override { return host_->validates(); }
  bool stop_requested() const override { return host_->stop_requested(); }
  bool has_ended() const override { return host_->has_ended(); }
  void SetState(const WorkerState& state) override {
    next_step_ = state.step;
    host_->SetState(state);
  }
  void Report(RoundReport report) override {
    journal_->Say(absl::StrCat("round ", report.round, " ",
                               absl::ToInt64Nanoseconds(MonotonicNow() - absl::UnixEpoch())));
    host_->Report(std::move(report));
  }
  uint32_t first_round() const override { return host_->first_round(); }
  void SetReadyRound(uint32_t round) override { host_->SetReadyRound(round); }
  std::optional<std::vector<std::string>> TakeNewEndpoints() override {
    return host_->TakeNewEndpoints();
  }
  std::optional<Repair> repair() const override { return host_->repair(); }
  absl::StatusOr<bool> Finish(const FinalReport& report, uint32_t last_round) override {
    return host_->Finish(report, last_round);
  }

 private:
  ControlPlane* const host_;
  Journal* const journal_;
  uint64_t next_step_ = 0;  // of the trainer's thread
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_CHAOS_JOURNAL_H_
