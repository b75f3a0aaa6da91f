#include "worker/sync/exchange.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/token_bucket.h"
#include "common/link/link.h"
#include "common/link/waiter.h"

namespace longwave {
namespace {

// What a worker may send at once after a pause, in time at its rate: enough not to notice how
// coarsely a thread wakes, little enough not to fill a router's queue.
constexpr double kBurstSeconds = 0.05;
// How long a connection rests whose queue is full.
constexpr absl::Duration kQueuePause = absl::Milliseconds(50);

uint64_t BytesPerSecond(double mbit) { return static_cast<uint64_t>(std::ceil(mbit * 1e6 / 8)); }

TokenBucket BucketFor(double mbit) {
  const uint64_t rate = BytesPerSecond(mbit);
  return TokenBucket(rate, static_cast<uint64_t>(static_cast<double>(rate) * kBurstSeconds));
}

LedgerOptions LedgerOptionsFor(const ExchangeOptions& options, const Layout& layout) {
  const uint32_t shards = layout.options().shard_count;
  LedgerOptions ledger{.run = options.run,
                       .worker = options.worker,
                       .connections = {},
                       .connection_count = shards * options.connections,
                       .download_bytes_per_s = BytesPerSecond(options.max_download_mbit / shards),
                       .retry_after = options.retry_after};
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    ledger.connections.push_back(layout.segments()[s].shard * options.connections +
                                 s % options.connections);
  }
  return ledger;
}

// The thread owns sockets, ledger and bucket; the mutex guards what it shares with the caller.
class ZmqExchange final : public Exchange {
 public:
  ZmqExchange(const ExchangeOptions& options, const Layout& layout,
              std::vector<std::unique_ptr<Dealer>> dealers, std::unique_ptr<Waiter> waiter)
      : waiter_(std::move(waiter)),
        open_(layout.segments().size()),
        dealers_(std::move(dealers)),
        ledger_(LedgerOptionsFor(options, layout)),
        upload_(BucketFor(options.max_upload_mbit)),
        thread_([this] { Serve(); }) {}

  ~ZmqExchange() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    waiter_->Wake();
    thread_.join();
  }

  absl::Status Post(SegmentPush push) override {
    {
      const std::lock_guard lock(mutex_);
      if (push.segment >= open_.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("got a push to segment ", push.segment, " of ", open_.size()));
      }
      if (open_[push.segment]) {
        return absl::FailedPreconditionError(
            absl::StrCat("got segment ", push.segment, "'s push of round ", push.round,
                         ", wanted that the one before is settled"));
      }
      open_[push.segment] = true;
      posted_.push_back(std::move(push));
    }
    waiter_->Wake();
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                      [this] { return !settled_.empty() || !failure_.ok(); });
    if (settled_.empty()) {
      if (!failure_.ok()) return failure_;
      return std::nullopt;
    }
    Settled next = std::move(settled_.front());
    settled_.pop_front();
    open_[next.segment] = false;
    return next;
  }

  ByteCounts counts() const override {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  void Serve() {
    for (;;) {
      const absl::Status served = ServeOnce();
      const std::lock_guard lock(mutex_);
      counts_ = CountBytes();
      for (Settled& settled : ledger_.TakeSettled()) settled_.push_back(std::move(settled));
      if (failure_.ok()) failure_ = served.ok() ? ledger_.failure() : served;
      if (!settled_.empty() || !failure_.ok()) changed_.notify_all();
      if (closing_ || !failure_.ok()) return;
    }
  }

  // Takes what was posted, sends what is due, sleeps, takes what has come.
  absl::Status ServeOnce() {
    std::vector<SegmentPush> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(posted_);
      if (closing_) return absl::OkStatus();
    }
    for (SegmentPush& push : posted) {
      LONGWAVE_RETURN_IF_ERROR(ledger_.Post(std::move(push), MonotonicNow()));
    }
    LONGWAVE_RETURN_IF_ERROR(SendDue());
    const absl::Time now = MonotonicNow();
    const absl::Duration wait = std::max(ledger_.DueAt() - now, upload_.WaitAt(now));
    if (!ledger_.has_settled()) LONGWAVE_RETURN_IF_ERROR(waiter_->Wait(dealers_, wait));
    for (uint32_t c = 0; c < dealers_.size(); ++c) {
      for (;;) {
        LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Frame> frame,
                                  dealers_[c]->Receive(absl::ZeroDuration()));
        if (!frame.has_value()) break;
        ledger_.Take(c, frame->header, frame->payload, MonotonicNow());
      }
    }
    return absl::OkStatus();
  }

  absl::Status SendDue() {
    for (;;) {
      const absl::Time now = MonotonicNow();
      if (upload_.WaitAt(now) > absl::ZeroDuration()) return absl::OkStatus();
      const std::optional<PushLedger::Outgoing> frame = ledger_.Due(now);
      if (!frame.has_value()) return absl::OkStatus();
      const absl::Status sent = dealers_[frame->connection]->Send(frame->header, frame->payload);
      if (absl::IsUnavailable(sent)) {
        ledger_.Held(*frame, now + kQueuePause);
        continue;
      }
      LONGWAVE_RETURN_IF_ERROR(sent);
      upload_.Take(FrameWireBytes(frame->payload.size()), now);
      ledger_.Sent(*frame, now);
    }
  }

  ByteCounts CountBytes() const {
    ByteCounts sum;
    for (const auto& dealer : dealers_) {
      const LinkCounts counts = dealer->counts();
      sum.pushed += counts.sent;
      sum.pulled += counts.received;
      sum.payload_pushed += counts.payload_sent;
      sum.payload_pulled += counts.payload_received;
    }
    return sum;
  }

  const std::unique_ptr<Waiter> waiter_;  // its Wake is anybody's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::vector<SegmentPush> posted_;
  std::deque<Settled> settled_;
  std::vector<bool> open_;  // by segment: posted, and not returned by Next yet
  absl::Status failure_;
  ByteCounts counts_;

  // The thread's own.
  const std::vector<std::unique_ptr<Dealer>> dealers_;  // shard by shard
  PushLedger ledger_;
  TokenBucket upload_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exchange>> Exchange::Connect(const ExchangeOptions& options,
                                                            const Layout& layout) {
  if (options.shard_endpoints.size() != layout.options().shard_count) {
    return absl::InvalidArgumentError(absl::StrCat("exchange: got ", options.shard_endpoints.size(),
                                                   " shard endpoints, wanted ",
                                                   layout.options().shard_count));
  }
  if (options.connections == 0) {
    return absl::InvalidArgumentError("exchange: got 0 connections to a shard, wanted at least 1");
  }
  std::vector<std::unique_ptr<Dealer>> dealers;
  for (const std::string& endpoint : options.shard_endpoints) {
    for (uint32_t c = 0; c < options.connections; ++c) {
      LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Dealer> dealer, Dealer::Connect(endpoint));
      dealers.push_back(std::move(dealer));
    }
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Waiter> waiter, Waiter::Create());
  return std::make_unique<ZmqExchange>(options, layout, std::move(dealers), std::move(waiter));
}

}  // namespace longwave
