#ifndef LONGWAVE_COMMON_SECURITY_OPENSSL_H_
#define LONGWAVE_COMMON_SECURITY_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/errors.h"

namespace longwave {

// OpenSSL's objects with owners. Private to this folder.
template <auto free>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, OpenSslFree<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpenSslFree<X509_REQ_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, OpenSslFree<BN_free>>;

inline BioPtr BioOf(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The text that a PEM_write function writes.
template <typename Write>
std::string Written(const Write& write) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return "";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

// The first error of OpenSSL's queue, which is then cleared.
inline absl::Status OpenSslError(const char* doing) {
  char text[256] = "no reason given";
  if (const unsigned long error = ERR_get_error(); error != 0)
    ERR_error_string_n(error, text, sizeof text);
  ERR_clear_error();
  return Internal("OpenSSL, ", doing, ": ", text);
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_OPENSSL_H_
