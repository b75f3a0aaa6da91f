#include "common/security/certificates.h"

#include <arpa/inet.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/security/openssl.h"

namespace longwave {
namespace {

// Our certificates have some hundred bytes; a foreign one with its chain has some thousand.
constexpr size_t kPemBytesMax = 1 << 18;
constexpr int kChainMax = 8;

template <typename Bytes>
Fingerprint HashOf(const Bytes* data, size_t size) {
  Fingerprint digest;
  SHA256(reinterpret_cast<const unsigned char*>(data), size,
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// Refuses PEM that needs a passphrase. By default OpenSSL would prompt on the terminal, and the
// text's sender could block a thread.
int NoPassphrase(char*, int, int, void*) { return -1; }

// All certificates of a PEM text, in order.
absl::StatusOr<std::vector<CertificatePtr>> ReadChain(const std::string& pem) {
  if (pem.size() > kPemBytesMax) {
    return InvalidArgument("got ", pem.size(), " bytes of certificates, wanted at most ",
                           kPemBytesMax);
  }
  std::vector<CertificatePtr> chain;
  const BioPtr bio = BioOf(pem);
  while (CertificatePtr certificate{PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)})
    chain.push_back(std::move(certificate));
  ERR_clear_error();  // the end of the text counts as an error
  if (chain.empty()) return InvalidArgument("holds no certificate in PEM");
  return chain;
}

absl::StatusOr<KeyPtr> ReadKey(const std::string& pem) {
  const BioPtr bio = BioOf(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return InvalidArgument("holds no private key in PEM");
  return key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm broken{};
  if (ASN1_TIME_to_tm(time, &broken) != 1) return absl::InfinitePast();
  return absl::FromTM(broken, absl::UTCTimeZone());
}

Fingerprint FingerprintOf(const X509* certificate) {
  Fingerprint digest{};
  unsigned size = digest.size();
  X509_digest(certificate, EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  return digest;
}

Fingerprint FingerprintOf(const EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return {};
  const Fingerprint digest = HashOf(der, static_cast<size_t>(size));
  OPENSSL_free(der);
  return digest;
}

std::string TextOf(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

void ReadNames(X509* certificate, CertificateInfo* info) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) return;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) {
      auto identity = ParseIdentityUri(TextOf(name->d.uniformResourceIdentifier));
      if (identity.ok()) info->identities.push_back(*std::move(identity));
    } else if (name->type == GEN_DNS) {
      info->hosts.push_back(TextOf(name->d.dNSName));
    } else if (name->type == GEN_IPADD) {
      const std::string bytes = TextOf(name->d.iPAddress);
      char text[INET6_ADDRSTRLEN] = "";
      const int family = bytes.size() == 4 ? AF_INET : AF_INET6;
      if ((bytes.size() == 4 || bytes.size() == 16) &&
          inet_ntop(family, bytes.data(), text, sizeof text) != nullptr) {
        info->hosts.push_back(text);
      }
    }
  }
}

CertificateInfo InfoOf(X509* certificate) {
  CertificateInfo info;
  ReadNames(certificate, &info);
  info.not_before = TimeOf(X509_get0_notBefore(certificate));
  info.not_after = TimeOf(X509_get0_notAfter(certificate));
  info.is_authority = X509_check_ca(certificate) == 1;
  info.fingerprint = FingerprintOf(certificate);
  info.key_fingerprint = FingerprintOf(X509_get0_pubkey(certificate));
  return info;
}

absl::Status Extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1)
    return OpenSslError("adding an extension");
  return absl::OkStatus();
}

// As objects, since OpenSSL's text form of names would interpret commas.
absl::Status AddNames(X509* certificate, const std::vector<Identity>& identities,
                      const std::vector<std::string>& hosts) {
  const NamesPtr names(GENERAL_NAMES_new());
  const auto add = [&](int type, ASN1_STRING* value) {
    GENERAL_NAME* const name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, type, value);
    sk_GENERAL_NAME_push(names.get(), name);
  };
  const auto text = [](const std::string& value) {
    ASN1_IA5STRING* const string = ASN1_IA5STRING_new();
    ASN1_STRING_set(string, value.data(), static_cast<int>(value.size()));
    return string;
  };
  for (const Identity& identity : identities) add(GEN_URI, text(UriOf(identity)));
  for (const std::string& host : hosts) {
    if (ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str())) {
      add(GEN_IPADD, address);
    } else {
      add(GEN_DNS, text(host));
    }
  }
  ERR_clear_error();
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_APPEND) != 1)
    return OpenSslError("adding names");
  return absl::OkStatus();
}

