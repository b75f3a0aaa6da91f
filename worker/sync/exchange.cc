#include "worker/sync/exchange.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/link/link.h"

namespace longwave {
namespace {

// How long one wait for frames lasts before `stopped` is asked again.
constexpr absl::Duration kPatience = absl::Milliseconds(50);

class DealerExchange final : public Exchange {
 public:
  DealerExchange(ExchangeOptions options, SyncPipeline* pipeline, const Layout* layout,
                 std::vector<std::unique_ptr<Dealer>> shards)
      : options_(std::move(options)),
        pipeline_(pipeline),
        layout_(layout),
        shards_(std::move(shards)),
        pending_(layout->segments().size()) {}

  absl::Status Sync(uint32_t epoch, uint32_t round, double learning_rate, uint64_t weight,
                    const std::function<bool()>& stopped) override {
    round_ = {.run = options_.run,
              .epoch = epoch,
              .round = round,
              .worker = options_.worker,
              .weight = weight};
    LONGWAVE_RETURN_IF_ERROR(pipeline_->BeginRound(round, learning_rate));
    waiting_ = pending_.size();
    for (Pending& pending : pending_) pending = {};
    // What has been merged already is taken in between two encodings, so that a shard that is ahead
    // never waits for this worker to read.
    for (uint32_t segment = 0; segment < pending_.size(); ++segment) {
      LONGWAVE_RETURN_IF_ERROR(Encode(segment));
      LONGWAVE_RETURN_IF_ERROR(DrainAll());
    }
    size_t next = 0;
    while (waiting_ > 0) {
      if (stopped()) {
        return absl::CancelledError(absl::StrCat("stopped in the sync of round ", round));
      }
      // Waits at a shard that owes something; the others are looked at without waiting.
      next = NextOwing(next);
      LONGWAVE_RETURN_IF_ERROR(Drain(*shards_[next], kPatience));
      LONGWAVE_RETURN_IF_ERROR(DrainAll());
      LONGWAVE_RETURN_IF_ERROR(SendAgain());
      next = (next + 1) % shards_.size();
    }
    return pipeline_->EndRound();
  }

  ByteCounts counts() const override {
    ByteCounts sum;
    for (const auto& shard : shards_) {
      const LinkCounts counts = shard->counts();
      sum.pushed += counts.sent;
      sum.pulled += counts.received;
      sum.payload_pushed += counts.payload_sent;
      sum.payload_pulled += counts.payload_received;
    }
    return sum;
  }

 private:
  // What has become of a segment in the round under way.
  enum class Stage {
    kUnencoded,
    kUnsent,    // encoded, but the queue to its shard is full
    kPushed,    // not answered yet
    kAnswered,  // the shard has it, or has closed the round without it
    kApplied,
  };
  struct Pending {
    Stage stage = Stage::kUnencoded;
    Buffer payload;
    float norm = 0;
    absl::Time sent_at;
    // A merged update that came before this worker's own signal was taken: a quorum was ahead.
    std::optional<Buffer> early;
  };

  Dealer& ShardOf(uint32_t segment) { return *shards_[layout_->segments()[segment].shard]; }

  absl::Status Encode(uint32_t segment) {
    Pending& pending = pending_[segment];
    LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push push, pipeline_->Encode(segment));
    pending.payload = std::move(push.payload);
    pending.norm = push.norm;
    pending.stage = Stage::kUnsent;
    LONGWAVE_RETURN_IF_ERROR(SendPush(segment));
    return pending.early.has_value() ? Apply(segment, *pending.early) : absl::OkStatus();
  }

  absl::Status SendPush(uint32_t segment) {
    Pending& pending = pending_[segment];
    FrameHeader header = round_;
    header.kind = FrameKind::kPush;
    header.segment = segment;
    header.norm = pending.norm;
    const absl::Status sent = ShardOf(segment).Send(header, pending.payload);
    if (absl::IsUnavailable(sent)) return absl::OkStatus();  // the queue is full: later
    LONGWAVE_RETURN_IF_ERROR(sent);
    if (pending.stage == Stage::kUnsent) pending.stage = Stage::kPushed;
    pending.sent_at = MonotonicNow();
    return absl::OkStatus();
  }

  absl::Status SendPull(uint32_t segment) {
    FrameHeader header = round_;
    header.kind = FrameKind::kPull;
    header.weight = 0;
    header.segment = segment;
    const absl::Status sent = ShardOf(segment).Send(header, Buffer());
    if (absl::IsUnavailable(sent)) return absl::OkStatus();
    LONGWAVE_RETURN_IF_ERROR(sent);
    pending_[segment].sent_at = MonotonicNow();
    return absl::OkStatus();
  }

