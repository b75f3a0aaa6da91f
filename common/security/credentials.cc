#include "common/security/credentials.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"

namespace longwave {

std::string FileIn(const std::string& folder, std::string_view file) {
  return absl::StrCat(folder, "/", absl::string_view(file.data(), file.size()));
}

bool FileIsThere(const std::string& path) {
  return !absl::IsNotFound(ReadTextFile(path, 0).status());
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t bytes_max) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) {
    const std::string why = absl::StrCat("cannot read ", path, ": ", std::strerror(errno));
    return errno == ENOENT || errno == ENOTDIR ? NotFound(why) : PermissionDenied(why);
  }
  std::string content(bytes_max + 1, '\0');
  in.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(in.gcount()));
  if (content.size() > bytes_max) {
    return InvalidArgument(path, ": got a file of more than ", bytes_max,
                           " bytes, wanted at most that");
  }
  return content;
}

absl::StatusOr<std::string> CredentialsFolder(const std::string& configured,
                                              const std::string& state_dir) {
  if (!configured.empty()) return configured;
  if (!state_dir.empty()) return absl::StrCat(state_dir, "/security");
  return FailedPrecondition(
      "security.folder: got none, and no state folder (--state-dir) to look in; wanted the folder "
      "of ca.crt, tls.crt and tls.key, as security is on (security.mode off switches it off)");
}

absl::StatusOr<Credentials> ReadCredentials(const std::string& folder) {
  Credentials credentials;
  for (auto [file, text] : {std::pair{kAuthorityFile, &credentials.authority},
                            std::pair{kCertificateFile, &credentials.certificate},
                            std::pair{kKeyFile, &credentials.key}}) {
    absl::StatusOr<std::string> content = ReadTextFile(FileIn(folder, file));
    if (!content.ok()) {
      return absl::Status(
          content.status().code(),
          absl::StrCat("credentials: ", content.status().message(), "; wanted ", kAuthorityFile,
                       ", ", kCertificateFile, " and ", kKeyFile, " in the folder, which `longwave",
                       " join` or `longwave certificate make` write (security.folder)"));
    }
    *text = *std::move(content);
  }
  return credentials;
}

absl::Status MakeSecretFolder(const std::string& folder) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) return Unavailable("cannot make ", folder, ": ", error.message());
  if (made) chmod(folder.c_str(), 0700);
  return absl::OkStatus();
}

absl::Status WriteCredentials(const std::string& folder, const Credentials& credentials) {
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(folder));
  LONGWAVE_RETURN_IF_ERROR(WriteFile(FileIn(folder, kKeyFile), credentials.key, kSecretFile));
  LONGWAVE_RETURN_IF_ERROR(
      WriteFile(FileIn(folder, kAuthorityFile), credentials.authority, kPublicFile));
  return WriteFile(FileIn(folder, kCertificateFile), credentials.certificate, kPublicFile);
}

absl::StatusOr<CertificateInfo> CheckCredentials(const std::string& folder,
                                                 const Identity& identity, absl::Time now) {
  LONGWAVE_ASSIGN_OR_RETURN(const Credentials credentials, ReadCredentials(folder));
  const auto refuse = [&](const char* file, absl::string_view why) {
    return FailedPrecondition("credentials: ", folder, "/", file, " ", why);
  };
  const auto trust = Trust::Create(credentials.authority);
  if (!trust.ok()) return refuse(kAuthorityFile, trust.status().message());
  absl::StatusOr<CertificateInfo> info = (*trust)->Verify(credentials.certificate, now);
  if (!info.ok()) return refuse(kCertificateFile, info.status().message());
  if (const absl::Status pair = CheckPair(credentials.certificate, credentials.key); !pair.ok())
    return refuse(kKeyFile, absl::StrCat("does not fit: ", pair.message()));
  if (std::ranges::find(info->identities, identity) == info->identities.end()) {
    return refuse(kCertificateFile, absl::StrCat("names ", Describe(info->identities), ", wanted ",
                                                 Describe(identity), " (", UriOf(identity), ")"));
  }
  return info;
}

absl::StatusOr<Credentials> MakeCredentials(const Authority& authority,
                                            const std::vector<Identity>& identities,
                                            const std::vector<std::string>& hosts,
                                            const Validity& validity) {
  LONGWAVE_ASSIGN_OR_RETURN(std::string key, MakeKey());
  LONGWAVE_ASSIGN_OR_RETURN(const std::string request, MakeRequest(key));
  LONGWAVE_ASSIGN_OR_RETURN(std::string certificate,
                            authority.Issue(request, identities, hosts, validity));
  return Credentials{authority.certificate(), std::move(certificate), std::move(key)};
}

absl::StatusOr<std::unique_ptr<Authority>> LoadAuthority(const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string certificate,
                            ReadTextFile(FileIn(folder, kAuthorityFile)));
  LONGWAVE_ASSIGN_OR_RETURN(const std::string key, ReadTextFile(FileIn(folder, kAuthorityKeyFile)));
  auto authority = Authority::Load(certificate, key);
  if (authority.ok()) return authority;
  return FailedPrecondition("authority in ", folder, ": ", authority.status().message());
}

absl::StatusOr<std::unique_ptr<Authority>> LoadOrMakeAuthority(const std::string& folder,
                                                               absl::Time now) {
  constexpr char kLabel[] = "longwave authority";
  const std::string certificate_file = FileIn(folder, kAuthorityFile);
  const std::string key_file = FileIn(folder, kAuthorityKeyFile);
  const absl::StatusOr<std::string> key = ReadTextFile(key_file);
  const bool has_certificate = FileIsThere(certificate_file);
  if (!absl::IsNotFound(key.status()) && has_certificate) return LoadAuthority(folder);
  if (has_certificate) {
    return FailedPrecondition("authority in ", folder, ": ", kAuthorityFile, " is there without ",
                              kAuthorityKeyFile, "; wanted both, or neither to make an authority");
  }
  std::unique_ptr<Authority> authority;
  if (absl::IsNotFound(key.status())) {
    LONGWAVE_ASSIGN_OR_RETURN(authority, Authority::Make(kLabel, now));
    LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(folder));
    LONGWAVE_RETURN_IF_ERROR(WriteFile(key_file, authority->key(), kSecretFile));
  } else {
    LONGWAVE_RETURN_IF_ERROR(key.status());
    auto made = Authority::MakeFor(*key, kLabel, now);
    if (!made.ok()) {
      return FailedPrecondition("authority in ", folder, ": ", kAuthorityKeyFile,
                                " is there without ", kAuthorityFile, " and ",
                                made.status().message());
    }
    authority = *std::move(made);
  }
  LONGWAVE_RETURN_IF_ERROR(WriteFile(certificate_file, authority->certificate(), kPublicFile));
  return authority;
}

FileStamp StampOf(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_ino, int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

absl::Time RenewalDue(const CertificateInfo& certificate) {
  return certificate.not_before + (certificate.not_after - certificate.not_before) * 2 / 3;
}

std::vector<std::string> HostsOfThisMachine(std::string_view host) {
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  const auto add = [&hosts](std::string_view name) {
    if (name.empty() || name == "0.0.0.0" || name == "::" || name == "*") return;
    if (std::ranges::find(hosts, name) == hosts.end()) hosts.emplace_back(name);
  };
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) == 0) add(name);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  add(host);
  return hosts;
}

}  // namespace longwave
