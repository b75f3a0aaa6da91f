#include "worker/sync/exchange.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/token_bucket.h"
#include "common/link/link.h"
#include "common/link/waiter.h"
#include "common/log/log.h"
#include "common/wire/payload.h"
#include "worker/sync/ledger_options.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

// The pause of a connection with a full queue.
constexpr absl::Duration kQueuePause = absl::Milliseconds(50);
// Frames of one connection that are received at a time.
constexpr int kReceivedMax = 64;

using Dealers = std::vector<std::unique_ptr<Dealer>>;

// The burst after a pause, as time at the worker's rate: long enough to hide a thread's coarse
// wake-ups. A frame leaves whole once the bucket owes nothing, so a router's queue gets the burst
// and one frame at link speed. One frame is small for compressed payloads but megabytes for dense
// ones (a segment of 4 MB in fp32). The rate is an average over frames.
constexpr double kBurstSeconds = 0.05;

uint64_t BytesPerSecond(double mbit) { return static_cast<uint64_t>(std::ceil(mbit * 1e6 / 8)); }

// Paces the upload; 0: no limit.
TokenBucket BucketFor(double mbit) {
  const uint64_t rate = BytesPerSecond(mbit);
  return TokenBucket(rate, static_cast<uint64_t>(static_cast<double>(rate) * kBurstSeconds));
}

// InvalidArgument: the number of endpoints is not the number of shards.
absl::Status CheckShardCount(size_t endpoints, size_t shards) {
  if (endpoints == shards) return absl::OkStatus();
  return InvalidArgument("exchange: got ", endpoints, " shard endpoints, wanted ", shards);
}

// Appends one shard's connections.
absl::Status ConnectShard(const std::string& endpoint, uint32_t connections, const CurveKeys& keys,
                          Dealers* dealers) {
  for (uint32_t c = 0; c < connections; ++c) {
    // Frames for an absent shard stay in the ledger, which paces them when they leave.
    LONGWAVE_ASSIGN_OR_RETURN(
        std::unique_ptr<Dealer> dealer,
        Dealer::Connect(endpoint, {.only_while_connected = true, .keys = keys}));
    dealers->push_back(std::move(dealer));
  }
  return absl::OkStatus();
}

// Adds a connection's counts to a sum over several connections.
void Add(const LinkCounts& counts, ByteCounts* sum) {
  sum->pushed += counts.sent;
  sum->pulled += counts.received;
  sum->payload_pushed += counts.payload_sent;
  sum->payload_pulled += counts.payload_received;
}