absl::Status SetSerial(X509* certificate) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, RandomBytes(16));
  bytes[0] &= std::byte{0x7f};  // positive
  const NumberPtr number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()), nullptr));
  if (BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr)
    return OpenSslError("a serial number");
  return absl::OkStatus();
}

// Clocks of machines differ, so certificates are valid from a little earlier.
constexpr absl::Duration kClockSkew = absl::Minutes(5);

void SetTime(ASN1_TIME* at, absl::Time time) { ASN1_TIME_set(at, absl::ToTimeT(time)); }

void SetSubject(X509_NAME* name, const std::string& text) {
  // The field takes 64 characters; the identity is among the alternative names.
  const std::string shown = text.substr(0, 64);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(shown.data()),
                             static_cast<int>(shown.size()), -1, 0);
}

std::string PemOf(X509* certificate) {
  return Written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

class OpenSslTrust final : public Trust {
 public:
  OpenSslTrust(StorePtr store, std::string authorities)
      : store_(std::move(store)), authorities_(std::move(authorities)) {}

  absl::StatusOr<CertificateInfo> Verify(const std::string& chain_pem,
                                         absl::Time now) const override {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadChain(chain_pem));
    const StoreContextPtr context(X509_STORE_CTX_new());
    STACK_OF(X509)* const others = sk_X509_new_null();
    for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others, chain[i].get());
    const bool made = X509_STORE_CTX_init(context.get(), store_.get(), chain[0].get(), others) == 1;
    if (made) {
      X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
      X509_STORE_CTX_set_depth(context.get(), kChainMax);
      X509_verify_cert(context.get());
    }
    const int error = made ? X509_STORE_CTX_get_error(context.get()) : X509_V_ERR_OUT_OF_MEM;
    // The error's certificate; after the first one of the chain an authority's.
    X509* const culprit = made ? X509_STORE_CTX_get_current_cert(context.get()) : nullptr;
    const bool is_authority = culprit != nullptr && X509_cmp(culprit, chain[0].get()) != 0;
    sk_X509_free(others);
    ERR_clear_error();
    if (error == X509_V_OK) return InfoOf(chain[0].get());
    return WhyNot(error, InfoOf(culprit == nullptr ? chain[0].get() : culprit),
                  is_authority ? "was issued by an authority that " : "", now);
  }

 private:
  absl::Status WhyNot(int error, const CertificateInfo& info, const char* whose,
                      absl::Time now) const {
    const auto utc = [](absl::Time time) {
      return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
    };
    switch (error) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
        return OutOfRange(whose, "has expired: good until ", utc(info.not_after), ", now ",
                          utc(now));
      case X509_V_ERR_CERT_NOT_YET_VALID:
        return OutOfRange(whose, "is not valid yet: from ", utc(info.not_before), " on, now ",
                          utc(now), " (do the clocks differ?)");
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return Unauthenticated("was issued by another authority than this run's (", authorities_,
                               ")");
      default:
        return InvalidArgument("cannot be used: ", X509_verify_cert_error_string(error));
    }
  }

  const StorePtr store_;
  const std::string authorities_;  // for sentences
};

class OpenSslAuthority final : public Authority {
 public:
  OpenSslAuthority(CertificatePtr certificate, KeyPtr key, std::string key_pem)
      : certificate_(std::move(certificate)),
        key_(std::move(key)),
        certificate_pem_(PemOf(certificate_.get())),
        key_pem_(std::move(key_pem)),
        info_(InfoOf(certificate_.get())) {}

  const std::string& certificate() const override { return certificate_pem_; }
  const std::string& key() const override { return key_pem_; }
  const CertificateInfo& info() const override { return info_; }

