#include "server/service/admission.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/log/log.h"
#include "common/security/credentials.h"
#include "common/security/token.h"

namespace longwave {
namespace {

// Holders renew their certificates now and then; certificates not presented lately are forgotten.
constexpr size_t kSharedCertificatesMax = 1024;

// "a, b, c and 61 others".
std::string Names(const std::vector<std::string>& names) {
  constexpr size_t kShownMax = 8;
  const size_t shown = std::min(names.size(), kShownMax);
  const std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  return shown == names.size() ? text
                               : absl::StrCat(text, " and ", names.size() - shown, " others");
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// The certificates that the run trusts now.
struct Trusted {
  std::string certificates;
  std::unique_ptr<Trust> trust;

  bool Trusts(const std::string& certificate) const {
    return trust->Verify(certificate, absl::Now()).ok();
  }
};
absl::StatusOr<Trusted> ReadTrusted(const std::string& credentials) {
  Trusted trusted;
  LONGWAVE_ASSIGN_OR_RETURN(const std::string text,
                            ReadTextFile(FileIn(credentials, kAuthorityFile)));
  LONGWAVE_ASSIGN_OR_RETURN(trusted.certificates, CertificatesAlone(text));
  LONGWAVE_ASSIGN_OR_RETURN(trusted.trust, Trust::Create(trusted.certificates));
  return trusted;
}

absl::Status MakeOwnCredentials(const Admission::Options& options, const Authority& authority,
                                const Validity& validity) {
  const std::string operator_folder = FileIn(options.credentials, "operator");
  for (const auto& [folder, identity] : {std::pair{options.credentials, CoordinatorIdentity()},
                                         std::pair{operator_folder, OperatorIdentity()}}) {
    if (FileIsThere(FileIn(folder, kCertificateFile)) &&
        CheckCredentials(folder, identity, absl::Now()).ok())
      continue;
    const bool is_server = identity.role == Role::kCoordinator;
    LONGWAVE_ASSIGN_OR_RETURN(
        Credentials credentials,
        MakeCredentials(
            authority, {identity},
            is_server ? HostsOfThisMachine(HostOf(options.address)) : std::vector<std::string>(),
            validity));
    // While one authority replaces another, ca.crt has both.
    if (auto trusted = ReadTrusted(options.credentials);
        trusted.ok() && trusted->Trusts(credentials.certificate)) {
      credentials.authority = trusted->certificates;
    }
    const absl::Status written = WriteCredentials(folder, credentials);
    if (is_server || written.ok()) {
      LONGWAVE_RETURN_IF_ERROR(written);
      continue;
    }
    // The folder may be mounted, and its owner makes an operator's credentials elsewhere.
    Log(LogLevel::kInfo, "no operator's credentials are made here: ", written.message());
  }
  return absl::OkStatus();
}

// Leaves out the admitted names.
TokenStatus StatusOf(const TokenRecord& token, absl::Time now) {
  return {.id = token.id,
          .subject = token.subject,
          .expires_in_seconds = absl::ToDoubleSeconds(token.expires - now),
          .uses = token.uses,
          .used = static_cast<uint32_t>(token.joined.size()),
          .revoked = token.revoked,
          .joined = {}};
}

constexpr absl::string_view kBookFile = "admission";

absl::StatusOr<AdmissionBook> ReadBook(const std::string& folder) {
  if (folder.empty()) return AdmissionBook();
  const std::string path = JoinPath(folder, kBookFile);
  absl::StatusOr<AdmissionBook> book = ReadUntilSure([&]() -> absl::StatusOr<AdmissionBook> {
    LONGWAVE_ASSIGN_OR_RETURN(const Buffer bytes,
                              ReadWhole(*MakePosixFileSystem(), path, AdmissionBook::kBytesMax));
    auto decoded = AdmissionBook::Decode(bytes.bytes());
    return decoded.ok() ? std::move(decoded) : Prefixed(path, decoded.status());
  });
  if (absl::IsNotFound(book.status())) return AdmissionBook();
  return book;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Admission>> Admission::Open(const Options& given) {
  Options options = given;
  if (options.authority.empty()) options.authority = options.credentials;
  LONGWAVE_ASSIGN_OR_RETURN(
      std::unique_ptr<FollowedAuthority> authority,
      FollowedAuthority::Open(options.authority, options.credentials, options.clock));
  LONGWAVE_ASSIGN_OR_RETURN(AdmissionBook book, ReadBook(options.book_folder));
  std::unique_ptr<Admission> admission(
      new Admission(options, std::move(authority), std::move(book)));
  if (const auto signer = admission->authority_->Get(); signer != nullptr) {
    LONGWAVE_RETURN_IF_ERROR(MakeOwnCredentials(options, *signer, admission->NewValidity()));
  }
  LONGWAVE_RETURN_IF_ERROR(
      CheckCredentials(options.credentials, CoordinatorIdentity(), absl::Now()).status());
  return admission;
}

Validity Admission::NewValidity() const {
  return {absl::Now(), absl::Seconds(options_.config.security.certificate_life_s)};
}

absl::StatusOr<std::shared_ptr<const Authority>> Admission::Signer() const {
  std::shared_ptr<const Authority> authority = authority_->Get();
  if (authority == nullptr) {
    return FailedPrecondition(
        "this coordinator cannot issue certificates: it has its authority's certificate "
        "but not its key, wanted ca.key in ",
        options_.authority, " (security.authority)");
  }
  // A certificate that nothing trusts must not replace a valid one.
  LONGWAVE_ASSIGN_OR_RETURN(const Trusted trusted, ReadTrusted(options_.credentials));
  if (trusted.Trusts(authority->certificate())) return authority;
  return FailedPrecondition(
      "this coordinator cannot issue certificates: ca.key in ", options_.authority,
      " is of the authority ", Hex(std::span(authority->info().fingerprint).first(6)), ", which ",
      FileIn(options_.credentials, kAuthorityFile),
      " does not trust; wanted the key of one that it does (security.authority)");
}

absl::StatusOr<std::string> Admission::GetAuthority() const {
  LONGWAVE_ASSIGN_OR_RETURN(const auto signer, Signer());
  return signer->certificate();
}

absl::Status Admission::CheckToken(const std::string& text) const {
  LONGWAVE_ASSIGN_OR_RETURN(const Token token, ParseToken(text));
  const KeyHash secret = Sha256(token.secret);
  const std::lock_guard lock(mutex_);
  return book_.CheckToken(token.id, secret, absl::Now());
}

absl::StatusOr<JoinAnswer> Admission::Join(const JoinWish& wish, bool is_taken,
                                           std::optional<Manifest> manifest) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto signer, Signer());
  LONGWAVE_RETURN_IF_ERROR(CheckToken(wish.token));
  LONGWAVE_ASSIGN_OR_RETURN(const Token token, ParseToken(wish.token));
  LONGWAVE_ASSIGN_OR_RETURN(const Fingerprint key, ReadRequest(wish.request));
  const std::string subject = SubjectOf(wish.subject);
  {
    const std::lock_guard changing(changing_);
    AdmissionBook next = book_;
    LONGWAVE_RETURN_IF_ERROR(
        next.Redeem(token.id, Sha256(token.secret), subject, key, is_taken, absl::Now()));
    if (!(next == book_)) LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  }
  RunConfig shown = ShownToOthers(options_.config);
  shown.security.mode = "on";
  // The run may trust more authorities than the one that signs.
  LONGWAVE_ASSIGN_OR_RETURN(Trusted trusted, ReadTrusted(options_.credentials));
  JoinAnswer answer{.authority = std::move(trusted.certificates),
                    .configuration = FormatConfig(shown),
                    .manifest = std::move(manifest)};
  // Only servers are addressed by host name.
  const bool is_server = wish.subject.role == Role::kShard;
  LONGWAVE_ASSIGN_OR_RETURN(
      answer.certificate,
      signer->Issue(wish.request, {wish.subject},
                    is_server ? wish.hosts : std::vector<std::string>(), NewValidity()));
  Log(LogLevel::kInfo, Describe(wish.subject), " joined with token ", token.id);
  return answer;
}

absl::StatusOr<std::string> Admission::RenewCertificate(const CertificateInfo& caller,
                                                        const std::string& request) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto signer, Signer());
  // A stolen certificate must not outlive its time, and owners of these can renew without a call.
  for (const Identity& identity : caller.identities) {
    if (identity.role != Role::kOperator && identity.role != Role::kCoordinator) continue;
    return PermissionDenied(
        "a certificate that names ", Describe(identity), " is not renewed by a call; wanted one ",
        "that the coordinator has renewed in its own folder, or that was made anew");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const Fingerprint key, ReadRequest(request));
  if (key != caller.key_fingerprint) {
    return PermissionDenied(
        "the request by ", Describe(caller.identities),
        " is for another key than the caller's certificate; wanted the same: another "
        "key is certified by joining with a token");
  }
  std::vector<Identity> identities = caller.identities;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(identities, [&](const Identity& named) {
      return RefuseName(book_.names(), named, key).has_value();
    });
  }
  return signer->Issue(request, identities, caller.hosts, NewValidity());
}

