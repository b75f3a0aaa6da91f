#ifndef LONGWAVE_COMMON_SECURITY_CERTIFICATES_H_
#define LONGWAVE_COMMON_SECURITY_CERTIFICATES_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/identity.h"
#include "common/security/token.h"

namespace longwave {

// X.509 over OpenSSL: a run's authority, the keys of its processes and the certificates between
// them. All keys are ECDSA over P-256; everything comes and goes as PEM.

using Fingerprint = std::array<std::byte, 32>;
// Of no key: whose a name is that a new token alone gives to anybody.
inline constexpr Fingerprint kNoKey{};

// SHA-256, of anything.
Fingerprint Sha256(std::string_view bytes);
std::string Hex(std::span<const std::byte> bytes);
// Of the system's generator. Internal: it has failed.
absl::StatusOr<std::vector<std::byte>> RandomBytes(size_t count);

// What a certificate says. From the first of a chain.
struct CertificateInfo {
  std::vector<Identity> identities;  // URIs of ours; others are left out
  std::vector<std::string> hosts;    // DNS names and addresses
  absl::Time not_before;
  absl::Time not_after;
  bool is_authority = false;
  Fingerprint fingerprint{};      // of the DER
  Fingerprint key_fingerprint{};  // of the public key
};
// InvalidArgument: no certificate.
absl::StatusOr<CertificateInfo> ReadCertificate(const std::string& pem);
// All of them, in order; at least one.
absl::StatusOr<std::vector<CertificateInfo>> ReadCertificates(const std::string& pem);
// The first alone, as PEM: whoever has checked it has not checked those behind it.
absl::StatusOr<std::string> FirstCertificate(const std::string& pem);
// All of them as PEM, and nothing else that stands in the text: a file may hold a key besides.
absl::StatusOr<std::string> CertificatesAlone(const std::string& pem);

// A new private key.
absl::StatusOr<std::string> MakeKey();
// A request (PKCS #10) that the key be certified, signed with it.
absl::StatusOr<std::string> MakeRequest(const std::string& key_pem);
// The fingerprint of the public key in a request. InvalidArgument: no request, a signature that
// does not fit, a key that is none of ours.
absl::StatusOr<Fingerprint> ReadRequest(const std::string& request_pem);
// Whether the certificate is the key's.
absl::Status CheckPair(const std::string& certificate_pem, const std::string& key_pem);

// Verifies chains (a certificate, then intermediate ones) against authorities, one or several.
class Trust {
 public:
  // InvalidArgument: no certificates.
  static absl::StatusOr<std::unique_ptr<Trust>> Create(const std::string& authority_pem);
  virtual ~Trust() = default;

  // What the chain's first certificate says, if it goes back to an authority and is valid `now`.
  // Unauthenticated: another authority; OutOfRange: expired or not yet valid; InvalidArgument:
  // anything else. Sentences without a subject: "was issued by another authority, …".
  virtual absl::StatusOr<CertificateInfo> Verify(const std::string& chain_pem,
                                                 absl::Time now) const = 0;
};

struct Validity {
  absl::Time from;
  absl::Duration life;
};

// A run's authority: a certificate and the key that signs others.
class Authority {
 public:
  static constexpr absl::Duration kLife = absl::Hours(24 * 3650);

  // A new one. label: of the subject, for people.
  static absl::StatusOr<std::unique_ptr<Authority>> Make(const std::string& label, absl::Time now);
  // Likewise, with a key that is there already. InvalidArgument: no key.
  static absl::StatusOr<std::unique_ptr<Authority>> MakeFor(const std::string& key_pem,
                                                            const std::string& label,
                                                            absl::Time now);
  // Of several certificates the one that is the key's. InvalidArgument: not PEM, not an authority,
  // or none is.
  static absl::StatusOr<std::unique_ptr<Authority>> Load(const std::string& certificate_pem,
                                                         const std::string& key_pem);
  virtual ~Authority() = default;

  virtual const std::string& certificate() const = 0;
  virtual const std::string& key() const = 0;
  virtual const CertificateInfo& info() const = 0;

  // A certificate for the request's key and these names; the request's own names don't count.
  // hosts: DNS names and addresses. Not longer than the authority's own.
  virtual absl::StatusOr<std::string> Issue(const std::string& request_pem,
                                            const std::vector<Identity>& identities,
                                            const std::vector<std::string>& hosts,
                                            const Validity& validity) const = 0;
};

// The part of an authority's fingerprint that stands in tokens.
std::array<std::byte, Token::kFingerprintBytes> TokenFingerprint(const CertificateInfo& authority);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CERTIFICATES_H_
