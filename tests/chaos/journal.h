#ifndef LONGWAVE_TESTS_CHAOS_JOURNAL_H_
#define LONGWAVE_TESTS_CHAOS_JOURNAL_H_

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "tests/chaos/integer_signal.h"
#include "worker/sync/exchange.h"

namespace longwave {

// The log of a chaos test's worker, a line for each event, in a file that outlives the
// worker:
//   begin              a process begins
//   post ROUND         a push of a round with a step is about to be posted
//   round ROUND NS     a round is finished, at this time of the monotonic clock
//   dropped            the worker came back without its residual
//   since FIRST END    the worker came back with a checkpoint of before these steps, and with the
//                      journal of what it had pushed of them
//   unknown ROUND      a push's fate is unknown to its shard
class Journal {
 public:
  explicit Journal(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    LONGWAVE_CHECK(fd_ >= 0);
  }
  ~Journal() { close(fd_); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // A single write leaves whole lines after a kill. Bytes in the system's cache survive the
  // process.
  void Say(const std::string& line) {
    const std::string text = line + "\n";
    LONGWAVE_CHECK(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

 private:
  const int fd_;
};

// An exchange that logs posted pushes.
class JournalingExchange final : public Exchange {
 public:
  JournalingExchange(std::unique_ptr<Exchange> exchange, Journal* journal)
      : exchange_(std::move(exchange)), journal_(journal) {}

  // The worker's own thread and its journal's both post.
  absl::Status Post(SegmentPush push) override {
    const std::lock_guard lock(mutex_);
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
  bool HasSettled() const override { return exchange_->HasSettled(); }
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override {
    return exchange_->Fetch(segment, from_round, until_round);
  }
  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) override {
    return exchange_->NextFetched(timeout);
  }
  uint32_t NewestOpenRound() const override { return exchange_->NewestOpenRound(); }
  std::optional<SnapshotRequest> NextRequest() override { return exchange_->NextRequest(); }
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
  std::mutex mutex_;
  uint32_t posted_ = kRoundNever;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_CHAOS_JOURNAL_H_