std::string Seconds(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

// The thread owns the sockets and the bucket. The mutex guards the ledger, which has the state of
// all segments: the caller and the thread act on it in turn.
class ZmqExchange final : public Exchange {
 public:
  ZmqExchange(const ExchangeOptions& options, const Layout& layout, Dealers dealers, WakeEvent wake)
      : waiter_(std::move(wake)),
        connections_(options.connections),
        keys_(options.keys),
        layout_(layout),
        endpoints_(options.shard_endpoints),
        ledger_(LedgerOptionsFor(options, layout)),
        dealers_(std::move(dealers)),
        lost_at_(dealers_.size()),
        forms_(layout.segments().size()),
        upload_(BucketFor(options.max_upload_mbit)),
        thread_([this] { Serve(); }) {}

  ~ZmqExchange() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    waiter_.Wake();
    thread_.join();
  }

  absl::Status Post(SegmentPush push) override {
    const std::lock_guard lock(mutex_);
    waiter_.Wake();
    return ledger_.Post(std::move(push), MonotonicNow());
  }

  absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                      [this] { return !settled_.empty() || !failure_.ok(); });
    std::optional<Settled> next = TakeFirst(settled_);
    if (!next.has_value() && !failure_.ok()) return failure_;
    return next;
  }

  bool HasSettled() const override {
    const std::lock_guard lock(mutex_);
    return !settled_.empty();
  }

  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override {
    const std::lock_guard lock(mutex_);
    waiter_.Wake();
    return ledger_.Fetch(segment, from_round, until_round, MonotonicNow());
  }

  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                      [this] { return ledger_.has_fetched() || !failure_.ok(); });
    std::optional<FetchEvent> event = ledger_.TakeFetched();
    if (!event.has_value() && !failure_.ok()) return failure_;
    // The ledger makes no requests while too many events wait.
    if (ledger_.DueAt() <= MonotonicNow()) waiter_.Wake();
    return event;
  }

  uint32_t NewestOpenRound() const override {
    const std::lock_guard lock(mutex_);
    return ledger_.newest_open_round();
  }

  std::optional<SnapshotRequest> NextRequest() override {
    const std::lock_guard lock(mutex_);
    return ledger_.TakeRequest();
  }

  bool HasSnapshotRoom(uint32_t segment) const override {
    const std::lock_guard lock(mutex_);
    return ledger_.HasSnapshotRoom(segment);
  }

  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) override {
    if (payload.size() > kPayloadBytesMax) {
      return InvalidArgument("got a snapshot of segment ", segment, " of ", payload.size(),
                             " bytes, wanted at most ", kPayloadBytesMax);
    }
    const std::lock_guard lock(mutex_);
    waiter_.Wake();
    return ledger_.PostSnapshot(segment, round, std::move(payload), MonotonicNow());
  }

  absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints) override {
    const std::lock_guard lock(mutex_);
    LONGWAVE_RETURN_IF_ERROR(CheckShardCount(shard_endpoints.size(), endpoints_.size()));
    std::map<uint32_t, Dealers> moved;
    for (uint32_t shard = 0; shard < endpoints_.size(); ++shard) {
      if (shard_endpoints[shard] == endpoints_[shard]) continue;
      LONGWAVE_RETURN_IF_ERROR(
          ConnectShard(shard_endpoints[shard], connections_, keys_, &moved[shard]));
    }
    endpoints_ = shard_endpoints;
    for (auto& [shard, dealers] : moved) moved_[shard] = std::move(dealers);
    waiter_.Wake();
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
  struct Received {
    uint32_t connection = 0;
    Frame frame;
  };

  void Serve() {
    for (;;) {
      const absl::Status served = ServeOnce();
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = served.ok() ? ledger_.failure() : served;
      if (closing_ || !failure_.ok()) return changed_.notify_all();
    }
  }

  // Sends frames that are due, sleeps and takes incoming frames.
  absl::Status ServeOnce() {
    absl::Duration wait;
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return absl::OkStatus();
      ReplaceMoved();
      LONGWAVE_RETURN_IF_ERROR(RenewLost());
    }
    LONGWAVE_RETURN_IF_ERROR(SendDue());
    {
      const std::lock_guard lock(mutex_);
      CountBytes();
      const absl::Time now = MonotonicNow();
      wait = std::max(ledger_.DueAt() - now, upload_.WaitAt(now));
    }
    LONGWAVE_RETURN_IF_ERROR(waiter_.Wait(dealers_, wait));
    LONGWAVE_ASSIGN_OR_RETURN(std::vector<Received> received, Receive());
    std::unique_lock lock(mutex_);
    CountBytes();
    for (const Received& each : received) {
      NoteFound(each.connection);
      ledger_.OnFrame(each.connection, each.frame.header, each.frame.payload, MonotonicNow());
    }
    if (ledger_.has_fetched()) changed_.notify_all();
    HandOn(lock);
    return absl::OkStatus();
  }

  // Hands on what has settled, by a frame or by a post, with its update validated.
  void HandOn(std::unique_lock<std::mutex>& lock) {
    while (std::optional<Settled> next = ledger_.TakeSettled()) {
      lock.unlock();
      std::optional<PayloadLayout>& form = forms_[next->segment];
      const std::span<const std::byte> update = next->merged.bytes();
      next->is_valid = !next->compacted && TakeForm(layout_, next->segment, update, form).ok() &&
                       ValidatePayload(*form, update).ok();
      lock.lock();
      settled_.push_back(*std::move(next));
      changed_.notify_all();
    }
  }

  // The caller may post between two frames.
  absl::Status SendDue() {
    for (;;) {
      const std::lock_guard lock(mutex_);
      const absl::Time now = MonotonicNow();
      if (upload_.WaitAt(now) > absl::ZeroDuration()) return absl::OkStatus();
      const std::optional<OutgoingFrame> frame = ledger_.NextFrame(now);
      if (!frame.has_value()) return absl::OkStatus();
      Dealer& dealer = *dealers_[frame->connection];
      const absl::Status sent = dealer.Send(frame->header, frame->payload);
      if (absl::IsUnavailable(sent)) {
        ledger_.Held(*frame, now + kQueuePause);
        continue;
      }
      LONGWAVE_RETURN_IF_ERROR(sent);
      upload_.Charge(FrameWireBytes(frame->payload.size(), dealer.encryption()), now);
      ledger_.Sent(*frame, now);
    }
  }

  // Without the mutex: checks of large payloads take time.
  absl::StatusOr<std::vector<Received>> Receive() {
    std::vector<Received> received;
    for (uint32_t c = 0; c < dealers_.size(); ++c) {
      for (int i = 0; i < kReceivedMax; ++i) {
        LONGWAVE_ASSIGN_OR_RETURN(std::optional<Frame> frame,
                                  dealers_[c]->Receive(absl::ZeroDuration()));
        if (!frame.has_value()) break;
        received.push_back({c, *std::move(frame)});
      }
    }
    return received;
  }

  // The caller of the following methods holds the mutex.

  void CountBytes() {
    counts_ = retired_;
    for (const auto& dealer : dealers_) Add(dealer->counts(), &counts_);
  }

  void Replace(uint32_t connection, std::unique_ptr<Dealer> by) {
    Add(dealers_[connection]->counts(), &retired_);
    dealers_[connection] = std::move(by);
  }

  void ReplaceMoved() {
    for (auto& [shard, dealers] : std::exchange(moved_, {})) {
      for (uint32_t c = 0; c < dealers.size(); ++c) {
        Replace(shard * connections_ + c, std::move(dealers[c]));
        ledger_.Reconnected(shard * connections_ + c, MonotonicNow());
      }
    }
  }

  // Replaces the connections that the ledger counts as lost.
  absl::Status RenewLost() {
    const absl::Time now = MonotonicNow();
    while (const std::optional<Connections::Lost> lost = ledger_.TakeLost(now)) {
      const uint32_t shard = lost->connection / connections_;
      Dealers fresh;
      LONGWAVE_RETURN_IF_ERROR(ConnectShard(endpoints_[shard], 1, keys_, &fresh));
      ++renewals_;
      Replace(lost->connection, std::move(fresh.front()));
      if (!lost->is_first) continue;
      lost_at_[lost->connection] = now - lost->unanswered;
      Log(LogLevel::kWarning, "shard ", shard, " has not answered for ", Seconds(lost->unanswered),
          ": this worker makes its connection anew until it answers");
    }
    return absl::OkStatus();
  }

  void NoteFound(uint32_t connection) {
    const std::optional<absl::Time> lost_at = std::exchange(lost_at_[connection], std::nullopt);
    if (!lost_at.has_value()) return;
    Log(LogLevel::kInfo, "shard ", connection / connections_, " answers again, after ",
        Seconds(MonotonicNow() - *lost_at));
  }

  Waiter waiter_;               // any thread may call Wake
  const uint32_t connections_;  // to each shard
  const CurveKeys keys_;
  const Layout& layout_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::vector<std::string> endpoints_;
  std::map<uint32_t, Dealers> moved_;  // by shard: connections to its new endpoint
  WorkerLedger ledger_;
  std::deque<Settled> settled_;  // validated
  absl::Status failure_;
  ByteCounts counts_;
  uint64_t renewals_ = 0;

  // State of the thread alone.
  Dealers dealers_;                                  // shard by shard
  ByteCounts retired_;                               // of replaced connections
  std::vector<std::optional<absl::Time>> lost_at_;   // by connection, until it has an answer
  std::vector<std::optional<PayloadLayout>> forms_;  // by segment: of its last update
  TokenBucket upload_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace

