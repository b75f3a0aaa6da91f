// SimWorker's frames.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_worker.h"

namespace longwave::sim {
namespace {

Outcome OutcomeOf(const FrameHeader& header) {
  if (const auto* answer = std::get_if<AnswerFrame>(&header)) return answer->outcome;
  const auto* const welcome = std::get_if<WelcomeFrame>(&header);
  return welcome == nullptr ? Outcome::kNone : welcome->outcome;
}

}  // namespace

void SimWorker::OnFrame(uint32_t shard, uint64_t connection, const WireFrame& frame) {
  if (!has_core() || stopped_) return;
  const size_t rank = connection % ranks_.size();
  const Connection& to = connections_[IndexOf(rank, shard)];
  if (connection != to.number || !to.hears) return env_.probes->Hit(Probe::kFrameLost);
  const FrameHeader header = Open(frame, env_.checker);
  const FrameName name = header;
  env_.trace->Add(static_cast<uint64_t>(Mark::kFrameToWorker),
                  {node(), static_cast<uint64_t>(name.kind), name.round, name.segment,
                   static_cast<uint64_t>(OutcomeOf(header))});
  env_.trace->Print([&] {
    return absl::StrCat(this->name(), " gets ", std::string(Name(name.kind)), " ",
                        name.kind == FrameKind::kAnswer ? std::string(Name(OutcomeOf(header))) : "",
                        " of shard ", shard, ", round ", name.round, ", segment ", name.segment);
  });
  ranks_[rank].ledger->OnFrame(shard, header, frame.payload, now());
  Pump();
}

void SimWorker::ServeRequests() {
  for (Rank& rank : ranks_) {
    for (;;) {
      auto answer = rank.core->AnswerRequest(
          [&](uint32_t segment) { return rank.ledger->HasSnapshotRoom(segment); });
      if (!answer.ok()) return Die(answer.status(), "gives a segment away");
      if (!answer->has_value()) break;
      const absl::Status posted = rank.ledger->PostSnapshot((*answer)->segment, (*answer)->round,
                                                            std::move((*answer)->payload), now());
      if (!posted.ok()) return Die(posted, "posts a snapshot");
    }
  }
}

void SimWorker::RenewLost() {
  if (env_.settings->canary == Canary::kStaleConnection) return;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    while (const std::optional<Connections::Lost> lost = ranks_[r].ledger->TakeLost(now())) {
      env_.trace->Print([&] {
        return absl::StrCat(name(), " connects to shard ", lost->connection,
                            " anew: it has not answered for ",
                            absl::FormatDuration(lost->unanswered));
      });
      if (!connections_[IndexOf(r, lost->connection)].is_heard)
        env_.probes->Hit(Probe::kConnectionRenewed);
      Reconnect(r, lost->connection);
    }
  }
}

void SimWorker::SendDue() {
  RenewLost();
  for (size_t r = 0; r < ranks_.size(); ++r) {
    WorkerLedger& ledger = *ranks_[r].ledger;
    while (const std::optional<OutgoingFrame> frame = ledger.NextFrame(now())) {
      ledger.Sent(*frame, now());
      SendFrame(*frame, r);
    }
    WakeAt(ledger.DueAt(), [this] { Pump(); });
  }
}

void SimWorker::SendFrame(const OutgoingFrame& outgoing, size_t rank) {
  const FrameName name = outgoing.header;
  if (env_.settings->canary == Canary::kSilentRetry && name.kind != FrameKind::kHello &&
      !sent_.insert({name.kind, name.segment, name.round}).second) {
    return;
  }
  const WireFrame frame = sim::Seal(outgoing.header, outgoing.payload);
  SimShard* const shard = shards_[outgoing.connection];
  const Connection& connection = connections_[IndexOf(rank, outgoing.connection)];
  if (!connection.is_heard) return env_.probes->Hit(Probe::kFrameLost);
  const Peer from{this, generation(), connection.number};
  env_.network->Send(node(), *shard, from.id(), frame.bytes(),
                     [this, shard, frame, from, port = ports_[outgoing.connection]] {
                       shard->OnFrame(frame, from, this, port);
                     });
}

}  // namespace longwave::sim
