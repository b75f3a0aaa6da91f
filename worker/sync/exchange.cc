#include "worker/sync/exchange.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/token_bucket.h"
#include "common/link/link.h"
#include "common/link/waiter.h"
#include "common/log/log.h"
#include "worker/sync/exchange_parts.h"

namespace longwave {
namespace {

// Fetched events that wait for the caller. The ledger keeps some more before it stops fetching.
constexpr size_t kFetchedMax = 16;
// The pause of a connection with a full queue.
constexpr absl::Duration kQueuePause = absl::Milliseconds(50);

std::string Seconds(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

uint32_t SegmentOf(const FetchEvent& event) {
  return std::visit([](const auto& each) { return each.segment; }, event);
}

// Work that the caller hands to the thread.
using Command = std::function<absl::Status(absl::Time now)>;

// The thread owns sockets, ledger and bucket; the mutex guards the state shared with the caller.
class ZmqExchange final : public Exchange {
 public:
  ZmqExchange(const ExchangeOptions& options, const Layout& layout, Dealers dealers,
              std::unique_ptr<Waiter> waiter)
      : waiter_(std::move(waiter)),
        connections_(options.connections),
        endpoints_(options.shard_endpoints),
        keys_(options.keys),
        posts_(layout.segments().size()),
        waiting_snapshots_(dealers.size()),
        dealers_(std::move(dealers)),
        lost_at_(dealers_.size()),
        ledger_(LedgerOptionsFor(options, layout)),
        posts_done_(layout.segments().size()),
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
    const std::lock_guard lock(mutex_);
    LONGWAVE_RETURN_IF_ERROR(CheckSegment("push", push.segment));
    ++posts_[push.segment];
    Tell([this, push = std::move(push)](absl::Time now) mutable {
      ++posts_done_[push.segment];
      return ledger_.Post(std::move(push), now);
    });
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
    return next;
  }

  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override {
    const std::lock_guard lock(mutex_);
    LONGWAVE_RETURN_IF_ERROR(CheckSegment("fetch", segment));
    ++posts_[segment];
    Tell([=, this](absl::Time now) {
      ++posts_done_[segment];
      return ledger_.Fetch(segment, from_round, until_round, now);
    });
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) override {
    std::unique_lock lock(mutex_);
    bool was_full = false;
    const auto is_something_there = [&] {
      was_full = was_full || fetched_.size() >= kFetchedMax;
      // A later push or fetch makes earlier fetched events useless.
      while (!fetched_.empty() &&
             fetched_.front().posts != posts_[SegmentOf(fetched_.front().event)]) {
        fetched_.pop_front();
      }
      return !fetched_.empty() || !failure_.ok();
    };
    changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), is_something_there);
    if (fetched_.empty()) {
      if (!failure_.ok()) return failure_;
      lock.unlock();
      if (was_full) waiter_->Wake();
      return std::nullopt;
    }
    FetchEvent event = std::move(fetched_.front().event);
    fetched_.pop_front();
    lock.unlock();
    if (was_full) waiter_->Wake();
    return event;
  }

  uint32_t NewestOpenRound() const override {
    const std::lock_guard lock(mutex_);
    return newest_open_round_;
  }

  std::optional<SnapshotRequest> NextRequest() override {
    const std::lock_guard lock(mutex_);
    if (requests_.empty()) return std::nullopt;
    const SnapshotRequest request = requests_.front();
    requests_.pop_front();
    return request;
  }

