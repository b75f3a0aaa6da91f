#ifndef LONGWAVE_COMMON_SECURITY_CREDENTIALS_H_
#define LONGWAVE_COMMON_SECURITY_CREDENTIALS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"

namespace longwave {

// The folder of a process's credentials, with the file names of Kubernetes' secrets:
//   ca.crt   the authority's certificate, or several during an exchange of authorities
//   tls.crt  the process's certificate, and those between it and the authority
//   tls.key  its private key
//   ca.key   the authority's key, only in the coordinator's folder (security.authority)
inline constexpr char kAuthorityFile[] = "ca.crt";
inline constexpr char kAuthorityKeyFile[] = "ca.key";
inline constexpr char kCertificateFile[] = "tls.crt";
inline constexpr char kKeyFile[] = "tls.key";

struct Credentials {
  std::string authority;
  std::string certificate;
  std::string key;
};

// FOLDER/FILE.
std::string FileIn(const std::string& folder, std::string_view file);
// Whether the file exists, readable or not.
bool FileIsThere(const std::string& path);

// An upper bound of these files' sizes.
inline constexpr size_t kTextFileBytesMax = 1 << 20;
// Errors: NotFound, PermissionDenied, InvalidArgument (more than bytes_max).
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t bytes_max = kTextFileBytesMax);
// Modes of WriteFile (common/base/new_file.h): a secret one is readable by its owner alone.
inline constexpr mode_t kPublicFile = 0644;
inline constexpr mode_t kSecretFile = 0600;

// Makes the folder, for its owner alone, unless it exists.
absl::Status MakeSecretFolder(const std::string& folder);

// The folder of a process's credentials: security.folder as `configured`, or else `security` in the
// state folder. Errors: FailedPrecondition (neither is given).
absl::StatusOr<std::string> CredentialsFolder(const std::string& configured,
                                              const std::string& state_dir);

// Reads the three files. Errors: NotFound (the folder or a file is missing; the sentence says
// which, and how to make it).
absl::StatusOr<Credentials> ReadCredentials(const std::string& folder);
// Makes the folder (for its owner alone) if need be. Writes the key first, the certificate last.
absl::Status WriteCredentials(const std::string& folder, const Credentials& credentials);

// Reads and checks the files: certificate and key match, the authority issued the certificate, the
// certificate is valid now and names the identity. Errors: FailedPrecondition, with the folder.
absl::StatusOr<CertificateInfo> CheckCredentials(const std::string& folder,
                                                 const Identity& identity, absl::Time now);

// A key, its certificate by the authority, and the authority's certificate.
absl::StatusOr<Credentials> MakeCredentials(const Authority& authority,
                                            const std::vector<Identity>& identities,
                                            const std::vector<std::string>& hosts,
                                            const Validity& validity);

// The authority of a folder: ca.crt and ca.key. Errors: NotFound; FailedPrecondition, with the
// folder.
absl::StatusOr<std::unique_ptr<Authority>> LoadAuthority(const std::string& folder);
// As LoadAuthority, but makes an authority if there is neither file. A key without ca.crt, which a
// process that ended between the two writes leaves, gets a certificate; the key is kept, since an
// operator may have supplied it. A ca.crt without a key may be a member's: FailedPrecondition.
absl::StatusOr<std::unique_ptr<Authority>> LoadOrMakeAuthority(const std::string& folder,
                                                               absl::Time now);

// The last change of a file, in a form that changes with the target of a symbolic link too.
struct FileStamp {
  uint64_t inode = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);  // FileStamp() if the file is missing

// The time when two thirds of the certificate's lifetime have passed.
absl::Time RenewalDue(const CertificateInfo& certificate);

// The names and addresses of a server on this machine that listens on `host`: `host`, loopback's
// addresses and the machine's name.
std::vector<std::string> HostsOfThisMachine(std::string_view host);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CREDENTIALS_H_
