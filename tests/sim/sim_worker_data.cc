// SimWorker's frames.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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

void SimWorker::ServeRequests() {
  for (;;) {
    auto answer = core_->AnswerRequest(
        [this](uint32_t segment) { return ledger_->HasSnapshotRoom(segment); });
    if (!answer.ok()) return Die(answer.status(), "gives a segment away");
    if (!answer->has_value()) return;
    const absl::Status posted = ledger_->PostSnapshot((*answer)->segment, (*answer)->round,
                                                      std::move((*answer)->payload), now());
    if (!posted.ok()) return Die(posted, "posts a snapshot");
  }
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
  WakeAt(ledger_->DueAt());
}

void SimWorker::WakeAt(absl::Time due) {
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
  const Peer from{this, generation(), connection.number};
  env_.network->Send(node(), *shard, from.id(), frame.bytes(),
                     [this, shard, frame, from, port = ports_[outgoing.connection]] {
                       shard->TakeFrame(frame, from, this, port);
                     });
}

}  // namespace longwave::sim
