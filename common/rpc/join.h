#ifndef LONGWAVE_COMMON_RPC_JOIN_H_
#define LONGWAVE_COMMON_RPC_JOIN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/manifest.h"
#include "common/security/identity.h"

namespace longwave {

struct JoinedRun {
  std::string configuration;         // the run's, complete, as YAML; paths are the coordinator's
  std::optional<Manifest> manifest;  // set once a worker has brought one
};

// Redeems a token at the coordinator's address ("host:port") for credentials in the name of
// `identity`, a worker or a shard, and writes them to `folder` (ca.crt, tls.crt, tls.key). The
// client checks the coordinator's authority against the token before it sends the token's secret. A
// key that the folder has is certified again, so that a call whose answer was lost costs no second
// use. hosts: a shard's addresses.
//
// Errors: InvalidArgument (not a token); Unauthenticated (the server is not the token's
// coordinator); PermissionDenied (the token was used up, has expired or was revoked, or the name
// was expelled); AlreadyExists (another process has the name); FailedPrecondition (the run is not
// secured, or its coordinator cannot issue certificates); Unavailable (no answer).
absl::StatusOr<JoinedRun> JoinRun(const std::string& address, const std::string& token,
                                  const Identity& identity, const std::string& folder,
                                  const std::vector<std::string>& hosts = {},
                                  absl::Duration deadline = absl::Seconds(10));

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_JOIN_H_
