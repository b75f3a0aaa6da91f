#ifndef LONGWAVE_COMMON_LINK_CURVE_H_
#define LONGWAVE_COMMON_LINK_CURVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace longwave {

// Keys of ZeroMQ's CURVE (Curve25519), as 32 raw bytes. A process makes a pair when it starts; the
// public half goes over the authenticated control channel.
inline constexpr size_t kCurveKeyBytes = 32;

struct CurveKeys {
  std::string public_key;
  std::string secret_key;

  bool empty() const { return secret_key.empty(); }
};
// Internal: this libzmq was built without CURVE.
absl::StatusOr<CurveKeys> MakeCurveKeys();

// "tcp://host:port?key=<64 hex digits>": an endpoint and whose key is to be found there.
std::string WithKey(const std::string& endpoint, std::string_view public_key);
struct KeyedEndpoint {
  std::string endpoint;  // "tcp://host:port"
  std::string key;       // empty: none was named
};
// InvalidArgument: something behind the endpoint that is no key.
absl::StatusOr<KeyedEndpoint> SplitKey(const std::string& endpoint);

// Whom a router admits: the public keys of members, and which worker each is. Thread-safe. A key
// that is taken out is nobody's at once, also for connections that it has opened.
class AdmittedKeys {
 public:
  struct Member {
    uint32_t worker = 0;
    std::string key;
  };
  void Set(const std::vector<Member>& members);
  // key_hex: in lower-case hex digits, as a connection's User-Id has it.
  std::optional<uint32_t> WorkerOf(std::string_view key_hex) const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, uint32_t> workers_;  // by the key in hex digits
};

// What a router refused at its door, and sentences about the last of each.
struct DoorCounts {
  uint64_t keys = 0;        // connections with a key that is no member's
  uint64_t handshakes = 0;  // connections that never got through: without CURVE, half-open, garbage
  uint64_t closed = 0;      // connections that their other end closed before they were through
  std::string last_key;
  std::string last_handshake;
  std::string last_closed;
};

// One of those.
struct Knock {
  uint64_t DoorCounts::*counted = nullptr;
  std::string peer;  // its address without the port; "": that was gone before it could be asked for
  std::string from;  // with the port: "1.2.3.4:5", "[::1]:5". Of keys without: ZeroMQ has none
  std::string sentence;  // without the address
};
// "SENTENCE, from ADDRESS".
std::string WithAddress(const Knock& knock);
// Of those that are kept until they are taken; of more the newest.
inline constexpr size_t kKnocksMax = 64;

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_CURVE_H_
