#ifndef LONGWAVE_COMMON_RPC_PROBE_H_
#define LONGWAVE_COMMON_RPC_PROBE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/identity.h"

namespace longwave {

// Measures the way to a coordinator or a shard by calls that carry nothing but their size.
inline constexpr size_t kProbeBytesMax = size_t{4} << 20;

struct TimeAnswer {
  absl::Time server_time;  // when the call had come
  absl::Time sent;         // by this machine's clock
  absl::Duration took;     // from request to answer
};

class ProbeClient {
 public:
  // What the other end is asked to show.
  enum class Trust {
    kPlain,        // nothing: plain text
    kNobody,       // any certificate: who has no credentials yet may ask for the time
    kCredentials,  // one of the authority in the folder of credentials, for the role of `server`
  };
  static std::unique_ptr<ProbeClient> Connect(const std::string& address, Role server, Trust trust,
                                              const std::string& credentials = "",
                                              absl::Duration deadline = absl::Seconds(10));
  virtual ~ProbeClient() = default;

  // Unavailable: nobody answered. Unimplemented: an older server.
  virtual absl::StatusOr<TimeAnswer> GetTime() = 0;
  // From request to answer. Both at most kProbeBytesMax. Likewise; Unauthenticated,
  // PermissionDenied: the caller is no member.
  virtual absl::StatusOr<absl::Duration> Measure(size_t payload_bytes, size_t answer_bytes) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_PROBE_H_