  bool HasSnapshotRoom(uint32_t segment) const override {
    const std::lock_guard lock(mutex_);
    if (segment >= posts_.size()) return false;
    return waiting_snapshots_[ledger_.connection(segment)].value_or(segment) == segment;
  }

  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) override {
    if (payload.size() > kPayloadBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("got a snapshot of segment ", segment, " of ",
                                                     payload.size(), " bytes, wanted at most ",
                                                     kPayloadBytesMax));
    }
    const std::lock_guard lock(mutex_);
    LONGWAVE_RETURN_IF_ERROR(CheckSegment("snapshot", segment));
    std::optional<uint32_t>& waits = waiting_snapshots_[ledger_.connection(segment)];
    if (waits.value_or(segment) != segment) {
      return absl::FailedPreconditionError(absl::StrCat("got a snapshot of segment ", segment,
                                                        ", wanted that the one of segment ", *waits,
                                                        " on its connection is sent before"));
    }
    waits = segment;
    Tell([this, segment, round, payload = std::move(payload)](absl::Time now) mutable {
      return ledger_.PostSnapshot(segment, round, std::move(payload), now);
    });
    return absl::OkStatus();
  }

  absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints) override {
    const std::lock_guard lock(mutex_);
    LONGWAVE_RETURN_IF_ERROR(CheckShardCount(shard_endpoints.size(), endpoints_.size()));
    auto moved = std::make_shared<std::map<uint32_t, Dealers>>();  // by first connection
    for (uint32_t shard = 0; shard < endpoints_.size(); ++shard) {
      if (shard_endpoints[shard] == endpoints_[shard]) continue;
      LONGWAVE_RETURN_IF_ERROR(ConnectShard(shard_endpoints[shard], connections_, keys_,
                                            &(*moved)[shard * connections_]));
    }
    endpoints_ = shard_endpoints;
    Tell([this, moved](absl::Time now) {
      for (auto& [first, dealers] : *moved) {
        for (uint32_t c = 0; c < dealers.size(); ++c) {
          Replace(first + c, std::move(dealers[c]));
          ledger_.Reconnected(first + c, now);
        }
      }
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }

  ByteCounts counts() const override {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  uint64_t renewals() const override {
    const std::lock_guard lock(mutex_);
    return renewals_;
  }

 private:
  absl::Status CheckSegment(absl::string_view what, uint32_t segment) const {
    if (segment < posts_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("got a ", what, " of segment ", segment, " of ", posts_.size()));
  }

  // Queues work for the thread, in order. The caller holds the mutex.
  void Tell(Command command) {
    commands_.push_back(std::move(command));
    waiter_->Wake();
  }

  void Serve() {
    for (;;) {
      const absl::Status served = ServeOnce();
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = served.ok() ? ledger_.failure() : served;
      if (Publish() || !failure_.ok()) changed_.notify_all();
      if (closing_ || !failure_.ok()) return;
    }
  }

  // Publishes state to the caller. True: an event waits for the caller.
  bool Publish() {
    counts_ = retired_;
    for (const auto& dealer : dealers_) Add(dealer->counts(), &counts_);
    newest_open_round_ = ledger_.newest_open_round();
    // A command under way may post a snapshot; the next call sees the result.
    for (uint32_t c = 0; c < dealers_.size() && commands_.empty(); ++c) {
      waiting_snapshots_[c] = ledger_.waiting_snapshot(c);
    }
    for (Settled& settled : ledger_.TakeSettled()) settled_.push_back(std::move(settled));
    while (ledger_.has_fetched() && fetched_.size() < kFetchedMax) {
      FetchEvent event = *ledger_.TakeFetched();
      fetched_.push_back({.posts = posts_done_[SegmentOf(event)], .event = std::move(event)});
    }
    while (const std::optional<SnapshotRequest> request = ledger_.TakeRequest()) {
      AddRequest(*request, requests_);
    }
    return !settled_.empty() || !fetched_.empty();
  }

  // Carries out commands, sends frames that are due, sleeps and takes incoming frames.
  absl::Status ServeOnce() {
    std::vector<Command> commands;
    bool fetched_full = false;
    {
      const std::lock_guard lock(mutex_);
      commands.swap(commands_);
      fetched_full = fetched_.size() >= kFetchedMax;
      if (closing_) return absl::OkStatus();
    }
    for (Command& command : commands) LONGWAVE_RETURN_IF_ERROR(command(MonotonicNow()));
    LONGWAVE_RETURN_IF_ERROR(RenewLost());
    LONGWAVE_RETURN_IF_ERROR(SendDue());
    const absl::Time now = MonotonicNow();
    const absl::Duration wait = std::max(ledger_.DueAt() - now, upload_.WaitAt(now));
    // Publishing comes before any sleep.
    const bool to_publish = ledger_.has_settled() || (ledger_.has_fetched() && !fetched_full);
    if (!to_publish) LONGWAVE_RETURN_IF_ERROR(waiter_->Wait(dealers_, wait));
    for (uint32_t c = 0; c < dealers_.size(); ++c) {
      for (;;) {
        LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Frame> frame,
                                  dealers_[c]->Receive(absl::ZeroDuration()));
        if (!frame.has_value()) break;
        NoteFound(c);
        ledger_.Take(c, frame->header, frame->payload, MonotonicNow());
      }
    }
    return absl::OkStatus();
  }

  void Replace(uint32_t connection, std::unique_ptr<Dealer> by) {
    Add(dealers_[connection]->counts(), &retired_);
    dealers_[connection] = std::move(by);
  }

  // Replaces the connections that the ledger counts as lost.
  absl::Status RenewLost() {
    const absl::Time now = MonotonicNow();
    while (const std::optional<Connections::Lost> lost = ledger_.TakeLost(now)) {
      const uint32_t shard = lost->connection / connections_;
      Dealers fresh;
      {
        const std::lock_guard lock(mutex_);
        LONGWAVE_RETURN_IF_ERROR(ConnectShard(endpoints_[shard], 1, keys_, &fresh));
        ++renewals_;
      }
      Replace(lost->connection, std::move(fresh.front()));
      if (!lost->is_first) continue;
      lost_at_[lost->connection] = now - lost->unanswered;
      Log(LogLevel::kWarning,
          absl::StrCat("shard ", shard, " has not answered for ", Seconds(lost->unanswered),
                       ": its connection is made anew, until it answers"));
    }
    return absl::OkStatus();
  }

  void NoteFound(uint32_t connection) {
    const std::optional<absl::Time> lost_at = std::exchange(lost_at_[connection], std::nullopt);
    if (!lost_at.has_value()) return;
    Log(LogLevel::kInfo, absl::StrCat("shard ", connection / connections_, " answers again, after ",
                                      Seconds(MonotonicNow() - *lost_at)));
  }

  absl::Status SendDue() {
    for (;;) {
      const absl::Time now = MonotonicNow();
      if (upload_.WaitAt(now) > absl::ZeroDuration()) return absl::OkStatus();
      const std::optional<OutgoingFrame> frame = ledger_.Due(now);
      if (!frame.has_value()) return absl::OkStatus();
      Dealer& dealer = *dealers_[frame->connection];
      const absl::Status sent = dealer.Send(frame->header, frame->payload);
      if (absl::IsUnavailable(sent)) {
        ledger_.Held(*frame, now + kQueuePause);
        continue;
      }
      LONGWAVE_RETURN_IF_ERROR(sent);
      upload_.Take(FrameWireBytes(frame->payload.size(), dealer.encryption()), now);
      ledger_.Sent(*frame, now);
    }
  }

  const std::unique_ptr<Waiter> waiter_;  // any thread may call Wake
  const uint32_t connections_;            // to each shard

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::vector<std::string> endpoints_;
  const CurveKeys keys_;
  std::vector<Command> commands_;
  std::deque<Settled> settled_;
  struct Numbered {
    uint64_t posts = 0;  // of the segment, at the event's fetch
    FetchEvent event;
  };
  std::deque<Numbered> fetched_;
  std::deque<SnapshotRequest> requests_;  // at most one a segment
  std::vector<uint64_t> posts_;           // by segment; fetches too, which end the fetch before
  std::vector<std::optional<uint32_t>> waiting_snapshots_;  // by connection: the segment
  absl::Status failure_;
  uint32_t newest_open_round_ = 0;
  ByteCounts counts_;
  uint64_t renewals_ = 0;

  // State of the thread alone.
  Dealers dealers_;                                 // shard by shard
  ByteCounts retired_;                              // of replaced connections
  std::vector<std::optional<absl::Time>> lost_at_;  // by connection, until it has an answer
  WorkerLedger ledger_;
  std::vector<uint64_t> posts_done_;  // posts_ as far as the ledger has them
  TokenBucket upload_;
  std::thread thread_;  // last: uses all of the above
};

absl::Status Unimplemented(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("exchange: this one has no ", what));
}

}  // namespace

