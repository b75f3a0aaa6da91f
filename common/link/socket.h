#ifndef LONGWAVE_COMMON_LINK_SOCKET_H_
#define LONGWAVE_COMMON_LINK_SOCKET_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/link/doorkeeper.h"
#include "common/link/link.h"

namespace longwave {

// What Dealer and Router share, private to this folder: one ZeroMQ socket that sends and verifies
// frames and counts their bytes. Exceptions of cppzmq end here.
class LinkSocket {
 public:
  LinkSocket(zmq::socket_type type, const LinkOptions& options);
  ~LinkSocket();
  LinkSocket(const LinkSocket&) = delete;
  LinkSocket& operator=(const LinkSocket&) = delete;

  zmq::socket_t& zmq() { return socket_; }

  // As Dealer::Send; with a peer, addressed to it, as Router::Send.
  absl::Status Send(const PeerId* peer, const SealedFrame& frame);

  // As Dealer::Receive; a message's first part is its peer if the socket is a router's. Returns
  // nothing early if wake_fd (-1: none) becomes readable, and drains it.
  absl::StatusOr<std::optional<PeerFrame>> Receive(absl::Duration timeout, int wake_fd);

  Encryption encryption() const { return encryption_; }
  const LinkCounts& counts() const { return counts_; }
  const std::string& last_refusal() const { return last_refusal_; }
  // Of a frame that was not its sender's own.
  const std::string& last_refusal_of_others() const { return last_refusal_of_others_; }
  // Of a secured router; null otherwise.
  Doorkeeper::Door* door() const { return door_.get(); }

 private:
  // The next message if one is waiting: its peer, header part and payload part, or why it is
  // refused.
  struct Message {
    PeerId peer;
    uint64_t wire_bytes = 0;
    absl::StatusOr<Frame> frame;
  };
  std::optional<Message> ReceiveWaiting();
  absl::StatusOr<Frame> Verify(zmq::message_t header, std::optional<zmq::message_t> payload,
                               size_t part_count);
  // Whether a frame is its sender's own, at a secured router: his User-Id is his key.
  absl::Status CheckSender(const FrameHeader& header, const char* user_id);
  // Of a message's first part: false, the queue is full.
  bool TakesFirst(zmq::message_t part, zmq::send_flags flags);
  void NoticeSilence();
  void CountSent(const SealedFrame& frame);
  void CountReceived(const Message& message);

  // The context outlives its sockets: declared first, destroyed last.
  std::shared_ptr<zmq::context_t> context_;
  std::shared_ptr<Doorkeeper> doorkeeper_;
  std::shared_ptr<Doorkeeper::Door> door_;
  const bool routes_;
  const Encryption encryption_;
  const int send_queue_frames_;
  zmq::socket_t socket_;
  const int ready_fd_;  // readable when there may be something to receive
  LinkCounts counts_;
  std::string last_refusal_;
  std::string last_refusal_of_others_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_SOCKET_H_
