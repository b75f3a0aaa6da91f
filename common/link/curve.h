#ifndef LONGWAVE_COMMON_LINK_CURVE_H_
#define LONGWAVE_COMMON_LINK_CURVE_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace longwave {

// Keys of ZeroMQ's CURVE (Curve25519), as 32 raw bytes. A process makes a pair when it starts; the
// authenticated control channel carries the public half.
inline constexpr size_t kCurveKeyBytes = 32;

struct CurveKeys {
  std::string public_key;
  std::string secret_key;

  bool empty() const { return secret_key.empty(); }
};
// Errors: Internal (this libzmq was built without CURVE).
absl::StatusOr<CurveKeys> MakeCurveKeys();

// "tcp://host:port?key=<64 hex digits>": an endpoint and its router's public key.
std::string WithKey(const std::string& endpoint, std::string_view public_key);
struct KeyedEndpoint {
  std::string endpoint;  // "tcp://host:port"
  std::string key;       // empty if none was given
};
// Errors: InvalidArgument (a suffix that is no key).
absl::StatusOr<KeyedEndpoint> SplitKey(const std::string& endpoint);

// The public keys that a router admits, and each key's worker. Thread-safe. Removal takes effect at
// once, also for connections that are open.
class AdmittedKeys {
 public:
  struct Member {
    uint32_t worker = 0;
    std::string key;
  };
  void Set(const std::vector<Member>& members);
  // key_hex: lower-case hex digits, as in a connection's User-Id.
  std::optional<uint32_t> WorkerOf(std::string_view key_hex) const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, uint32_t> workers_;  // by the key in hex digits
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_CURVE_H_
