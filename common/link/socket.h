#ifndef LONGWAVE_COMMON_LINK_SOCKET_H_
#define LONGWAVE_COMMON_LINK_SOCKET_H_

#include <memory>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/wake_event.h"
#include "common/link/doorkeeper.h"
#include "common/link/link.h"

namespace longwave {

// Private to this folder: the common part of Dealer and Router, one ZeroMQ socket that sends and
// verifies frames and counts their bytes. Exceptions of cppzmq end here.
class LinkSocket {
 public:
  LinkSocket(zmq::socket_type type, const LinkOptions& options);
  LinkSocket(const LinkSocket&) = delete;
  LinkSocket& operator=(const LinkSocket&) = delete;

  zmq::socket_t& zmq() { return socket_; }

  // As Dealer::Send, or with a peer as Router::Send.
  absl::Status Send(const PeerId* peer, const SealedFrame& frame);

  // As Dealer::Receive; for a router, a message's first part is its peer. A call of
  // wake->Wake makes Receive return nullopt early; null: none.
  absl::StatusOr<std::optional<PeerFrame>> Receive(absl::Duration timeout, const WakeEvent* wake);

  Encryption encryption() const { return encryption_; }
  const LinkCounts& counts() const { return counts_; }
  const std::string& last_refusal() const { return last_refusal_; }
  // Null unless the socket is a secured router's.
  AdmittedKeys* admitted() const {
    return doorkeeper_ == nullptr ? nullptr : &doorkeeper_->admitted();
  }

 private:
  // A waiting message: its peer, and its frame or the reason for its refusal.
  struct Message {
    PeerId peer;
    uint64_t wire_bytes = 0;
    std::string from;  // a refused frame's host, where ZeroMQ names one
    absl::StatusOr<Frame> frame;
  };
  std::optional<Message> ReceiveWaiting();
  absl::StatusOr<Frame> Verify(zmq::message_t header, std::optional<zmq::message_t> payload,
                               size_t part_count);
  // Whether a secured router's frame names the worker of its connection's User-Id, which is the
  // key.
  absl::Status CheckSender(const FrameName& frame, const char* user_id);
  // Sends a message's first part. False if the queue is full.
  bool TakesFirst(zmq::message_t part, zmq::send_flags flags);
  void NoticeSilence();
  void CountSent(const SealedFrame& frame);
  void CountReceived(const Message& message);
  void NoteRefused(const Message& message);

  // The context is declared first since it outlives its sockets.
  std::shared_ptr<zmq::context_t> context_;
  const bool routes_;
  const Encryption encryption_;
  const int send_queue_frames_;
  zmq::socket_t socket_;
  const int ready_fd_;        // readable when messages may wait
  Refusals* const refusals_;  // null: rejects are not counted
  LinkCounts counts_;
  std::string last_refusal_;
  std::unique_ptr<Doorkeeper> doorkeeper_;  // a secured router's
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_SOCKET_H_
