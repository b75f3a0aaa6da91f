#ifndef LONGWAVE_CLI_SECURITY_CERTIFICATE_COMMAND_H_
#define LONGWAVE_CLI_SECURITY_CERTIFICATE_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

struct CertificateMakeOptions {
  std::string folder;              // that gets ca.crt, tls.crt, tls.key
  std::string authority;           // folder of ca.crt and ca.key; empty: `folder`, made there
  std::vector<std::string> roles;  // "coordinator", "shard/0", "worker/a", "operator"
  std::vector<std::string> hosts;  // DNS names and addresses
  std::string life = "720h";
};

// A certificate for `roles` by the authority of a folder; without --authority the authority is made
// too, unless it is there.
absl::Status MakeCertificate(const CertificateMakeOptions& options);

// What the credentials of a folder say, line by line; Errors: as CheckCredentials, but for the
// name.
absl::StatusOr<std::vector<std::string>> ShowCertificate(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_CERTIFICATE_COMMAND_H_
