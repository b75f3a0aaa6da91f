// Its frames.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/snapshot_payload.h"
#include "tests/sim/sim_worker.h"

namespace longwave::sim {

void SimWorker::TakeFrame(uint32_t shard, uint64_t connection, const WireFrame& frame) {
  if (ledger_ == nullptr || stopped_) return;
  if (connection != connections_[shard].number || !connections_[shard].hears)
    return env_.probes->Hit(Probe::kFrameLost);
  const FrameHeader header = Open(frame, env_.checker);
  env_.trace->Add(static_cast<uint64_t>(Mark::kFrameToWorker),
                  {node(), static_cast<uint64_t>(header.kind), header.round, header.segment,
                   static_cast<uint64_t>(header.outcome)});
  env_.trace->Tell([&] {
    return absl::StrCat(name(), " gets ", std::string(Name(header.kind)), " ",
                        header.kind == FrameKind::kAnswer ? std::string(Name(header.outcome)) : "",
                        " of shard ", shard, ", round ", header.round, ", segment ",
                        header.segment);
  });
  ledger_->Take(shard, header, frame.payload, now());
  Pump();
}

// All that has come in, and all that is to go out.
void SimWorker::Pump() {
  if (ledger_ == nullptr || stopped_) return;
  // What is done about one thing may call this again; the outermost does it all.
  if (pumping_) return;
  pumping_ = true;
  bool more = true;
  while (more && env_.checker->violation().empty()) {
    more = false;
    for (const Settled& settled : ledger_->TakeSettled()) {
      TakeSettled(settled);
      more = true;
    }
    // Whoever trains has no eye for what an earlier fetch still brings.
    while (catches_up()) {
      const std::optional<FetchEvent> event = ledger_->TakeFetched();
      if (!event.has_value()) break;
      TakeFetched(*event);
      more = true;
    }
    while (const std::optional<SnapshotAsk> ask = ledger_->TakeAsk()) {
      AddAsk(*ask, asks_);
    }
    ServeAsks();
  }
  if (!ledger_->failure().ok()) {
    // So is a worker in whose place a poisoned push was accepted, which is not its own.
    if (is_from_backup_ || env_.checker->IsPoisoner(worker_)) return SetFolderAside();
    Die(ledger_->failure(), "is refused");
  }
  SendDue();
  pumping_ = false;
}

void SimWorker::ServeAsks() {
  if (stage_ == Stage::kDone) return;  // nobody is there to do it
  std::erase_if(asks_, [&](const SnapshotAsk& ask) {
    if (anew_.contains(ask.segment)) return false;
    const uint32_t round = pipeline_->anchor_round(ask.segment);
    if (round < ask.round) return false;
    if (round > ask.round && !ask.or_later) return true;
    if (!ledger_->HasSnapshotRoom(ask.segment)) return false;
    const auto arrays = pipeline_->ExportSegment(ask.segment);
    if (!arrays.ok()) {
      Die(arrays.status(), "gives a segment away");
      return true;
    }
    const std::vector<std::span<const float>> spans(arrays->begin(), arrays->end());
    const absl::Status posted =
        ledger_->PostSnapshot(ask.segment, round, EncodeSnapshotPayload(spans), now());
    if (!posted.ok()) Die(posted, "posts a snapshot");
    return true;
  });
}

void SimWorker::RenewLost() {
  if (env_.settings->canary == Canary::kStaleConnection) return;
  while (const std::optional<Connections::Lost> lost = ledger_->TakeLost(now())) {
    env_.trace->Tell([&] {
      return absl::StrCat(name(), " connects to shard ", lost->connection,
                          " anew: it has not answered for ",
                          absl::FormatDuration(lost->unanswered));
    });
    if (!connections_[lost->connection].is_heard) env_.probes->Hit(Probe::kConnectionRenewed);
    Reconnect(lost->connection);
  }
}

void SimWorker::SendDue() {
  RenewLost();
  while (const std::optional<OutgoingFrame> frame = ledger_->Due(now())) {
    ledger_->Sent(*frame, now());
    SendFrame(*frame);
  }
  WakeWhenDue();
}

void SimWorker::WakeWhenDue() {
  const absl::Time due = ledger_->DueAt();
  if (due == absl::InfiniteFuture()) return;
  const absl::Time at = std::max(due, now());
  if (at >= wakes_at_ && wakes_at_ > now()) return;
  wakes_at_ = at;
  After(at - now(), [this, at] {
    if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
    Pump();
  });
}

void SimWorker::SendFrame(const OutgoingFrame& outgoing) {
  const FrameHeader& header = outgoing.header;
  if (env_.settings->canary == Canary::kSilentRetry && header.kind != FrameKind::kHello &&
      !sent_.insert({header.kind, header.segment, header.round}).second) {
    return;
  }
  const WireFrame frame = Seal(header, outgoing.payload);
  SimShard* const shard = shards_[outgoing.connection];
  const Connection& connection = connections_[outgoing.connection];
  if (!connection.is_heard) return env_.probes->Hit(Probe::kFrameLost);
  env_.network->Send(
      node(), *shard, frame.bytes(), Network::Kind::kDatagram,
      [this, shard, frame, from = Peer{this, generation(), connection.number},
       port = ports_[outgoing.connection]] { shard->TakeFrame(frame, from, this, port); });
}

}  // namespace longwave::sim
