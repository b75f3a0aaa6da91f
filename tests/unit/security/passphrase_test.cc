// Encrypted PEM from strangers: by default OpenSSL asks for the passphrase, and waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/openssl.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr char kPassphrase[] = "sesame";

// `object` under a passphrase, as PEM takes it for every kind.
template <typename Object>
std::string Encrypted(i2d_of_void* encode, const char* name, Object* object) {
  return Written([&](BIO* bio) {
    return PEM_ASN1_write_bio(encode, name, bio, object, EVP_aes_256_cbc(),
                              reinterpret_cast<const unsigned char*>(kPassphrase),
                              sizeof kPassphrase - 1, nullptr, nullptr);
  });
}

std::string EncryptedRequest() {
  const std::string plain = *MakeRequest(*MakeKey());
  const BioPtr bio = BioOf(plain);
  const RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  return Encrypted(reinterpret_cast<i2d_of_void*>(i2d_X509_REQ), PEM_STRING_X509_REQ,
                   request.get());
}

std::string EncryptedCertificate() {
  const auto authority = Authority::Make("test", absl::FromUnixSeconds(1'900'000'000));
  const BioPtr bio = BioOf((*authority)->certificate());
  const CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  return Encrypted(reinterpret_cast<i2d_of_void*>(i2d_X509), PEM_STRING_X509, certificate.get());
}

// The result of `read` in a process without a terminal, with the passphrase on standard input.
template <typename Read>
int WhereItIsThereToBeAskedFor(const Read& read) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a read of a terminal would wait for ever
    setsid();
    int input[2];
    if (pipe(input) != 0) _exit(9);
    const std::string line = absl::StrCat(kPassphrase, "\n");
    if (write(input[1], line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(9);
    dup2(input[0], STDIN_FILENO);
    close(input[1]);
    _exit(read() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}
constexpr int kRead = 1 << 8, kRefused = 0;

TEST(Passphrase, IsAskedForByOpenSslLeftToItself) {
  // Shows that the other tests can fail.
  const std::string request = EncryptedRequest();
  ASSERT_THAT(request, HasSubstr("Proc-Type: 4,ENCRYPTED"));
  EXPECT_EQ(WhereItIsThereToBeAskedFor([&] {
              const BioPtr bio = BioOf(request);
              const RequestPtr read(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
              return read != nullptr;
            }),
            kRead);
}

TEST(Passphrase, OfARequestIsNotAskedFor) {
  const std::string request = EncryptedRequest();
  ASSERT_THAT(request, HasSubstr("Proc-Type: 4,ENCRYPTED"));
  EXPECT_EQ(WhereItIsThereToBeAskedFor([&] { return ReadRequest(request).ok(); }), kRefused);
  EXPECT_EQ(ReadRequest(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Passphrase, OfACertificateIsNotAskedFor) {
  const std::string certificate = EncryptedCertificate();
  ASSERT_THAT(certificate, HasSubstr("Proc-Type: 4,ENCRYPTED"));
  EXPECT_EQ(WhereItIsThereToBeAskedFor([&] { return ReadCertificate(certificate).ok(); }),
            kRefused);
  EXPECT_EQ(WhereItIsThereToBeAskedFor([&] { return Trust::Create(certificate).ok(); }), kRefused);
  EXPECT_EQ(ReadCertificate(certificate).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longwave
