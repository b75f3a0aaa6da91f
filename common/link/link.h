#ifndef LONGWAVE_COMMON_LINK_LINK_H_
#define LONGWAVE_COMMON_LINK_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/link/curve.h"
#include "common/link/peer_frame.h"
#include "common/link/sealed_frame.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "common/wire/traffic.h"

namespace longwave {

class Refusals;

// The data plane over ZeroMQ: Connect, Bind, Send, Receive. A frame travels as a message of one
// part (header alone) or two (header, payload). Receive decodes and verifies a frame before
// returning it. A frame that fails is dropped and counted in `counts().frames_refused`;
// `last_refusal()` has the reason. ZeroMQ closes a connection that sends anything but its protocol,
// or a message above kPayloadBytesMax, and counts nothing of it.
//
// A received payload stays where ZeroMQ put it, at any alignment: read it with memcpy. A thread of
// ZeroMQ releases a sent payload's owner once the bytes are in the kernel. Plain links copy nothing
// in between. With CURVE, ZeroMQ encrypts each part for each receiver into a new copy, and decrypts
// what arrives into memory of its own. A destroyed socket goes on sending its queue for up to
// kLingerMax; the process's last socket waits for that.

// Queues. A socket holds, for each peer and direction, as many frames as LinkOptions say. Received
// frames are the socket's memory, at most kReceiveQueueBytesMax in frames of the largest size. A
// send queue holds references to the senders' buffers, one buffer for all receivers of a frame, so
// its cost is that of the distinct frames. A caller that knows its frames' size can state the bound
// in bytes. The kernel tunes its own socket buffers, which a set size would prevent.
inline constexpr uint64_t kReceiveQueueBytesMax = uint64_t{4} << 30;
inline constexpr int kReceiveQueueFramesMax =
    static_cast<int>(kReceiveQueueBytesMax / kPayloadBytesMax);
inline constexpr int kSendQueueFramesMax = 4096;
inline constexpr absl::Duration kLingerMax = absl::Seconds(1);

// Bytes through one socket: message parts with their ZMTP 3.1 framing and CURVE's overhead (see
// PartWireBytes). Routing identities do not travel and do not count. Sent bytes count once queued;
// received bytes count whether or not they verify. payload_*: the payloads alone; received ones if
// verified. The *_by_kind counts cover frames that verify, so that
//   sent = sent_by_kind.Total().bytes, received = received_by_kind.Total().bytes + refused.
struct LinkCounts {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t payload_sent = 0;
  uint64_t payload_received = 0;
  uint64_t frames_refused = 0;
  uint64_t refused = 0;  // bytes of frames_refused
  TrafficByKind sent_by_kind;
  TrafficByKind received_by_kind;
  bool operator==(const LinkCounts&) const = default;
};

struct LinkOptions {
  // Frames of any size that wait in a socket for each peer. 1 … kReceiveQueueFramesMax. At the
  // limit ZeroMQ stops reading the connection, so that the peer's queue fills and nothing is
  // dropped.
  int receive_queue_frames = kReceiveQueueFramesMax;
  // Frames that wait to be sent to one peer. 1 … kSendQueueFramesMax. At the limit Send fails.
  int send_queue_frames = kSendQueueFramesMax;
  // Of a dealer. True: the dealer accepts frames only while connected, and loses its queue when the
  // connection breaks. So no frames that were counted as sent wait here, to leave all at once after
  // a reconnect. Without a connection Send fails as if the queue were full.
  bool only_while_connected = false;
  // Encrypts and authenticates with CURVE. A dealer's endpoint then has the router's key (WithKey).
  // A router admits nobody before SetAdmitted, then its members. Empty: plain, and any process may
  // send any frame.
  CurveKeys keys = {};
  // Of a router: counts and logs rejects. Null, or outlives the router.
  Refusals* refusals = nullptr;
};

// A worker's end: one connection to one shard. Not thread-safe.
class Dealer {
 public:
  // endpoint: "tcp://host:port", with ?key= if and only if options have keys. Errors:
  // InvalidArgument (not an endpoint). ZeroMQ connects in the background and retries; success here
  // says nothing about the other end.
  static absl::StatusOr<std::unique_ptr<Dealer>> Connect(const std::string& endpoint,
                                                         const LinkOptions& options = {});
  virtual ~Dealer() = default;

  // The payload's bytes are not copied, and must not change until the buffer's owner is released.
  // Errors: Unavailable (the send queue is full, or only_while_connected and no connection).
  virtual absl::Status Send(const SealedFrame& frame) = 0;
  // Seals and sends.
  absl::Status Send(const FrameHeader& header, Buffer payload);

  // The next verified frame, or nullopt after `timeout`.
  virtual absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) = 0;

  virtual const LinkCounts& counts() const = 0;
  virtual Encryption encryption() const = 0;
  // The reason for the last refused frame; empty if none.
  virtual std::string last_refusal() const = 0;

  // ZeroMQ's socket, for Waiter alone.
  virtual void* handle() = 0;
};

// A shard's end: all its workers' connections. Not thread-safe.
class Router {
 public:
  // endpoint: "tcp://host:port", port 0 or * for any free one; IPv6 as "tcp://[::1]:port". Errors:
  // Unavailable (the port is in use).
  static absl::StatusOr<std::unique_ptr<Router>> Bind(const std::string& endpoint,
                                                      const LinkOptions& options = {});
  virtual ~Router() = default;

  // The endpoint with its real port.
  virtual std::string endpoint() const = 0;

  // Errors: NotFound (the peer is disconnected), Unavailable (its queue is full).
  virtual absl::Status Send(const PeerId& peer, const SealedFrame& frame) = 0;
  // Seals and sends. To send one frame to many peers, seal it once.
  absl::Status Send(const PeerId& peer, const FrameHeader& header, Buffer payload);
  virtual absl::StatusOr<std::optional<PeerFrame>> Receive(absl::Duration timeout) = 0;

  // Makes the Receive that waits, or else the next one that would wait, return nullopt at once. The
  // only function for any thread besides SetAdmitted.
  virtual void Wake() = 0;

  // Of a secured router, from any thread: the members admitted from now on. The router rejects a
  // frame unless its header names the worker of the connection's key, and that worker is a member.
  virtual void SetAdmitted(const std::vector<AdmittedKeys::Member>& members) = 0;

  virtual Encryption encryption() const = 0;
  virtual const LinkCounts& counts() const = 0;
  virtual std::string last_refusal() const = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_LINK_H_