absl::StatusOr<std::string> Admission::RenewOwn(const Identity& identity, const std::string& folder,
                                                const std::string& request) const {
  LONGWAVE_ASSIGN_OR_RETURN(const auto signer, Signer());
  LONGWAVE_ASSIGN_OR_RETURN(const std::string known,
                            ReadTextFile(FileIn(folder, kCertificateFile)));
  LONGWAVE_ASSIGN_OR_RETURN(const CertificateInfo info, ReadCertificate(known));
  return signer->Issue(request, {identity}, info.hosts, NewValidity());
}

absl::StatusOr<NewToken> Admission::CreateToken(const TokenWish& wish) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto signer, Signer());
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::byte> chance, RandomBytes(24));
  const Token token{.id = Base32(std::span(chance).first(7), Token::kIdChars),
                    .secret = Base32(std::span(chance).subspan(7), Token::kSecretChars),
                    .authority = TokenFingerprint(signer->info())};
  const std::lock_guard changing(changing_);
  AdmissionBook next = book_;
  LONGWAVE_RETURN_IF_ERROR(
      next.Create(token.id, Sha256(token.secret), wish.subject, wish.life, wish.uses, absl::Now()));
  LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  Log(LogLevel::kInfo, "token ", token.id, " made for ", wish.subject, ", ", wish.uses,
      wish.uses == 1 ? " use, " : " uses, ", absl::FormatDuration(wish.life));
  return NewToken{FormatToken(token), token.id};
}

