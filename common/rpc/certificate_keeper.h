#ifndef LONGWAVE_COMMON_RPC_CERTIFICATE_KEEPER_H_
#define LONGWAVE_COMMON_RPC_CERTIFICATE_KEEPER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace longwave {

// Renews a process's certificate when two thirds of its life have passed, on a thread of its own:
// the same key, a new certificate in the same file. One that the folder's ca.crt does not trust is
// not written, nor is any where somebody has exchanged the key or the certificate meanwhile. A
// folder that is not writable (a mounted secret) is somebody else's to renew.
class CertificateKeeper {
 public:
  // A new certificate for the request's key: CoordinatorClient::RenewCertificate.
  using Renew = std::function<absl::StatusOr<std::string>(const std::string& request)>;

  static std::unique_ptr<CertificateKeeper> Start(std::string folder, Renew renew);
  virtual ~CertificateKeeper() = default;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CERTIFICATE_KEEPER_H_
