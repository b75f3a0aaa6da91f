#ifndef LONGWAVE_COMMON_LINK_LINK_H_
#define LONGWAVE_COMMON_LINK_LINK_H_

#include <cstddef>
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

// The data plane over ZeroMQ: four verbs (Connect, Bind, Send, Receive), frames in and out. A frame
// travels as a message of one part (header alone) or two (header, payload). Whatever comes in is
// decoded and verified before it is returned; what does not verify is dropped, counted and named by
// `counts().frames_refused` and `last_refusal()`, never returned. Bytes that are not ZeroMQ's
// protocol at all, and messages above kPayloadBytesMax, end at the socket: their connection is
// closed and nothing of them is counted.
//
// A received payload stays where ZeroMQ put it, at any address: read it with memcpy. A sent
// payload's owner is released on a thread of ZeroMQ once the bytes are in the kernel. That nothing
// is copied in between is so for plain links: with CURVE ZeroMQ copies and encrypts each part for
// each receiver anew, and what it receives it decrypts into memory of its own. A destroyed
// socket goes on sending what is queued for up to kLingerMax; the last one of the process waits for
// it.

// Queues. A socket holds, for each peer and direction, as many frames as LinkOptions say: received
// ones are the socket's memory, of at most kReceiveQueueBytesMax in frames of the largest size. A
// send queue copies nothing: it keeps the sender's buffers, one for all the peers that a frame goes
// to, so that all of them together cost what their distinct frames do. Who knows its frames' size
// states the bound in bytes. The kernel's socket buffers are left to its own tuning, which a set
// size would switch off.
inline constexpr uint64_t kReceiveQueueBytesMax = uint64_t{4} << 30;
inline constexpr int kReceiveQueueFramesMax =
    static_cast<int>(kReceiveQueueBytesMax / kPayloadBytesMax);
inline constexpr int kSendQueueFramesMax = 4096;
inline constexpr absl::Duration kLingerMax = absl::Seconds(1);

// Bytes through one socket: message parts with their ZMTP 3.1
// framing and what CURVE adds to it where it encrypts (see PartWireBytes), routing identities
// excluded since they do not travel. Sent bytes count once they are queued, received ones whether
// or not they verify. payload: the payloads alone, verified ones when received. Apart by kind are
// the frames that verify, so that
//   sent = sent_by_kind.Total().bytes, received = received_by_kind.Total().bytes + refused.
struct LinkCounts {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t payload_sent = 0;
  uint64_t payload_received = 0;
  uint64_t frames_refused = 0;
  uint64_t refused = 0;  // bytes of frames_refused
  // Of frames_refused, those that a secured router took for somebody else's: the header names
  // another worker than the connection's key belongs to, or the key is no member's any more.
  uint64_t frames_of_others = 0;
  TrafficByKind sent_by_kind;
  TrafficByKind received_by_kind;
  bool operator==(const LinkCounts&) const = default;
};

struct LinkOptions {
  // Threads that move bytes between the kernel and the queues, for all sockets of the process: the
  // first socket's wish counts. One does some GB/s; more help a process with many busy connections,
  // each of which stays with one thread.
  int io_threads = 1;
  // Frames of any size that wait in a socket for one peer's sake before they are received. 1 …
  // kReceiveQueueFramesMax. Beyond it the connection is not read from, so that the peer's own queue
  // fills: nothing is dropped.
  int receive_queue_frames = kReceiveQueueFramesMax;
  // Frames that wait to be sent to one peer. 1 … kSendQueueFramesMax. Beyond it Send refuses.
  int send_queue_frames = kSendQueueFramesMax;
  // Of a dealer. True: it takes a frame only while its connection stands, and what it had taken
  // when that breaks is lost; so that nothing waits here, counted as sent, to leave all at once
  // when the other end is there again. Send refuses as if the queue were full.
  bool only_while_connected = false;
  // Encrypts and authenticates with CURVE. A dealer's endpoint then names the router's key
  // (WithKey); a router admits the members of SetAdmitted, and nobody before. Empty: plain, and
  // anybody may send anything.
  CurveKeys keys = {};
};

// A worker's end: one connection to one shard. Not thread-safe.
class Dealer {
 public:
  // endpoint: "tcp://host:port", with ?key= if and only if options have keys. InvalidArgument: not
  // an endpoint. Connecting goes on in the
  // background and is retried by ZeroMQ; nothing is known of the other end until it answers.
  static absl::StatusOr<std::unique_ptr<Dealer>> Connect(const std::string& endpoint,
                                                         const LinkOptions& options = {});
  virtual ~Dealer() = default;

  // The payload's bytes are not copied; they must not change until the buffer's owner is released.
  // Unavailable: the send queue is full, or there is no connection (only_while_connected).
  virtual absl::Status Send(const SealedFrame& frame) = 0;
  // Seals and sends.
  absl::Status Send(const FrameHeader& header, Buffer payload);

  // The next verified frame, or nothing within `timeout`.
  virtual absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) = 0;

  virtual const LinkCounts& counts() const = 0;
  virtual Encryption encryption() const = 0;
  // Why the last refused frame was refused; empty if none was.
  virtual std::string last_refusal() const = 0;

  // ZeroMQ's socket, for Waiter alone.
  virtual void* handle() = 0;
};

// A shard's end: all its workers' connections. Not thread-safe.
class Router {
 public:
  // endpoint: "tcp://host:port", port 0 or * for any free one; IPv6 as "tcp://[::1]:port".
  // Unavailable: the port is in use.
  static absl::StatusOr<std::unique_ptr<Router>> Bind(const std::string& endpoint,
                                                      const LinkOptions& options = {});
  virtual ~Router() = default;

  // The endpoint with its real port.
  virtual std::string endpoint() const = 0;

  // NotFound: the peer has gone. Unavailable: its queue is full.
  virtual absl::Status Send(const PeerId& peer, const SealedFrame& frame) = 0;
  // Seals and sends. Who sends one frame to many seals it once.
  absl::Status Send(const PeerId& peer, const FrameHeader& header, Buffer payload);
  virtual absl::StatusOr<std::optional<PeerFrame>> Receive(absl::Duration timeout) = 0;

  // The Receive that waits, or else the next one that would wait, returns nothing at once. This
  // alone may be called from any thread.
  virtual void Wake() = 0;

  // Of a secured router, from any thread: whose keys are admitted from now on. A frame is refused
  // unless its header names the worker whose key its connection has, and that is among these.
  virtual void SetAdmitted(const std::vector<AdmittedKeys::Member>& members) = 0;
  virtual DoorCounts door() const = 0;
  // Who came since this was last called, kKnocksMax at most.
  virtual std::vector<Knock> TakeKnocks() = 0;

  virtual Encryption encryption() const = 0;
  virtual const LinkCounts& counts() const = 0;
  virtual std::string last_refusal() const = 0;
  // Likewise of those that were not their senders' own (LinkCounts::frames_of_others).
  virtual std::string last_refusal_of_others() const = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_LINK_H_