absl::StatusOr<TokenList> Admission::ListTokens() const {
  const std::lock_guard lock(mutex_);
  const absl::Time now = absl::Now();
  TokenList list;
  for (const auto& [id, token] : book_.tokens()) {
    TokenStatus status = StatusOf(token, now);
    for (const auto& [subject, key] : token.joined) status.joined.push_back(subject);
    list.tokens.push_back(std::move(status));
  }
  list.expelled.assign(book_.names().expelled.begin(), book_.names().expelled.end());
  return list;
}

absl::Status Admission::RevokeToken(const std::string& id) {
  const std::lock_guard changing(changing_);
  AdmissionBook next = book_;
  LONGWAVE_RETURN_IF_ERROR(next.Revoke(id));
  LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  Log(LogLevel::kInfo, "token ", id, " revoked");
  return absl::OkStatus();
}

std::vector<std::string> Admission::NamedBeside(const std::string& worker) const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> beside;
  for (const auto& [certificate, workers] : shared_) {
    if (std::ranges::find(workers, worker) == workers.end()) continue;
    // A certificate that is already refused costs no further worker its place.
    if (std::ranges::any_of(
            workers, [this](const std::string& name) { return book_.names().IsExpelled(name); }))
      continue;
    beside.insert(workers.begin(), workers.end());
  }
  beside.erase(worker);
  return {beside.begin(), beside.end()};
}

