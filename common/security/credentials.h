#ifndef LONGWAVE_COMMON_SECURITY_CREDENTIALS_H_
#define LONGWAVE_COMMON_SECURITY_CREDENTIALS_H_

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

// The folder in which a process finds who it is: files of the names that Kubernetes' secrets have.
//   ca.crt   the authority's certificate, or several while one replaces another
//   tls.crt  the process's certificate, and those between it and the authority
//   tls.key  its private key
//   ca.key   the authority's key, in the coordinator's alone (security.authority)
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
// False: there is none. One that cannot be read is there.
bool FileIsThere(const std::string& path);

// More than a file of these folders has.
inline constexpr size_t kTextFileBytesMax = 1 << 20;
// NotFound, PermissionDenied; InvalidArgument: it has more than bytes_max.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t bytes_max = kTextFileBytesMax);
// All of it or nothing under the name, durable; readable by the owner alone if it is secret.
enum class Secrecy { kPublic, kSecret };
absl::Status WriteTextFile(const std::string& path, std::string_view content, Secrecy secrecy);

// Makes the folder, for its owner alone, if it is not there.
absl::Status MakeSecretFolder(const std::string& folder);

// The folder of a process's credentials: security.folder as `configured`, or else `security` in its
// state folder. FailedPrecondition: neither is there.
absl::StatusOr<std::string> CredentialsFolder(const std::string& configured,
                                              const std::string& state_dir);

// Reads the three files. NotFound: the folder or one of them is not there; says which and what
// makes it.
absl::StatusOr<Credentials> ReadCredentials(const std::string& folder);
// Makes the folder (for its owner alone) if need be; the key first, the certificate last.
absl::Status WriteCredentials(const std::string& folder, const Credentials& credentials);

// Reads and checks them: a pair, of the authority, valid now, with the identity among its names.
// FailedPrecondition: a sentence with the folder.
absl::StatusOr<CertificateInfo> CheckCredentials(const std::string& folder,
                                                 const Identity& identity, absl::Time now);

// A key, its certificate by the authority, and the authority's certificate.
absl::StatusOr<Credentials> MakeCredentials(const Authority& authority,
                                            const std::vector<Identity>& identities,
                                            const std::vector<std::string>& hosts,
                                            const Validity& validity);

// The authority of a folder, ca.crt and ca.key. NotFound; FailedPrecondition: a sentence with the
// folder.
absl::StatusOr<std::unique_ptr<Authority>> LoadAuthority(const std::string& folder);
// Likewise; a new one if there is no key. A key without ca.crt, as a process leaves it that ends
// between the two, gets its certificate: it may have been given, so it is kept.
absl::StatusOr<std::unique_ptr<Authority>> LoadOrMakeAuthority(const std::string& folder,
                                                               absl::Time now);

// When a file was last changed, in a form that also changes when a link is turned elsewhere.
struct FileStamp {
  uint64_t inode = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);  // of one that is not there: FileStamp()

// When two thirds of the certificate's life have passed.
absl::Time RenewalDue(const CertificateInfo& certificate);

// The addresses under which a server on this machine is reached, if it listens on `host`: that,
// loopback's and the machine's name.
std::vector<std::string> HostsOfThisMachine(std::string_view host);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CREDENTIALS_H_
