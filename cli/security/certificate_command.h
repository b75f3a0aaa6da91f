#ifndef LONGWAVE_CLI_SECURITY_CERTIFICATE_COMMAND_H_
#define LONGWAVE_CLI_SECURITY_CERTIFICATE_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

struct CertificateMakeOptions {
  std::string folder;                  // receives ca.crt, tls.crt, tls.key
  std::string authority;               // folder of ca.crt and ca.key; empty: `folder`, made there
  std::vector<std::string> roles;      // "coordinator", "shard/0", "worker/a", "operator"
  std::vector<std::string> names;      // that hosts are reached by, or addresses
  std::vector<std::string> addresses;  // IPv4 and IPv6
  std::string life = "720h";
};

// Makes a certificate for `roles` by the authority of a folder. Without --authority, makes the
// authority too unless `folder` has one. Errors: InvalidArgument, with the option.
absl::Status MakeCertificate(const CertificateMakeOptions& options);

// The content of a folder's credentials, line by line. Errors: as CheckCredentials, except for the
// name.
absl::StatusOr<std::vector<std::string>> ShowCertificate(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_CERTIFICATE_COMMAND_H_