absl::Status Exchange::Fetch(uint32_t, uint32_t, uint32_t) { return Unimplemented("catching up"); }
absl::StatusOr<std::optional<FetchEvent>> Exchange::NextFetched(absl::Duration) {
  return Unimplemented("catching up");
}
absl::Status Exchange::PostSnapshot(uint32_t, uint32_t, Buffer) {
  return Unimplemented("snapshots");
}
absl::Status Exchange::SetEndpoints(const std::vector<std::string>&) {
  return Unimplemented("endpoints");
}

absl::StatusOr<std::unique_ptr<Exchange>> Exchange::Connect(const ExchangeOptions& options,
                                                            const Layout& layout) {
  LONGWAVE_RETURN_IF_ERROR(
      CheckShardCount(options.shard_endpoints.size(), layout.options().shard_count));
  if (options.connections == 0) {
    return absl::InvalidArgumentError("exchange: got 0 connections to a shard, wanted at least 1");
  }
  Dealers dealers;
  for (const std::string& endpoint : options.shard_endpoints) {
    LONGWAVE_RETURN_IF_ERROR(ConnectShard(endpoint, options.connections, options.keys, &dealers));
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Waiter> waiter, Waiter::Create());
  return std::make_unique<ZmqExchange>(options, layout, std::move(dealers), std::move(waiter));
}

}  // namespace longwave
