#ifndef LONGWAVE_CLI_BENCH_DELAY_PROXY_H_
#define LONGWAVE_CLI_BENCH_DELAY_PROXY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longwave {

struct DelayProxyOptions {
  std::string listen_address = "127.0.0.1";  // IPv4
  uint16_t listen_port = 0;                  // 0: any free one
  std::string target_address;                // IPv4
  uint16_t target_port = 0;
  absl::Duration delay;  // of every byte, either way
  // What is held of each direction of a connection before its sender has to wait: no less than
  // rate × delay, or the proxy would be the slower link.
  size_t held_bytes_max = size_t{64} << 20;
};

// A long way in a short one, for kernels without netem: takes TCP connections and passes them on to
// the target; what goes either way, the end of a direction and the breaking of a connection
// included, arrives no sooner than `delay` after it came. Bytes, their order and half-closed
// connections are kept as they are. Connections that the target refuses are broken.
class DelayProxy {
 public:
  // Listens and serves on a thread of its own, in the network namespace of the calling one.
  // Unavailable: the address cannot be listened on. InvalidArgument: not an address.
  static absl::StatusOr<std::unique_ptr<DelayProxy>> Start(const DelayProxyOptions& options);
  // Breaks the connections that are left.
  virtual ~DelayProxy() = default;

  virtual uint16_t port() const = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_DELAY_PROXY_H_
