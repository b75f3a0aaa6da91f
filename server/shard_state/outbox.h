#ifndef LONGWAVE_SERVER_SHARD_STATE_OUTBOX_H_
#define LONGWAVE_SERVER_SHARD_STATE_OUTBOX_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/shard/pacer.h"
#include "server/shard/shard_effect.h"
#include "server/shard_state/member_links.h"
#include "server/shard_state/shard_notices.h"

namespace longwave {

// The frames that a shard is about to send, each at its worker's rate (Pacer) and on the connection
// that MemberLinks chooses. Answers to hellos wait for the commit, since they follow the answers to
// the frames before them. A frame whose connection is full waits for kRetryInterval, an answer is
// dropped. Pure.
class Outbox {
 public:
  static constexpr absl::Duration kRetryInterval = absl::Milliseconds(100);

  // `links` and `notices` outlive this object. encryption: of the links.
  Outbox(MemberLinks* links, ShardNotices* notices, Encryption encryption)
      : links_(*links), notices_(*notices), encryption_(encryption), pacer_(encryption) {}

  void Add(const SendFrame& send) { outgoing_.push_back(send); }
  // The answer to a hello.
  void AddWelcome(SendFrame send) { welcomes_.push_back(std::move(send)); }
  // The frames before a hello have their answers in the box: the hello's answer may follow them.
  void ReleaseWelcomes();

  void SendDue(absl::Time now, SendToPeer send_to_peer);

  Pacer& pacer() { return pacer_; }
  const Pacer& pacer() const { return pacer_; }

 private:
  void Send(uint32_t worker, SendFrame& send, absl::Time now, SendToPeer send_to_peer);

  MemberLinks& links_;
  ShardNotices& notices_;
  const Encryption encryption_;
  Pacer pacer_;
  std::vector<SendFrame> outgoing_;  // due now, subject to the pacer
  std::vector<SendFrame> welcomes_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_OUTBOX_H_