absl::StatusOr<Expulsion> Admission::Expel(const std::string& worker, bool undo, bool whole) {
  LONGWAVE_RETURN_IF_ERROR(ParseIdentity(absl::StrCat("worker/", worker)).status());
  const std::string who = Describe(WorkerIdentity(worker));
  const std::lock_guard changing(changing_);
  AdmissionBook next = book_;
  if (undo) {
    // Without the authority's key there are no tokens to join with again.
    const bool by_token = authority_->Get() != nullptr;
    LONGWAVE_RETURN_IF_ERROR(next.Readmit(worker, by_token));
    LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
    Log(LogLevel::kWarning, who,
        by_token ? " may join again, with a new token" : " may take part again");
    return Expulsion();
  }
  const std::vector<std::string> beside = NamedBeside(worker);
  if (!beside.empty() && !whole) {
    return FailedPrecondition(
        who, " comes with a certificate that names ", Names(beside),
        " too: its holder could be any of them, so that all of them would be expelled with it; "
        "wanted --all-of-it (longwave expel), or a certificate for each worker alone");
  }
  const std::vector<std::string> ids = next.Expel(worker);
  LONGWAVE_RETURN_IF_ERROR(Keep(std::move(next)));
  Log(LogLevel::kWarning, who, " was expelled",
      beside.empty() ? "" : ", and with it who has its certificate: ", Names(beside),
      ids.empty() ? "" : ", and revoked what it had joined with: token ",
      absl::StrJoin(ids, ", token "));
  Expulsion expulsion;
  for (const std::string& id : ids)
    expulsion.revoked.push_back(StatusOf(book_.tokens().at(id), absl::Now()));
  expulsion.also_joined = book_.JoinedBeside(worker, kAlsoJoinedMax);
  return expulsion;
}

std::optional<CallRefusal> Admission::Admit(const CertificateInfo& caller) {
  const std::lock_guard lock(mutex_);
  if (caller.identities.size() > 1 && !shared_.contains(caller.fingerprint)) {
    std::vector<std::string> workers;
    for (const Identity& identity : caller.identities) {
      if (identity.role == Role::kWorker) workers.push_back(identity.worker);
    }
    if (workers.size() > 1) {
      if (shared_.size() >= kSharedCertificatesMax) shared_.clear();
      shared_[caller.fingerprint] = std::move(workers);
    }
  }
  return RefuseHolder(book_.names(), caller);
}

absl::Status Admission::CheckWorker(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (!book_.names().IsExpelled(name)) return absl::OkStatus();
  return RefuseExpelled(WorkerIdentity(name)).status;
}

std::set<std::string> Admission::Expelled() const {
  const std::lock_guard lock(mutex_);
  return book_.names().expelled;
}

std::optional<CallerNames> Admission::NewerNames(uint64_t known_version) const {
  const std::lock_guard lock(mutex_);
  if (known_version == names_version_) return std::nullopt;
  CallerNames names{
      names_version_, {book_.names().expelled.begin(), book_.names().expelled.end()}, {}};
  for (const auto& [subject, key] : book_.names().owners) names.owners.push_back({subject, key});
  return names;
}

absl::Status Admission::Keep(AdmissionBook next) {
  // A book that is too large could not be read back.
  if (const size_t bytes = next.EncodedBytes(); bytes > AdmissionBook::kBytesMax) {
    return ResourceExhausted("the book of tokens would have ", bytes, " bytes, wanted at most ",
                             AdmissionBook::kBytesMax);
  }
  if (!options_.book_folder.empty()) {
    const std::vector<std::byte> bytes = next.Encode();
    const std::array<std::span<const std::byte>, 1> pieces = {bytes};
    const absl::Status written = Publish(*files_, options_.book_folder, kBookFile, pieces);
    // Callers hear only of changes on the disk. A retry may succeed.
    if (!written.ok()) return Unavailable(written.message());
  }
  const std::lock_guard lock(mutex_);
  if (next.names() != book_.names()) ++names_version_;
  book_ = std::move(next);
  return absl::OkStatus();
}

}  // namespace longwave
