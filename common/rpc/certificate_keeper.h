#ifndef LONGWAVE_COMMON_RPC_CERTIFICATE_KEEPER_H_
#define LONGWAVE_COMMON_RPC_CERTIFICATE_KEEPER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace longwave {

// Renews a process's certificate, on a thread of its own, once two thirds of its lifetime have
// passed: the same key, a new certificate in the same file. The keeper does not write a certificate
// that the folder's ca.crt does not trust, or when the key or certificate was exchanged meanwhile.
// A folder that is not writable (a mounted secret) is left to its owner.
class CertificateKeeper {
 public:
  // Fetches a new certificate for the request's key: CoordinatorClient::RenewCertificate.
  using Renew = std::function<absl::StatusOr<std::string>(const std::string& request)>;

  static std::unique_ptr<CertificateKeeper> Start(std::string folder, Renew renew);
  virtual ~CertificateKeeper() = default;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CERTIFICATE_KEEPER_H_
