#ifndef LONGWAVE_COMMON_RPC_ADMISSION_RECORDS_H_
#define LONGWAVE_COMMON_RPC_ADMISSION_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/fields.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"

namespace longwave {

// The requests of admission that have more than their messages in
// proto/longwave/v1/coordinator.proto, or a choice. A subject is "worker/NAME", "shard/N", or
// "worker/" for any worker.

struct JoinWish {
  std::string token;  // goes before the request
  Identity subject;
  std::string request;  // PKCS #10, PEM
  std::vector<std::string> hosts;
  LONGWAVE_FIELDS(request, hosts)
};

struct RenewalWish {
  CertificateInfo caller;  // at the coordinator: of the caller
  std::string request;     // PKCS #10, PEM
  LONGWAVE_FIELDS(request)
};

struct TokenWish {
  absl::Duration life;
  uint32_t uses = 1;
  std::string subject;
};

// The most names in Expulsion::also_joined.
inline constexpr size_t kAlsoJoinedMax = 256;

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_ADMISSION_RECORDS_H_