  absl::StatusOr<std::string> Issue(const std::string& request_pem,
                                    const std::vector<Identity>& identities,
                                    const std::vector<std::string>& hosts,
                                    const Validity& validity) const override {
    if (identities.empty()) return InvalidArgument("a certificate for nobody");
    LONGWAVE_RETURN_IF_ERROR(ReadRequest(request_pem).status());
    const BioPtr bio = BioOf(request_pem);
    const RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassphrase, nullptr));
    const CertificatePtr certificate(X509_new());
    X509_set_version(certificate.get(), X509_VERSION_3);
    LONGWAVE_RETURN_IF_ERROR(SetSerial(certificate.get()));
    SetTime(X509_getm_notBefore(certificate.get()),
            std::max(validity.from - std::min(kClockSkew, validity.life), info_.not_before));
    SetTime(X509_getm_notAfter(certificate.get()),
            std::min(validity.from + validity.life, info_.not_after));
    SetSubject(X509_get_subject_name(certificate.get()), UriOf(identities.front()));
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
    X509_set_pubkey(certificate.get(), X509_REQ_get0_pubkey(request.get()));
    const auto extend = [&](int nid, const char* value) {
      return Extend(certificate.get(), certificate_.get(), nid, value);
    };
    LONGWAVE_RETURN_IF_ERROR(extend(NID_basic_constraints, "critical,CA:FALSE"));
    LONGWAVE_RETURN_IF_ERROR(extend(NID_key_usage, "critical,digitalSignature"));
    LONGWAVE_RETURN_IF_ERROR(extend(NID_ext_key_usage, "serverAuth,clientAuth"));
    LONGWAVE_RETURN_IF_ERROR(extend(NID_subject_key_identifier, "hash"));
    LONGWAVE_RETURN_IF_ERROR(extend(NID_authority_key_identifier, "keyid"));
    LONGWAVE_RETURN_IF_ERROR(AddNames(certificate.get(), identities, hosts));
    if (X509_sign(certificate.get(), key_.get(), EVP_sha256()) == 0)
      return OpenSslError("signing a certificate");
    return PemOf(certificate.get());
  }

 private:
  const CertificatePtr certificate_;
  const KeyPtr key_;
  const std::string certificate_pem_;
  const std::string key_pem_;
  const CertificateInfo info_;
};

}  // namespace

Fingerprint Sha256(std::string_view bytes) { return HashOf(bytes.data(), bytes.size()); }

std::string Hex(std::span<const std::byte> bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<std::vector<std::byte>> RandomBytes(size_t count) {
  std::vector<std::byte> bytes(count);
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1)
    return OpenSslError("random bytes");
  return bytes;
}

absl::StatusOr<CertificateInfo> ReadCertificate(const std::string& pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadChain(pem));
  return InfoOf(chain[0].get());
}

absl::StatusOr<std::vector<CertificateInfo>> ReadCertificates(const std::string& pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadChain(pem));
  std::vector<CertificateInfo> infos;
  infos.reserve(chain.size());
  for (const CertificatePtr& certificate : chain) infos.push_back(InfoOf(certificate.get()));
  return infos;
}

absl::StatusOr<std::string> FirstCertificate(const std::string& pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadChain(pem));
  return PemOf(chain[0].get());
}

absl::StatusOr<std::string> CertificatesAlone(const std::string& pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadChain(pem));
  std::string alone;
  for (const CertificatePtr& certificate : chain) alone += PemOf(certificate.get());
  return alone;
}

absl::StatusOr<std::string> MakeKey() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("making a key");
  return Written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

absl::StatusOr<std::string> MakeRequest(const std::string& key_pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const KeyPtr key, ReadKey(key_pem));
  const RequestPtr request(X509_REQ_new());
  X509_REQ_set_version(request.get(), X509_REQ_VERSION_1);
  X509_REQ_set_pubkey(request.get(), key.get());
  if (X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0)
    return OpenSslError("signing a request");
  return Written([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request.get()); });
}

absl::StatusOr<Fingerprint> ReadRequest(const std::string& request_pem) {
  if (request_pem.size() > kPemBytesMax)
    return InvalidArgument("the request for a certificate is too large");
  const BioPtr bio = BioOf(request_pem);
  const RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (request == nullptr)
    return InvalidArgument("the request for a certificate is no PKCS #10 in PEM");
  EVP_PKEY* const key = X509_REQ_get0_pubkey(request.get());
  char group[32] = "";
  if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_EC ||
      EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) != 1 ||
      std::strcmp(group, SN_X9_62_prime256v1) != 0) {
    ERR_clear_error();
    return InvalidArgument("the request's key is none on the curve P-256, as all of a run's are");
  }
  if (X509_REQ_verify(request.get(), key) != 1) {
    ERR_clear_error();
    return InvalidArgument("the request for a certificate is not signed with its key");
  }
  return FingerprintOf(key);
}

