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
  std::optional<Manifest> manifest;  // once a worker has brought one
};

// Redeems a token at the coordinator's address ("host:port") for credentials in the name of
// `identity`, a worker or a shard, and leaves them in `folder` (ca.crt, tls.crt, tls.key). The
// authority that the coordinator shows is held against the token before the token's secret is sent
// to anyone. A key that the folder has already is certified again, so that a call whose answer was
// lost costs no second use. hosts: that a shard is reached by.
//
// InvalidArgument: not a token. Unauthenticated: whoever answers there is not who gave the token
// out. PermissionDenied: the token was used up, has expired or was revoked, or the name was
// expelled. AlreadyExists: the name is another's. FailedPrecondition: the run is not secured, or
// its coordinator cannot issue certificates. Unavailable: nobody answers.
absl::StatusOr<JoinedRun> JoinRun(const std::string& address, const std::string& token,
                                  const Identity& identity, const std::string& folder,
                                  const std::vector<std::string>& hosts = {},
                                  absl::Duration deadline = absl::Seconds(10));

// As a worker of that name.
absl::StatusOr<JoinedRun> JoinRun(const std::string& address, const std::string& token,
                                  const std::string& name, const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_JOIN_H_
