#include "server/shard_state/outbox.h"

#include <iterator>
#include <optional>
#include <utility>

namespace longwave {

void Outbox::ReleaseWelcomes() {
  if (welcomes_.empty()) return;
  // Updates and requests come after the hello's answer: the worker ignores earlier ones.
  const auto paced =
      std::stable_partition(outgoing_.begin(), outgoing_.end(),
                            [](const SendFrame& send) { return send.cause == SendCause::kAnswer; });
  outgoing_.insert(paced, std::make_move_iterator(welcomes_.begin()),
                   std::make_move_iterator(welcomes_.end()));
  welcomes_.clear();
}

void Outbox::SendDue(absl::Time now, SendToPeer send_to_peer) {
  for (SendFrame& send : std::exchange(outgoing_, {})) {
    for (const uint32_t worker : send.workers) {
      if (send.cause == SendCause::kAnswer || pacer_.Admit(worker, send, now))
        Send(worker, send, now, send_to_peer);
    }
  }
  // Frames that wait for a hello leave after its answer: the worker ignores earlier ones.
  while (welcomes_.empty()) {
    std::optional<SendFrame> due = pacer_.TakeDue(now);
    if (!due.has_value()) break;
    Send(due->workers.front(), *due, now, send_to_peer);
  }
  for (const auto& [worker, segment] : pacer_.TakeDropped()) links_.CountDropped(worker, segment);
}

void Outbox::Send(uint32_t worker, SendFrame& send, absl::Time now, SendToPeer send_to_peer) {
  const absl::Status sent = links_.Send(worker, send, send_to_peer);
  if (sent.ok()) {
    pacer_.Charge(worker, send.frame.wire_bytes(encryption_), now);
  } else if (absl::IsUnavailable(sent) && send.cause != SendCause::kAnswer) {
    pacer_.PutBack(worker, send, now + kRetryInterval);
  } else {
    notices_.DroppedUnsent(worker, send.frame.header(), sent);
  }
}

}  // namespace longwave
