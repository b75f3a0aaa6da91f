#include "common/rpc/tls.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/enum_name.h"
#include "common/rpc/grpc_log.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace longwave {
namespace {

namespace tls = grpc::experimental;

// The delay within which a changed file is noticed.
constexpr unsigned kFilesFollowedSeconds = 1;

std::string_view RoleName(Role role) {
  return EnumName(role, {"the coordinator", "a shard", "a worker", "an operator"});
}

// gRPC has checked that the certificate leads to the authority; the verifier checks its role. The
// host's name does not matter: only a run's own processes have certificates of its authority, and
// addresses change.
class RoleVerifier final : public tls::ExternalCertificateVerifier {
 public:
  explicit RoleVerifier(Role wanted) : wanted_(wanted) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* sync_status) override {
    std::vector<Identity> identities;
    for (const grpc::string_ref& uri : request->uri_names()) {
      auto identity = ParseIdentityUri(std::string_view(uri.data(), uri.size()));
      if (identity.ok()) identities.push_back(*std::move(identity));
    }
    const bool fits = std::ranges::any_of(
        identities, [this](const Identity& identity) { return identity.role == wanted_; });
    if (!fits) {
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                  absl::StrCat("its certificate names ", Describe(identities),
                                               ", wanted ", std::string(RoleName(wanted_))));
    }
    return true;  // decided at once
  }

  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const Role wanted_;
};

std::shared_ptr<tls::CertificateProviderInterface> FollowFiles(const std::string& folder) {
  return std::make_shared<tls::FileWatcherCertificateProvider>(
      FileIn(folder, kKeyFile), FileIn(folder, kCertificateFile), FileIn(folder, kAuthorityFile),
      kFilesFollowedSeconds);
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::string& folder,
                                                            Role server) {
  TakeGrpcLog();
  if (folder.empty()) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(FollowFiles(folder));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<RoleVerifier>(server));
  options.set_check_call_host(false);
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> JoiningCredentials(const std::string& authority,
                                                             Role server) {
  TakeGrpcLog();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(authority));
  options.watch_root_certs();
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<RoleVerifier>(server));
  options.set_check_call_host(false);
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> AskingCredentials() {
  TakeGrpcLog();
  tls::TlsChannelCredentialsOptions options;
  // gRPC wants root certificates even where nobody verifies one, and without these the machine's,
  // which a small machine or an image may not have: a new authority, which has issued nothing,
  // stands for them.
  if (const auto nobody = Authority::Make("nobody", absl::Now()); nobody.ok()) {
    options.set_certificate_provider(
        std::make_shared<tls::StaticDataCertificateProvider>((*nobody)->certificate()));
    options.watch_root_certs();
  }
  options.set_verify_server_certs(false);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const std::string& folder) {
  TakeGrpcLog();
  if (folder.empty()) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions options(FollowFiles(folder));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return tls::TlsServerCredentials(options);
}

}  // namespace longwave
