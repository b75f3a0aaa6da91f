#include "cli/security/certificate_command.h"

#include <arpa/inet.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/key_types.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

// Good for less, a certificate is over before its process has started.
constexpr absl::Duration kLifeMin = absl::Seconds(1);

bool IsAddress(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// A name may begin with "*.", which stands for any one label.
bool IsName(absl::string_view text) {
  absl::ConsumePrefix(&text, "*.");
  return !absl::StartsWith(text, "[") && IsHost({text.data(), text.size()});
}

}  // namespace

absl::Status MakeCertificate(const CertificateMakeOptions& options) {
  absl::Duration life;
  if (!absl::ParseDuration(options.life, &life) || life < kLifeMin || life > Authority::kLife) {
    return InvalidArgument(
        "--life: got ", Quotable(options.life), ", wanted a duration such as 720h, from ",
        absl::FormatDuration(kLifeMin), " to ", absl::FormatDuration(Authority::kLife));
  }
  std::vector<Identity> identities;
  for (const std::string& role : options.roles) {
    LONGWAVE_ASSIGN_OR_RETURN(identities.emplace_back(), ParseIdentity(role));
  }
  for (const std::string& name : options.names) {
    // The chart gives --dns whatever a service is reached by.
    if (IsName(name) || IsAddress(name)) continue;
    return InvalidArgument("--dns: got ", Quotable(name), ", wanted a host's name or address");
  }
  for (const std::string& address : options.addresses) {
    if (IsAddress(address)) continue;
    return InvalidArgument("--ip: got ", Quotable(address), ", wanted an IPv4 or IPv6 address");
  }
  std::vector<std::string> hosts = options.names;
  hosts.insert(hosts.end(), options.addresses.begin(), options.addresses.end());
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                            options.authority.empty()
                                ? LoadOrMakeAuthority(options.folder, absl::Now())
                                : LoadAuthority(options.authority));
  if (identities.empty()) {
    // The authority's own folder has ca.crt, perhaps with another authority's certificate.
    if (options.authority.empty()) return absl::OkStatus();
    return WriteFile(FileIn(options.folder, kAuthorityFile), authority->certificate(), kPublicFile);
  }
  LONGWAVE_ASSIGN_OR_RETURN(const Credentials credentials,
                            MakeCredentials(*authority, identities, hosts, {absl::Now(), life}));
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
