#ifndef LONGWAVE_CLI_LIVE_LIVE_SERVER_H_
#define LONGWAVE_CLI_LIVE_LIVE_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longwave {

struct WebOptions {
  std::string address;  // host:port, port 0 for any free one; empty: no page
  std::string tls;      // folder of tls.crt and tls.key; needed beyond loopback
};

// Serves the live page over HTTP/1.1 (PageAccess), on a thread of its own. Beyond loopback it
// speaks TLS alone, and the link has a token, which is that of the folder's key: a link stays good
// after a restart. A slow client delays no other: the server closes a connection whose request,
// handshake or answer exceeds its limit, and the oldest one without a page when there are too many.
class LiveServer {
 public:
  static constexpr size_t kPagesMax = 64;
  static constexpr size_t kCallersMax = 64;  // connections that have no page yet
  static constexpr size_t kRequestBytesMax = 8192;
  static constexpr absl::Duration kRequestPatience = absl::Seconds(5);  // with the handshake
  static constexpr absl::Duration kAnswerPatience = absl::Seconds(10);
  static constexpr size_t kUnsentMax = 16;  // events that a page may be behind

  // whole: what a new page begins with, as JSON in one line; called by the server's thread. Errors:
  // InvalidArgument (not an address, or one beyond loopback without TLS; no certificate), NotFound,
  // PermissionDenied, Unavailable (the port is in use).
  static absl::StatusOr<std::unique_ptr<LiveServer>> Start(const WebOptions& options,
                                                           std::function<std::string()> whole);
  virtual ~LiveServer() = default;  // within half a second

  virtual std::string link() const = 0;
  // Sends every open page what is new, as JSON in one line. Returns at once. Thread-safe.
  virtual void Publish(const std::string& news) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_LIVE_LIVE_SERVER_H_
