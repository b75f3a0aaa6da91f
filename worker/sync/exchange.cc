#include "worker/sync/exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
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
      LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push push, pipeline_->Encode(segment));
      pending_[segment].payload = std::move(push.payload);
      pending_[segment].norm = push.norm;
      LONGWAVE_RETURN_IF_ERROR(SendPush(segment));
      for (const auto& shard : shards_)
        LONGWAVE_RETURN_IF_ERROR(Drain(*shard, absl::ZeroDuration()));
    }
    size_t next = 0;
    while (waiting_ > 0) {
      if (stopped())
        return absl::CancelledError(absl::StrCat("stopped in the sync of round ", round));
      // Waits at a shard that owes something; the others are looked at without waiting.
      next = NextOwing(next);
      LONGWAVE_RETURN_IF_ERROR(Drain(*shards_[next], kPatience / static_cast<int>(shards_.size())));
      for (const auto& shard : shards_)
        LONGWAVE_RETURN_IF_ERROR(Drain(*shard, absl::ZeroDuration()));
      LONGWAVE_RETURN_IF_ERROR(SendAgain());
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
  // A segment of the round under way: what was pushed, and what became of it.
  struct Pending {
    Buffer payload;
    float norm = 0;
    absl::Time sent_at;
    bool answered = false;  // the shard has it, or will never take it
    bool applied = false;
  };

  Dealer& ShardOf(uint32_t segment) { return *shards_[layout_->segments()[segment].shard]; }

  absl::Status SendPush(uint32_t segment) {
    Pending& pending = pending_[segment];
    FrameHeader header = round_;
    header.kind = FrameKind::kPush;
    header.segment = segment;
    header.norm = pending.norm;
    pending.sent_at = absl::Now();
    return ShardOf(segment).Send(header, pending.payload);
  }

  // Frames can be lost with a connection: after a silence a push that was not answered is pushed
  // again (a duplicate changes nothing), and one that was is asked for.
  absl::Status SendAgain() {
    const absl::Time now = absl::Now();
    for (uint32_t segment = 0; segment < pending_.size(); ++segment) {
      Pending& pending = pending_[segment];
      if (pending.applied || now - pending.sent_at < options_.retry_after) continue;
      if (!pending.answered) {
        LONGWAVE_RETURN_IF_ERROR(SendPush(segment));
        continue;
      }
      FrameHeader header = round_;
      header.kind = FrameKind::kPull;
      header.weight = 0;
      header.segment = segment;
      pending.sent_at = now;
      LONGWAVE_RETURN_IF_ERROR(ShardOf(segment).Send(header, Buffer()));
    }
    return absl::OkStatus();
  }

  size_t NextOwing(size_t from) const {
    for (size_t i = 0; i < shards_.size(); ++i) {
      const size_t shard = (from + i) % shards_.size();
      for (size_t segment = 0; segment < pending_.size(); ++segment) {
        if (!pending_[segment].applied && layout_->segments()[segment].shard == shard) return shard;
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

  absl::Status Take(const Frame& frame) {
    const FrameHeader& header = frame.header;
    // Answers to repeated frames of earlier rounds come late and mean nothing any more.
    if (header.run != options_.run || header.round != round_.round ||
        header.segment >= pending_.size()) {
      return absl::OkStatus();
    }
    Pending& pending = pending_[header.segment];
    if (header.kind == FrameKind::kAnswer) return TakeAnswer(frame, pending);
    if (header.kind != FrameKind::kMerged || pending.applied) return absl::OkStatus();
    LONGWAVE_RETURN_IF_ERROR(pipeline_->Apply(header.segment, frame.payload));
    pending.applied = pending.answered = true;
    --waiting_;
    return absl::OkStatus();
  }

  absl::Status TakeAnswer(const Frame& frame, Pending& pending) {
    pending.answered = true;
    switch (frame.header.outcome) {
      case Outcome::kAccepted:
      case Outcome::kDuplicate:
      case Outcome::kNone:
        return absl::OkStatus();
      case Outcome::kLate:
        // The round was closed without this push: it goes with a later one.
        return pipeline_->Restore(frame.header.segment);
      case Outcome::kRejected: {
        LONGWAVE_RETURN_IF_ERROR(pipeline_->Restore(frame.header.segment));
        const std::span<const std::byte> reason = frame.payload.bytes();
        return absl::FailedPreconditionError(absl::StrCat(
            "the shard of segment ", frame.header.segment, " rejected the push of round ",
            frame.header.round, ": ",
            absl::string_view(reinterpret_cast<const char*>(reason.data()), reason.size())));
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