LedgerOptions LedgerOptionsFor(const ExchangeOptions& options, const Layout& layout) {
  const uint32_t shards = layout.options().shard_count;
  LedgerOptions ledger{.run = options.run,
                       .worker = options.worker,
                       .node = options.node,
                       .owned = SegmentsOfRank(layout, options.node.rank, options.node.ranks),
                       .connections = {},
                       .connection_count = shards * options.connections,
                       // Seconds as numbers increase: connections are replaced seconds apart at the
                       // earliest.
                       .connection_number = static_cast<uint32_t>(absl::ToUnixSeconds(absl::Now())),
                       .workers = options.workers,
                       .download_bytes_per_s = BytesPerSecond(options.max_download_mbit / shards),
                       .hello_every = options.hello_every,
                       .snapshot_bytes = {}};
  // Each fragment alone should use all connections.
  const uint32_t fragments = FragmentCount(options.fragments, layout);
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    const Segment& segment = layout.segments()[s];
    ledger.connections.push_back(segment.shard * options.connections +
                                 s / fragments % options.connections);
    ledger.snapshot_bytes.push_back(segment.coefficient_count * sizeof(float));
  }
  return ledger;
}

absl::StatusOr<std::unique_ptr<Exchange>> Exchange::Connect(const ExchangeOptions& options,
                                                            const Layout& layout) {
  LONGWAVE_RETURN_IF_ERROR(
      CheckShardCount(options.shard_endpoints.size(), layout.options().shard_count));
  if (options.connections == 0) {
    return InvalidArgument("exchange: got 0 connections to a shard, wanted at least 1");
  }
  Dealers dealers;
  for (const std::string& endpoint : options.shard_endpoints) {
    LONGWAVE_RETURN_IF_ERROR(ConnectShard(endpoint, options.connections, options.keys, &dealers));
  }
  LONGWAVE_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  return std::make_unique<ZmqExchange>(options, layout, std::move(dealers), std::move(wake));
}

}  // namespace longwave
