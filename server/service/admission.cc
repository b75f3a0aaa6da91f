#include "server/service/admission.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/log/log.h"
#include "common/security/credentials.h"
#include "common/security/token.h"

namespace longwave {
namespace {

std::string In(const std::string& folder, const char* file) {
  return absl::StrCat(folder, "/", file);
}

std::string SubjectOf(const Identity& identity) {
  return identity.role == Role::kShard ? absl::StrCat("shard/", identity.shard)
                                       : absl::StrCat("worker/", identity.worker);
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsThere(const std::string& path) { return !absl::IsNotFound(ReadTextFile(path).status()); }

// The authority of the folder: null if its key is not there, a new one if nothing is.
absl::StatusOr<std::unique_ptr<Authority>> OpenAuthority(const std::string& folder,
                                                         const std::string& credentials) {
  const std::string certificate_file = In(folder, kAuthorityFile);
  const std::string key_file = In(folder, kAuthorityKeyFile);
  if (IsThere(key_file)) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::string certificate, ReadTextFile(certificate_file));
    LONGWAVE_ASSIGN_OR_RETURN(const std::string key, ReadTextFile(key_file));
    auto authority = Authority::Load(certificate, key);
    if (authority.ok()) return authority;
    return absl::FailedPreconditionError(
        absl::StrCat("authority in ", folder, ": ", authority.status().message()));
  }
  if (IsThere(certificate_file) || IsThere(In(credentials, kAuthorityFile)))
    return std::unique_ptr<Authority>();
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Authority> authority,
                            Authority::Make("longwave authority", absl::Now()));
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(folder));
  LONGWAVE_RETURN_IF_ERROR(WriteTextFile(key_file, authority->key(), Secrecy::kSecret));
  LONGWAVE_RETURN_IF_ERROR(
      WriteTextFile(certificate_file, authority->certificate(), Secrecy::kPublic));
  Log(LogLevel::kInfo, absl::StrCat("made the run's authority in ", folder));
  return authority;
}

absl::Status MakeOwnCredentials(const Admission::Options& options, const Authority& authority,
                                const Validity& validity) {
  const std::string operator_folder = In(options.credentials, "operator");
  for (const auto& [folder, identity] : {std::pair{options.credentials, CoordinatorIdentity()},
                                         std::pair{operator_folder, OperatorIdentity()}}) {
    if (IsThere(In(folder, kCertificateFile)) &&
        CheckCredentials(folder, identity, absl::Now()).ok())
      continue;
    const bool is_server = identity.role == Role::kCoordinator;
    LONGWAVE_ASSIGN_OR_RETURN(
        const Credentials credentials,
        MakeCredentials(
            authority, {identity},
            is_server ? HostsOfThisMachine(HostOf(options.address)) : std::vector<std::string>(),
            validity));
    LONGWAVE_RETURN_IF_ERROR(WriteCredentials(folder, credentials));
  }
  return absl::OkStatus();
}

