#ifndef LONGWAVE_COMMON_RPC_ADMISSION_H_
#define LONGWAVE_COMMON_RPC_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/fields.h"
#include "common/layout/manifest.h"
#include "common/security/identity.h"

namespace longwave {

// Plain values about admission; proto/longwave/v1/coordinator.proto says what each field means. A
// subject is "worker/NAME", "shard/N", or "worker/" for any worker.

struct JoinWish {
  std::string token;
  Identity subject;
  std::string request;  // PKCS #10, PEM
  std::vector<std::string> hosts;
};

struct JoinAnswer {
  std::string certificate;
  std::string authority;
  std::string configuration;
  std::optional<Manifest> manifest;
  LONGWAVE_FIELDS(certificate, authority, configuration, manifest)
};

struct TokenWish {
  absl::Duration life;
  uint32_t uses = 1;
  std::string subject;
};

struct NewToken {
  std::string token;  // the whole token, shown once
  std::string id;
  LONGWAVE_FIELDS(token, id)
};

struct TokenStatus {
  std::string id;
  std::string subject;
  absl::Duration expires_in;  // negative once expired
  uint32_t uses = 0;
  uint32_t used = 0;
  bool revoked = false;
  std::vector<std::string> joined;
  LONGWAVE_FIELDS(id, uses, used, revoked, joined)  // the others are read in convert_admission.cc
};

struct Expulsion {
  std::vector<TokenStatus> revoked;      // joined is empty in each
  std::vector<std::string> also_joined;  // names; kAlsoJoinedMax at most
  LONGWAVE_FIELDS(revoked, also_joined)
};
inline constexpr size_t kAlsoJoinedMax = 256;

struct TokenList {
  std::vector<TokenStatus> tokens;
  std::vector<std::string> expelled;
  LONGWAVE_FIELDS(tokens, expelled)
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_ADMISSION_H_
