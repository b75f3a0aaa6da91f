#include "common/rpc/join.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/rpc/grpc_client.h"
#include "common/rpc/probe.h"
#include "common/rpc/tls.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/token.h"

namespace longwave {
namespace {

// Certificates begin some minutes before they are made; a smaller difference fails nothing.
constexpr absl::Duration kClockNamed = absl::Minutes(1);

// The token's authority, as the server presents it. Only that certificate: the server, not verified
// yet, could add others, which would be trusted too.
absl::StatusOr<std::string> FetchAuthority(const std::string& address, const Token& token,
                                           absl::Duration deadline) {
  const auto client = ConnectToCoordinator(address, deadline, AskingCredentials());
  LONGWAVE_ASSIGN_OR_RETURN(const std::string shown, client->GetAuthority());
  LONGWAVE_ASSIGN_OR_RETURN(std::string authority, FirstCertificate(shown));
  LONGWAVE_ASSIGN_OR_RETURN(const CertificateInfo info, ReadCertificate(authority));
  if (TokenFingerprint(info) != token.authority) {
    return Unauthenticated(
        "whoever answers at ", address, " shows the authority ",
        Hex(std::span(info.fingerprint).first(6)), ", the token was made by the coordinator of ",
        Hex(std::span(token.authority).first(6)),
        ": another run's coordinator, or somebody in between. The token was not shown to it");
  }
  return authority;
}

// The folder's key, or a new one, which is stored before it is used.
absl::StatusOr<std::string> KeyOf(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kKeyFile);
  absl::StatusOr<std::string> known = ReadTextFile(path);
  if (known.ok() && MakeRequest(*known).ok()) return known;
  if (!known.ok() && !absl::IsNotFound(known.status())) return known.status();
  LONGWAVE_ASSIGN_OR_RETURN(std::string key, MakeKey());
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(folder));
  LONGWAVE_RETURN_IF_ERROR(WriteFile(path, key, kSecretFile));
  return key;
}

// The error with the difference of the clocks, if there is one: with a wrong clock no certificate
// is valid, and TLS does not tell why.
absl::Status WithClock(const absl::Status& error, const std::string& address,
                       absl::Duration deadline) {
  const auto client =
      ProbeClient::Connect(address, Role::kCoordinator, ProbeClient::Trust::kNobody, "", deadline);
  const absl::StatusOr<TimeAnswer> answer = client->GetTime();
  if (!answer.ok()) return error;
  const absl::Duration ahead = answer->sent + answer->took / 2 - answer->server_time;
  const absl::Duration apart =
      absl::Trunc(absl::AbsDuration(ahead) + absl::Milliseconds(500), absl::Seconds(1));
  if (apart < kClockNamed) return error;
  return absl::Status(
      error.code(),
      absl::StrCat(error.message(), "; this machine's clock is ", absl::FormatDuration(apart),
                   ahead < absl::ZeroDuration() ? " behind" : " ahead of",
                   " the coordinator's: let the system set it (`timedatectl set-ntp "
                   "true`, or chrony)"));
}

absl::StatusOr<JoinedRun> Redeem(const std::string& address, const std::string& token_text,
                                 const std::string& authority, const Identity& identity,
                                 const std::string& folder, const std::vector<std::string>& hosts,
                                 absl::Duration deadline) {
  LONGWAVE_ASSIGN_OR_RETURN(std::string key, KeyOf(folder));
  JoinWish wish{.token = token_text, .subject = identity, .hosts = hosts};
  LONGWAVE_ASSIGN_OR_RETURN(wish.request, MakeRequest(key));

  const auto client =
      ConnectToCoordinator(address, deadline, JoiningCredentials(authority, Role::kCoordinator));
  LONGWAVE_ASSIGN_OR_RETURN(JoinAnswer answer, client->Join(wish));
  // All authorities that the run trusts, from a coordinator that the token's authority has
  // certified.
  std::string trusted = authority;
  if (!answer.authority.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(trusted, CertificatesAlone(answer.authority));
  }
  LONGWAVE_RETURN_IF_ERROR(
      WriteCredentials(folder, {std::move(trusted), answer.certificate, std::move(key)}));
  LONGWAVE_RETURN_IF_ERROR(CheckCredentials(folder, identity, absl::Now()).status());
  return JoinedRun{std::move(answer.configuration), std::move(answer.manifest)};
}

}  // namespace

absl::StatusOr<JoinedRun> JoinRun(const std::string& address, const std::string& token_text,
                                  const Identity& identity, const std::string& folder,
                                  const std::vector<std::string>& hosts, absl::Duration deadline) {
  LONGWAVE_ASSIGN_OR_RETURN(const Token token, ParseToken(token_text));
  LONGWAVE_ASSIGN_OR_RETURN(const std::string authority, FetchAuthority(address, token, deadline));
  absl::StatusOr<JoinedRun> run =
      Redeem(address, token_text, authority, identity, folder, hosts, deadline);
  return run.ok() ? std::move(run) : WithClock(run.status(), address, deadline);
}

}  // namespace longwave
