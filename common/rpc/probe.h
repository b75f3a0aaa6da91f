#ifndef LONGWAVE_COMMON_RPC_PROBE_H_
#define LONGWAVE_COMMON_RPC_PROBE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/identity.h"

namespace longwave {

// Measures the link to a coordinator or a shard by calls that carry only padding.
inline constexpr size_t kProbeBytesMax = size_t{4} << 20;

struct TimeAnswer {
  absl::Time server_time;  // arrival of the call at the server
  absl::Time sent;         // by this machine's clock
  absl::Duration took;     // from request to answer
};

class ProbeClient {
 public:
  // The credentials that the client requires of the server.
  enum class Trust {
    kPlain,        // none: plain text
    kNobody,       // any certificate: a process without credentials may read the time
    kCredentials,  // one of the authority in the folder of credentials, for the role of `server`
  };
  static std::unique_ptr<ProbeClient> Connect(const std::string& address, Role server, Trust trust,
                                              const std::string& credentials = "",
                                              absl::Duration deadline = absl::Seconds(10));
  virtual ~ProbeClient() = default;

  // Errors: Unavailable (no answer), Unimplemented (an older server).
  virtual absl::StatusOr<TimeAnswer> GetTime() = 0;
  // Time from request to answer. Both sizes are at most kProbeBytesMax. Errors: as GetTime;
  // Unauthenticated and PermissionDenied (the caller is no member).
  virtual absl::StatusOr<absl::Duration> Measure(size_t payload_bytes, size_t answer_bytes) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_PROBE_H_