absl::Status CheckPair(const std::string& certificate_pem, const std::string& key_pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadChain(certificate_pem));
  LONGWAVE_ASSIGN_OR_RETURN(const KeyPtr key, ReadKey(key_pem));
  const bool fits = X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return InvalidArgument("the certificate and the key are not a pair");
}

absl::StatusOr<std::unique_ptr<Trust>> Trust::Create(const std::string& authority_pem) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> authorities,
                            ReadChain(authority_pem));
  StorePtr store(X509_STORE_new());
  std::string shown;
  for (const CertificatePtr& authority : authorities) {
    if (X509_STORE_add_cert(store.get(), authority.get()) != 1)
      return OpenSslError("trusting an authority");
    const Fingerprint fingerprint = FingerprintOf(authority.get());
    absl::StrAppend(&shown, shown.empty() ? "" : ", ", Hex(std::span(fingerprint).first(6)));
  }
  // An intermediate authority suffices: a run trusts its file, self-signed or not.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  return std::make_unique<OpenSslTrust>(std::move(store), std::move(shown));
}

absl::StatusOr<std::unique_ptr<Authority>> Authority::Make(const std::string& label,
                                                           absl::Time now) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string key, MakeKey());
  return MakeFor(key, label, now);
}

absl::StatusOr<std::unique_ptr<Authority>> Authority::MakeFor(const std::string& key_pem,
                                                              const std::string& label,
                                                              absl::Time now) {
  LONGWAVE_ASSIGN_OR_RETURN(KeyPtr key, ReadKey(key_pem));
  CertificatePtr certificate(X509_new());
  X509* const x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  LONGWAVE_RETURN_IF_ERROR(SetSerial(x509));
  SetTime(X509_getm_notBefore(x509), now - kClockSkew);
  SetTime(X509_getm_notAfter(x509), now + kLife);
  SetSubject(X509_get_subject_name(x509), label);
  X509_set_issuer_name(x509, X509_get_subject_name(x509));
  X509_set_pubkey(x509, key.get());
  LONGWAVE_RETURN_IF_ERROR(Extend(x509, x509, NID_basic_constraints, "critical,CA:TRUE"));
  LONGWAVE_RETURN_IF_ERROR(Extend(x509, x509, NID_key_usage, "critical,keyCertSign,cRLSign"));
  LONGWAVE_RETURN_IF_ERROR(Extend(x509, x509, NID_subject_key_identifier, "hash"));
  if (X509_sign(x509, key.get(), EVP_sha256()) == 0) return OpenSslError("signing an authority");
  return std::make_unique<OpenSslAuthority>(std::move(certificate), std::move(key), key_pem);
}

absl::StatusOr<std::unique_ptr<Authority>> Authority::Load(const std::string& certificate_pem,
                                                           const std::string& key_pem) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<CertificatePtr> chain, ReadChain(certificate_pem));
  LONGWAVE_ASSIGN_OR_RETURN(KeyPtr key, ReadKey(key_pem));
  // During an exchange of authorities the file has both, in any order.
  const auto own = std::ranges::find_if(chain, [&key](const CertificatePtr& one) {
    return X509_check_private_key(one.get(), key.get()) == 1;
  });
  ERR_clear_error();
  if (own == chain.end()) return InvalidArgument("the certificate and the key are not a pair");
  if (X509_check_ca(own->get()) != 1)
    return InvalidArgument("the certificate is not one of an authority");
  return std::make_unique<OpenSslAuthority>(std::move(*own), std::move(key), key_pem);
}

std::array<std::byte, Token::kFingerprintBytes> TokenFingerprint(const CertificateInfo& authority) {
  std::array<std::byte, Token::kFingerprintBytes> part;
  std::copy_n(authority.fingerprint.begin(), part.size(), part.begin());
  return part;
}

}  // namespace longwave
