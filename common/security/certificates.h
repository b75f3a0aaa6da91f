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

// X.509 over OpenSSL: a run's authority, its processes' keys and their certificates. All keys are
// ECDSA over P-256; all texts are PEM.

using Fingerprint = std::array<std::byte, 32>;
// The owner of a name that a new token gives to any key.
inline constexpr Fingerprint kNoKey{};

// SHA-256 of any bytes.
Fingerprint Sha256(std::string_view bytes);
std::string Hex(std::span<const std::byte> bytes);
// From the system's generator. Errors: Internal (the generator failed).
absl::StatusOr<std::vector<std::byte>> RandomBytes(size_t count);

// The content of a certificate, or of a chain's first.
struct CertificateInfo {
  std::vector<Identity> identities;  // from our URIs; other URIs are left out
  std::vector<std::string> hosts;    // DNS names and addresses
  absl::Time not_before;
  absl::Time not_after;
  bool is_authority = false;
  Fingerprint fingerprint{};      // of the DER
  Fingerprint key_fingerprint{};  // of the public key
};
// Errors: InvalidArgument (no certificate).
absl::StatusOr<CertificateInfo> ReadCertificate(const std::string& pem);
// All certificates of a text in order, at least one.
absl::StatusOr<std::vector<CertificateInfo>> ReadCertificates(const std::string& pem);
// The first certificate as PEM, for callers that have checked only that one.
absl::StatusOr<std::string> FirstCertificate(const std::string& pem);
// All certificates as PEM, without anything else in the text, such as a key.
absl::StatusOr<std::string> CertificatesAlone(const std::string& pem);

// Makes a private key.
absl::StatusOr<std::string> MakeKey();
// Makes a request (PKCS #10) for the key's certificate, signed with the key.
absl::StatusOr<std::string> MakeRequest(const std::string& key_pem);
// The fingerprint of a request's public key. Errors: InvalidArgument (no request, a wrong
// signature, a key of another kind).
absl::StatusOr<Fingerprint> ReadRequest(const std::string& request_pem);
// Whether the certificate belongs to the key.
absl::Status CheckPair(const std::string& certificate_pem, const std::string& key_pem);

// Verifies chains (a certificate, then intermediate ones) against one or several authorities.
class Trust {
 public:
  // Errors: InvalidArgument (no certificates).
  static absl::StatusOr<std::unique_ptr<Trust>> Create(const std::string& authority_pem);
  virtual ~Trust() = default;

  // The content of the chain's first certificate, if the chain leads to an authority and is valid
  // `now`. Errors: Unauthenticated (another authority), OutOfRange (expired or not yet valid),
  // InvalidArgument (anything else). The sentences lack a subject: "was issued by another
  // authority, …".
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

  // Makes an authority. label: its subject, for people.
  static absl::StatusOr<std::unique_ptr<Authority>> Make(const std::string& label, absl::Time now);
  // Makes an authority with a given key. Errors: InvalidArgument (no key).
  static absl::StatusOr<std::unique_ptr<Authority>> MakeFor(const std::string& key_pem,
                                                            const std::string& label,
                                                            absl::Time now);
  // Loads the certificate that belongs to the key, of one or several. Errors: InvalidArgument (not
  // PEM, not an authority, no certificate of the key).
  static absl::StatusOr<std::unique_ptr<Authority>> Load(const std::string& certificate_pem,
                                                         const std::string& key_pem);
  virtual ~Authority() = default;

  virtual const std::string& certificate() const = 0;
  virtual const std::string& key() const = 0;
  virtual const CertificateInfo& info() const = 0;

  // A certificate for the request's key with these names; the request's own names do not count.
  // hosts: DNS names and addresses. The lifetime ends with the authority's at the latest.
  virtual absl::StatusOr<std::string> Issue(const std::string& request_pem,
                                            const std::vector<Identity>& identities,
                                            const std::vector<std::string>& hosts,
                                            const Validity& validity) const = 0;
};

// The part of an authority's fingerprint that tokens contain.
std::array<std::byte, Token::kFingerprintBytes> TokenFingerprint(const CertificateInfo& authority);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CERTIFICATES_H_
