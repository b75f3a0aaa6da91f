#include "common/link/socket.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/refusals.h"

namespace longwave {
namespace {

// Refused frames that one Receive handles before it returns, so that a flood of garbage delays it
// little beyond its timeout.
constexpr int kRefusalsPerReceiveMax = 256;

// The time after which a path that failed silently (a machine's crash, a firewall's lost state)
// counts as broken.
constexpr absl::Duration kSilenceMax = absl::Seconds(60);

// The limit of a heartbeat's answer, which waits behind the frame under way: the largest one at
// 1 Mbit/s.
constexpr absl::Duration kPongMax = absl::Seconds(60 + kPayloadBytesMax / 125'000);

// The limit of a handshake with a router.
constexpr absl::Duration kHandshakeMax = absl::Seconds(5);

// The context, with its I/O thread, that all sockets of a process share while one exists, except
// secured routers, which have their own (see Doorkeeper). The thread moves some GB/s.
std::shared_ptr<zmq::context_t> ContextFor(bool is_secured_router) {
  static std::mutex mutex;
  static std::weak_ptr<zmq::context_t> shared;
  if (is_secured_router) return std::make_shared<zmq::context_t>(/*io_threads_=*/1);
  const std::lock_guard lock(mutex);
  std::shared_ptr<zmq::context_t> context = shared.lock();
  if (context == nullptr) {
    context = std::make_shared<zmq::context_t>(/*io_threads_=*/1);
    // ZeroMQ's default is a thousand, fewer than a worker of many shards has connections.
    context->set(zmq::ctxopt::max_sockets, context->get(zmq::ctxopt::socket_limit));
    shared = context;
  }
  return context;
}

// ZeroMQ calls this on its own thread once the last byte of a payload is sent.
void ReleasePayload(void* /*data*/, void* hint) { delete static_cast<Buffer*>(hint); }

// A message that refers to the payload's bytes.
zmq::message_t MessageOf(Buffer payload) {
  auto owner = std::make_unique<Buffer>(std::move(payload));
  // ZeroMQ never writes to a message that it sends; only its C interface lacks const.
  auto* const data = const_cast<std::byte*>(owner->bytes().data());
  const size_t size = owner->size();
  zmq::message_t message(data, size, &ReleasePayload, owner.get());
  // The message owns it now; its constructor may have thrown before.
  static_cast<void>(owner.release());
  return message;
}

// The sender's host; "" if ZeroMQ does not give it.
std::string HostOf(zmq::message_t& message) {
  const char* const host = zmq_msg_gets(message.handle(), "Peer-Address");
  return host == nullptr ? "" : host;
}

Buffer BufferOf(zmq::message_t message) {
  auto owner = std::make_shared<zmq::message_t>(std::move(message));
  // Small messages are stored inside message_t, so the address is taken after the move.
  const std::span bytes(owner->data<std::byte>(), owner->size());
  return Buffer(bytes, std::move(owner));
}

void Require(int result) {
  if (result != 0) throw zmq::error_t();
}

// cppzmq 4.9 accepts keys only as texts.
void SetKey(zmq::socket_t& socket, int option, const std::string& key) {
  Require(zmq_setsockopt(socket.handle(), option, key.data(), key.size()));
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

LinkSocket::LinkSocket(zmq::socket_type type, const LinkOptions& options)
    : context_(ContextFor(type == zmq::socket_type::router && !options.keys.empty())),
      routes_(type == zmq::socket_type::router),
      encryption_(options.keys.empty() ? Encryption::kNone : Encryption::kCurve),
      send_queue_frames_(std::clamp(options.send_queue_frames, 1, kSendQueueFramesMax)),
      socket_(*context_, type),
      ready_fd_(socket_.get(zmq::sockopt::fd)),
      refusals_(options.refusals) {
  socket_.set(zmq::sockopt::linger, Milliseconds(kLingerMax));
  socket_.set(zmq::sockopt::sndhwm, send_queue_frames_);
  socket_.set(zmq::sockopt::rcvhwm,
              std::clamp(options.receive_queue_frames, 1, kReceiveQueueFramesMax));
  // A kilobyte of slack, so that a payload just above the maximum gets a reason for its refusal.
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(kPayloadBytesMax) + 1024);
  socket_.set(zmq::sockopt::reconnect_ivl, 50);
  socket_.set(zmq::sockopt::reconnect_ivl_max, 2000);
  // A process that restarts elsewhere under its name leaves an address that drops packets. The
  // system would retry that address for two minutes; the next attempt resolves the name again.
  socket_.set(zmq::sockopt::connect_timeout, 3000);
  if (routes_) {
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::router_handover, false);
    // ZeroMQ closes a connection whose peer does not finish the handshake.
    socket_.set(zmq::sockopt::handshake_ivl, Milliseconds(kHandshakeMax));
  }
  NoticeSilence();
  if (options.keys.empty()) return;
  SetKey(socket_, ZMQ_CURVE_SECRETKEY, options.keys.secret_key);
  SetKey(socket_, ZMQ_CURVE_PUBLICKEY, options.keys.public_key);
  if (!routes_) return;
  socket_.set(zmq::sockopt::curve_server, true);
  // Without a domain ZeroMQ would admit a peer where it finds nobody to ask.
  socket_.set(zmq::sockopt::zap_domain, "longwave");
  doorkeeper_ = std::make_unique<Doorkeeper>(*context_, socket_, refusals_);
}

// Heartbeats by both ends every ten seconds would cost a percent of the bytes of a worker on a slow
// link. So the connecting end uses ZeroMQ's heartbeats, which a proxy between the two cannot
// answer. The other end uses TCP keepalive, which probes only idle connections.
void LinkSocket::NoticeSilence() {
  if (!routes_) {
    socket_.set(zmq::sockopt::heartbeat_ivl, Milliseconds(kSilenceMax / 2));
    socket_.set(zmq::sockopt::heartbeat_timeout, Milliseconds(kPongMax));
    return;
  }
  constexpr int kProbes = 3;
  const auto idle_seconds = static_cast<int>(absl::ToInt64Seconds(kSilenceMax / 2));
  socket_.set(zmq::sockopt::tcp_keepalive, 1);
  socket_.set(zmq::sockopt::tcp_keepalive_idle, idle_seconds);
  socket_.set(zmq::sockopt::tcp_keepalive_intvl, idle_seconds / kProbes);
  socket_.set(zmq::sockopt::tcp_keepalive_cnt, kProbes);
  socket_.set(zmq::sockopt::tcp_maxrt, Milliseconds(kSilenceMax));  // for unacknowledged bytes
}

absl::Status LinkSocket::Send(const PeerId* peer, const SealedFrame& frame) {
  const size_t payload_bytes = frame.payload().size();
  const auto more = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
  const auto last = zmq::send_flags::dontwait;
  try {
    // Only the first part (the peer's, or the header) fails on a full queue; ZeroMQ takes the rest
    // of the message after it.
    if (peer != nullptr && !TakesFirst(zmq::message_t(peer->data(), peer->size()), more)) {
      return Unavailable("the send queue to a peer is full (", send_queue_frames_, " frames)");
    }
    zmq::message_t head(frame.head().data(), frame.head().size());
    const auto head_flags = payload_bytes > 0 ? more : last;
    if (peer != nullptr ? !socket_.send(head, head_flags)
                        : !TakesFirst(std::move(head), head_flags)) {
      return Unavailable("the send queue is full (", send_queue_frames_, " frames)");
    }
    if (payload_bytes > 0 && !socket_.send(MessageOf(frame.payload()), last)) {
      return Internal("ZeroMQ took a frame's header but not its payload");
    }
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) return NotFound("the peer has gone");
    return Internal("ZeroMQ, sending: ", error.what());
  }
  CountSent(frame);
  return absl::OkStatus();
}

bool LinkSocket::TakesFirst(zmq::message_t part, zmq::send_flags flags) {
  if (socket_.send(part, flags)) return true;
  // While sending, ZeroMQ checks the peer's progress about once a millisecond, so its queue may
  // look full without being so. Reading its events makes it check now, so that no frame is lost.
  static_cast<void>(socket_.get(zmq::sockopt::events));
  return socket_.send(part, flags).has_value();
}

void LinkSocket::CountSent(const SealedFrame& frame) {
  const uint64_t wire_bytes = frame.wire_bytes(encryption_);
  counts_.sent += wire_bytes;
  counts_.payload_sent += frame.payload().size();
  counts_.sent_by_kind[frame.header().kind()] +=
      {.frames = 1, .bytes = wire_bytes, .payload_bytes = frame.payload().size()};
}

void LinkSocket::CountReceived(const Message& message) {
  counts_.received += message.wire_bytes;
  if (!message.frame.ok()) {
    ++counts_.frames_refused;
    counts_.refused += message.wire_bytes;
    return;
  }
  const size_t payload_bytes = message.frame->payload.size();
  counts_.payload_received += payload_bytes;
  counts_.received_by_kind[message.frame->header.kind()] +=
      {.frames = 1, .bytes = message.wire_bytes, .payload_bytes = payload_bytes};
}

void LinkSocket::NoteRefused(const Message& message) {
  last_refusal_ = std::string(message.frame.status().message());
  if (refusals_ == nullptr) return;
  const bool of_another = absl::IsPermissionDenied(message.frame.status());
  refusals_->Note(of_another ? Refusal::kDataWorker : Refusal::kDataFrame, last_refusal_,
                  message.from);
}

absl::StatusOr<std::optional<PeerFrame>> LinkSocket::Receive(absl::Duration timeout,
                                                             const WakeEvent* wake) {
  const absl::Time deadline = MonotonicNow() + timeout;
  int refusals = 0;
  try {
    for (;;) {
      if (std::optional<Message> message = ReceiveWaiting()) {
        CountReceived(*message);
        if (message->frame.ok())
          return PeerFrame{std::move(message->peer), *std::move(message->frame)};
        NoteRefused(*message);
        if (++refusals == kRefusalsPerReceiveMax) return std::nullopt;
        continue;
      }
      const absl::Duration left = deadline - MonotonicNow();
      if (left <= absl::ZeroDuration()) return std::nullopt;
      // A receive that found nothing has emptied the socket's mailbox, so its descriptor becomes
      // readable on the next event. poll therefore suffices; zmq_poll would check the mailbox twice
      // more. Not every event is a frame.
      pollfd items[] = {{ready_fd_, POLLIN, 0}, {wake == nullptr ? -1 : wake->fd(), POLLIN, 0}};
      // Rounded up, so that the rest of a millisecond is not a busy loop; an hour fits an int.
      const absl::Duration wait = absl::Ceil(std::min(left, absl::Hours(1)), absl::Milliseconds(1));
      if (poll(items, wake == nullptr ? 1 : 2, Milliseconds(wait)) < 0) {
        // A signal interrupted the wait; the caller may want to handle it.
        if (errno == EINTR) return std::nullopt;
        return Internal("poll: error ", errno);
      }
      if ((items[1].revents & POLLIN) != 0 && wake->Take()) return std::nullopt;
    }
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return std::nullopt;
    return Internal("ZeroMQ, receiving: ", error.what());
  }
}

std::optional<LinkSocket::Message> LinkSocket::ReceiveWaiting() {
  PeerId peer;
  zmq::message_t part;
  if (routes_) {
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
    peer = part.to_string();
    if (!part.more())
      return Message{std::move(peer), 0, HostOf(part), InvalidArgument("a message without parts")};
  } else {
    // ZeroMQ aborts the process if it learns between two parts of a frame that the dealer's
    // connection has ended (libzmq issue 2163). It looks at every hundredth part. Reading the
    // events makes it look before the frame.
    static_cast<void>(socket_.get(zmq::sockopt::events));
  }
  // The parts of a message arrive together, so these receives need not wait.
  if (!socket_.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  bool more = part.more();
  size_t part_count = 1;
  std::string from = HostOf(part);
  uint64_t wire_bytes = PartWireBytes(part.size(), encryption_);
  std::optional<zmq::message_t> payload;
  while (more) {
    zmq::message_t next;
    if (!socket_.recv(next, zmq::recv_flags::dontwait)) break;
    more = next.more();
    ++part_count;
    wire_bytes += PartWireBytes(next.size(), encryption_);
    if (part_count == 2) payload = std::move(next);
  }
  return Message{std::move(peer), wire_bytes, std::move(from),
                 Verify(std::move(part), std::move(payload), part_count)};
}

absl::StatusOr<Frame> LinkSocket::Verify(zmq::message_t header,
                                         std::optional<zmq::message_t> payload, size_t part_count) {
  if (part_count > 2) {
    return InvalidArgument("a message of ", part_count,
                           " parts; a frame has a header and at most a payload");
  }
  Frame frame;
  LONGWAVE_ASSIGN_OR_RETURN(frame.header,
                            DecodeFrameHeader(std::span(header.data<std::byte>(), header.size())));
  if (doorkeeper_ != nullptr) {
    LONGWAVE_RETURN_IF_ERROR(CheckSender(frame.header, zmq_msg_gets(header.handle(), "User-Id")));
  }
  if (payload.has_value()) {
    if (payload->size() == 0) return InvalidArgument("a payload part without bytes");
    frame.payload = BufferOf(*std::move(payload));
  }
  LONGWAVE_RETURN_IF_ERROR(VerifyPayload(frame.header, frame.payload.bytes()));
  return frame;
}

absl::Status LinkSocket::CheckSender(const FrameName& frame, const char* user_id) {
  const std::optional<uint32_t> sender =
      doorkeeper_->admitted().WorkerOf(user_id == nullptr ? "" : user_id);
  const auto refuse = [&](const std::string& whose) {
    return PermissionDenied("a ", Name(frame.kind), " frame that names worker ", frame.worker,
                            " came by a connection of ", whose);
  };
  if (!sender.has_value()) return refuse("somebody who is no member any more");
  if (*sender != frame.worker) return refuse(absl::StrCat("worker ", *sender));
  return absl::OkStatus();
}

}  // namespace longwave
