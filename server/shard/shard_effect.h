#ifndef LONGWAVE_SERVER_SHARD_SHARD_EFFECT_H_
#define LONGWAVE_SERVER_SHARD_SHARD_EFFECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/link/peer_frame.h"
#include "common/link/sealed_frame.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "server/shard/shard_records.h"

namespace longwave {

// The effects of a shard, to be performed in order. The same values go from the Aggregator, which
// decides, through the DurableShard, which performs those for the disk, to the socket.

// Why a frame is sent, which decides how it leaves.
enum class SendCause : uint8_t {
  kAnswer,     // at once, on the connection that carried the request
  kClose,      // at its worker's rate; of a segment's updates only the newest waits (Pacer)
  kRequested,  // at its worker's rate, each on its own: pulled or fetched, or a shard's request
};
// Of an update that answers a push or a pull.
inline SendCause CauseOf(const FrameName& asked) {
  return asked.kind == FrameKind::kPull ? SendCause::kRequested : SendCause::kClose;
}

// The fault of a rejected push, for counters.
enum class Rejection : uint8_t { kNone, kAddress, kRound, kWeight, kNorm, kPayload };

// A frame to each of `workers`, sealed once.
struct SendFrame {
  std::vector<uint32_t> workers;
  SealedFrame frame;
  SendCause cause = SendCause::kAnswer;
  Rejection rejection = Rejection::kNone;  // with an answer
  PeerId peer;                             // of an answer: its connection
};
// A record that must be in the log before the effects after it are performed: a push before it is
// answered `accepted`, a close before any worker sees its update.
struct KeepRecord {
  LogRecord record;
};
// A request that only the disk can answer: a fetch, or a push or pull of a round before the last
// closed one. The answer to a pull is that round's update, or `compacted`. The answer to a push is
// `duplicate` if its worker is a contributor of that round, else `late`, and the update follows.
// Without a record of the round the answer is `compacted`, since the worker must not resend a
// contribution that a merge may hold.
struct AnswerFromDisk {
  FrameName asked;
};
// A notice for the log: an accepted contribution was merged with less than its weight, or left out.
struct ContributionClipped {
  uint32_t worker = 0;
  bool left_out = false;
  std::string reason;  // names worker, round and segment
};

struct ShardEffect {
  std::variant<SendFrame, KeepRecord, AnswerFromDisk, ContributionClipped> what;
  // The cause, set by DurableShard: the number of the event, 0 for time, and the event's push, pull
  // or fetch.
  uint64_t event = 0;
  std::optional<FrameName> request = std::nullopt;
};

// The header of the frame that the effect sends; null: it sends none of that kind.
template <typename Header>
const Header* HeaderOf(const ShardEffect& effect) {
  const auto* const send = std::get_if<SendFrame>(&effect.what);
  return send == nullptr ? nullptr : std::get_if<Header>(&send->frame.header());
}

// Seals a frame whose payload is known to fit: a merged update (Aggregator::Create checks the
// layout), an answer, or none.
SealedFrame SealFitting(const FrameHeader& header, Buffer payload);
inline SendFrame SendUpdate(std::vector<uint32_t> workers, const MergedFrame& header,
                            Buffer payload, SendCause cause) {
  return {std::move(workers), SealFitting(header, std::move(payload)), cause};
}
// The answer to one worker's frame. reason: a sentence, with a rejection.
SendFrame AnswerWith(const FrameHeader& header, std::string_view reason,
                     Rejection rejection = Rejection::kNone);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_SHARD_EFFECT_H_