  // Frames can be lost with a connection: after a silence a push that was not answered is pushed
  // again (a duplicate changes nothing), and the update of one that was is asked for.
  absl::Status SendAgain() {
    const absl::Time now = MonotonicNow();
    for (uint32_t segment = 0; segment < pending_.size(); ++segment) {
      const Pending& pending = pending_[segment];
      const bool silent = now - pending.sent_at >= options_.retry_after;
      if (pending.stage == Stage::kUnsent || (pending.stage == Stage::kPushed && silent)) {
        LONGWAVE_RETURN_IF_ERROR(SendPush(segment));
      } else if (pending.stage == Stage::kAnswered && silent) {
        LONGWAVE_RETURN_IF_ERROR(SendPull(segment));
      }
    }
    return absl::OkStatus();
  }

  size_t NextOwing(size_t from) const {
    for (size_t i = 0; i < shards_.size(); ++i) {
      const size_t shard = (from + i) % shards_.size();
      for (size_t segment = 0; segment < pending_.size(); ++segment) {
        if (pending_[segment].stage != Stage::kApplied &&
            layout_->segments()[segment].shard == shard) {
          return shard;
        }
      }
    }
    return from;
  }

  // Takes in every frame that is there; the first is waited for.
  absl::Status Drain(Dealer& shard, absl::Duration wait) {
    while (true) {
      LONGWAVE_ASSIGN_OR_RETURN(std::optional<Frame> frame, shard.Receive(wait));
      if (!frame.has_value()) return absl::OkStatus();
      LONGWAVE_RETURN_IF_ERROR(Take(*frame));
      wait = absl::ZeroDuration();
    }
  }

  absl::Status DrainAll() {
    for (const auto& shard : shards_) {
      LONGWAVE_RETURN_IF_ERROR(Drain(*shard, absl::ZeroDuration()));
    }
    return absl::OkStatus();
  }

  absl::Status Take(const Frame& frame) {
    const FrameHeader& header = frame.header;
    // Answers to repeated frames of earlier rounds come late and mean nothing any more.
    if (header.run != options_.run || header.round != round_.round ||
        header.segment >= pending_.size()) {
      return absl::OkStatus();
    }
    Pending& pending = pending_[header.segment];
    if (header.kind == FrameKind::kAnswer) return TakeAnswer(frame, pending);
    if (header.kind != FrameKind::kMerged || pending.stage == Stage::kApplied) {
      return absl::OkStatus();
    }
    if (pending.stage == Stage::kUnencoded) {
      // Applying it now would move the anchor that the signal is taken from.
      pending.early = frame.payload;
      return absl::OkStatus();
    }
    return Apply(header.segment, frame.payload);
  }

  absl::Status Apply(uint32_t segment, const Buffer& merged) {
    LONGWAVE_RETURN_IF_ERROR(pipeline_->Apply(segment, merged));
    pending_[segment].stage = Stage::kApplied;
    --waiting_;
    return absl::OkStatus();
  }

  absl::Status TakeAnswer(const Frame& frame, Pending& pending) {
    const uint32_t segment = frame.header.segment;
    switch (frame.header.outcome) {
      case Outcome::kNone:
        return absl::OkStatus();
      case Outcome::kAccepted:
      case Outcome::kDuplicate:
        if (pending.stage == Stage::kPushed) pending.stage = Stage::kAnswered;
        return absl::OkStatus();
      case Outcome::kBusy:
        // The payload is kept, and goes again after the silence that follows.
        return absl::OkStatus();
      case Outcome::kLate: {
        // The round was closed without this push: it goes with a later one.
        LONGWAVE_RETURN_IF_ERROR(pipeline_->Restore(segment));
        if (pending.stage != Stage::kPushed) return absl::OkStatus();
        // Its update was sent before this answer; that it is not here means that it was lost.
        pending.stage = Stage::kAnswered;
        return SendPull(segment);
      }
      case Outcome::kRejected: {
        LONGWAVE_RETURN_IF_ERROR(pipeline_->Restore(segment));
        const std::span<const std::byte> reason = frame.payload.bytes();
        return absl::FailedPreconditionError(absl::StrCat(
            "the shard of segment ", segment, " rejected a frame of round ", frame.header.round,
            ": ", absl::string_view(reinterpret_cast<const char*>(reason.data()), reason.size())));
      }
    }
    return absl::OkStatus();
  }

  const ExchangeOptions options_;
  SyncPipeline* const pipeline_;
  const Layout* const layout_;
  const std::vector<std::unique_ptr<Dealer>> shards_;
  std::vector<Pending> pending_;
  size_t waiting_ = 0;
  FrameHeader round_;  // what every frame of the round under way says
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exchange>> Exchange::Connect(const ExchangeOptions& options,
                                                            SyncPipeline* pipeline,
                                                            const Layout* layout) {
  if (options.shard_endpoints.size() != layout->options().shard_count) {
    return absl::InvalidArgumentError(absl::StrCat("exchange: got ", options.shard_endpoints.size(),
                                                   " shard endpoints, wanted ",
                                                   layout->options().shard_count));
  }
  std::vector<std::unique_ptr<Dealer>> shards;
  for (const std::string& endpoint : options.shard_endpoints) {
    LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Dealer> shard, Dealer::Connect(endpoint));
    shards.push_back(std::move(shard));
  }
  return std::make_unique<DealerExchange>(options, pipeline, layout, std::move(shards));
}

}  // namespace longwave
