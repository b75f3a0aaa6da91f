#include "cli/security/certificate_command.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {}  // namespace

absl::Status MakeCertificate(const CertificateMakeOptions& options) {
  absl::Duration life;
  if (!absl::ParseDuration(options.life, &life) || life <= absl::ZeroDuration() ||
      life > Authority::kLife) {
    return InvalidArgument("--life: got ", Quotable(options.life),
                           ", wanted a duration such as 720h, at most ",
                           absl::FormatDuration(Authority::kLife));
  }
  std::vector<Identity> identities;
  for (const std::string& role : options.roles) {
    absl::StatusOr<Identity> identity = ParseIdentity(role);
    if (!identity.ok()) return InvalidArgument("--role: ", identity.status().message());
    identities.push_back(*std::move(identity));
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                            options.authority.empty()
                                ? LoadOrMakeAuthority(options.folder, absl::Now())
                                : LoadAuthority(options.authority));
  if (identities.empty()) {
    // The authority's own folder has ca.crt, perhaps with another authority's certificate.
    if (options.authority.empty()) return absl::OkStatus();
    return WriteTextFile(FileIn(options.folder, kAuthorityFile), authority->certificate(),
                         Secrecy::kPublic);
  }
  LONGWAVE_ASSIGN_OR_RETURN(
      const Credentials credentials,
      MakeCredentials(*authority, identities, options.hosts, {absl::Now(), life}));
  return WriteCredentials(options.folder, credentials);
}

absl::StatusOr<std::vector<std::string>> ShowCertificate(const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const Credentials credentials, ReadCredentials(folder));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Trust> trust,
                            Trust::Create(credentials.authority));
  LONGWAVE_ASSIGN_OR_RETURN(const CertificateInfo authority,
                            ReadCertificate(credentials.authority));
  LONGWAVE_ASSIGN_OR_RETURN(const CertificateInfo info, ReadCertificate(credentials.certificate));
  const absl::Time now = absl::Now();
  const auto utc = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
  };
  std::vector<std::string> lines = {
      absl::StrCat("names      ", Describe(info.identities)),
      absl::StrCat("hosts      ", info.hosts.empty() ? "-" : absl::StrJoin(info.hosts, ", ")),
      absl::StrCat("good       from ", utc(info.not_before), " until ", utc(info.not_after)),
      absl::StrCat("renewed    from ", utc(RenewalDue(info)), " on"),
      absl::StrCat("authority  ", Hex(std::span(authority.fingerprint).first(20)))};
  if (const auto verified = trust->Verify(credentials.certificate, now); !verified.ok())
    lines.push_back(absl::StrCat("unfit      it ", verified.status().message()));
  if (const auto pair = CheckPair(credentials.certificate, credentials.key); !pair.ok())
    lines.push_back(absl::StrCat("unfit      ", pair.message()));
  return lines;
}

}  // namespace longwave