absl::StatusOr<AdmissionBook> ReadBook(const std::string& file) {
  if (file.empty()) return AdmissionBook();
  const absl::StatusOr<std::string> bytes = ReadTextFile(file);
  if (absl::IsNotFound(bytes.status())) return AdmissionBook();
  LONGWAVE_RETURN_IF_ERROR(bytes.status());
  auto book = AdmissionBook::Decode(std::as_bytes(std::span(bytes->data(), bytes->size())));
  if (book.ok()) return book;
  return absl::Status(book.status().code(), absl::StrCat(file, ": ", book.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Admission>> Admission::Open(const Options& given) {
  Options options = given;
  if (options.authority.empty()) options.authority = options.credentials;
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Authority> authority,
                            OpenAuthority(options.authority, options.credentials));
  LONGWAVE_ASSIGN_OR_RETURN(AdmissionBook book, ReadBook(options.book_file));
  std::unique_ptr<Admission> admission(
      new Admission(options, std::move(authority), std::move(book)));
  if (admission->authority_ != nullptr) {
    LONGWAVE_RETURN_IF_ERROR(
        MakeOwnCredentials(options, *admission->authority_, admission->NewValidity()));
  }
  LONGWAVE_RETURN_IF_ERROR(
      CheckCredentials(options.credentials, CoordinatorIdentity(), absl::Now()).status());
  return admission;
}

Validity Admission::NewValidity() const {
  return {absl::Now(), absl::Seconds(options_.config.security.certificate_life_s)};
}

absl::Status Admission::CheckAuthority() const {
  if (authority_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this coordinator cannot issue certificates: it has its authority's certificate "
                   "but not its key, wanted ca.key in ",
                   options_.authority, " (security.authority)"));
}

absl::StatusOr<std::string> Admission::GetAuthority() const {
  LONGWAVE_RETURN_IF_ERROR(CheckAuthority());
  return authority_->certificate();
}

absl::StatusOr<JoinAnswer> Admission::Join(const JoinWish& wish, bool is_taken,
                                           std::optional<Manifest> manifest) {
  LONGWAVE_RETURN_IF_ERROR(CheckAuthority());
  LONGWAVE_ASSIGN_OR_RETURN(const Token token, ParseToken(wish.token));
  LONGWAVE_ASSIGN_OR_RETURN(const Fingerprint key, ReadRequest(wish.request));
  const std::string subject = SubjectOf(wish.subject);
  {
    const std::lock_guard lock(mutex_);
    AdmissionBook next = book_;
    LONGWAVE_RETURN_IF_ERROR(
        next.Redeem(token.id, Sha256(token.secret), subject, key, is_taken, absl::Now()));
    if (!(next == book_)) LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  }
  // Where this process keeps its own is nobody else's business.
  RunConfig shown = options_.config;
  shown.security.mode = "on";
  shown.security.folder.clear();
  shown.security.authority.clear();
  JoinAnswer answer{.authority = authority_->certificate(),
                    .configuration = FormatConfig(shown),
                    .manifest = std::move(manifest)};
  // Only servers are looked for by name.
  const bool is_server = wish.subject.role == Role::kShard;
  LONGWAVE_ASSIGN_OR_RETURN(
      answer.certificate,
      authority_->Issue(wish.request, {wish.subject},
                        is_server ? wish.hosts : std::vector<std::string>(), NewValidity()));
  Log(LogLevel::kInfo, absl::StrCat(Describe(wish.subject), " joined with token ", token.id));
  return answer;
}

absl::StatusOr<std::string> Admission::RenewCertificate(const std::vector<Identity>& caller,
                                                        const std::string& request) {
  LONGWAVE_RETURN_IF_ERROR(CheckAuthority());
  std::vector<Identity> identities = caller;
  std::erase_if(identities, [this](const Identity& identity) { return !Admit({identity}).ok(); });
  return authority_->Issue(request, identities, {}, NewValidity());
}

absl::StatusOr<NewToken> Admission::CreateToken(const TokenWish& wish) {
  LONGWAVE_RETURN_IF_ERROR(CheckAuthority());
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::byte> chance, RandomBytes(24));
  const Token token{.id = Base32(std::span(chance).first(7), Token::kIdChars),
                    .secret = Base32(std::span(chance).subspan(7), Token::kSecretChars),
                    .authority = TokenFingerprint(authority_->info())};
  const std::lock_guard lock(mutex_);
  AdmissionBook next = book_;
  LONGWAVE_RETURN_IF_ERROR(
      next.Create(token.id, Sha256(token.secret), wish.subject, wish.life, wish.uses, absl::Now()));
  LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  Log(LogLevel::kInfo,
      absl::StrCat("token ", token.id, " made for ", wish.subject, ", ", wish.uses,
                   wish.uses == 1 ? " use, " : " uses, ", absl::FormatDuration(wish.life)));
  return NewToken{FormatToken(token), token.id};
}

absl::StatusOr<TokenList> Admission::ListTokens() const {
  const std::lock_guard lock(mutex_);
  const absl::Time now = absl::Now();
  TokenList list;
  for (const auto& [id, token] : book_.tokens()) {
    TokenStatus status{.id = id,
                       .subject = token.subject,
                       .expires_in = token.expires - now,
                       .uses = token.uses,
                       .used = static_cast<uint32_t>(token.joined.size()),
                       .revoked = token.revoked};
    for (const auto& [subject, key] : token.joined) status.joined.push_back(subject);
    list.tokens.push_back(std::move(status));
  }
  list.expelled.assign(book_.expelled().begin(), book_.expelled().end());
  return list;
}

absl::Status Admission::RevokeToken(const std::string& id) {
  const std::lock_guard lock(mutex_);
  AdmissionBook next = book_;
  LONGWAVE_RETURN_IF_ERROR(next.Revoke(id));
  LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  Log(LogLevel::kInfo, absl::StrCat("token ", id, " revoked"));
  return absl::OkStatus();
}

absl::Status Admission::Expel(const std::string& worker, bool undo) {
  LONGWAVE_RETURN_IF_ERROR(ParseIdentity(absl::StrCat("worker/", worker)).status());
  const std::lock_guard lock(mutex_);
  AdmissionBook next = book_;
  if (undo) {
    LONGWAVE_RETURN_IF_ERROR(next.Readmit(worker));
  } else {
    next.Expel(worker);
  }
  LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  Log(LogLevel::kWarning, absl::StrCat(Describe(WorkerIdentity(worker)),
                                       undo ? " may take part again" : " was expelled"));
  return absl::OkStatus();
}

absl::Status Admission::Admit(const std::vector<Identity>& caller) const {
  const std::lock_guard lock(mutex_);
  const bool all_expelled =
      !caller.empty() && std::all_of(caller.begin(), caller.end(), [this](const Identity& one) {
        return one.role == Role::kWorker && book_.IsExpelled(one.worker);
      });
  if (!all_expelled) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(Describe(caller.front()), " was expelled from this run"));
}

absl::Status Admission::Keep(AdmissionBook next) {
  if (!options_.book_file.empty()) {
    const std::vector<std::byte> bytes = next.Encode();
    const absl::Status written =
        WriteTextFile(options_.book_file,
                      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                      Secrecy::kSecret);
    // Nobody hears of what is not on the disk; who asks again may.
    if (!written.ok()) return absl::UnavailableError(written.message());
  }
  book_ = std::move(next);
  return absl::OkStatus();
}

}  // namespace longwave
