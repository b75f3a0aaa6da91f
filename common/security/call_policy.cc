#include "common/security/call_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// The cache's size: a run with ten thousand workers, each renewed once. Further certificates are
// verified again.
constexpr size_t kKnownMax = 1 << 15;
constexpr absl::Duration kLookInterval = absl::Seconds(1);

bool Holds(const std::vector<Identity>& caller, const Identity& wanted) {
  return std::ranges::find(caller, wanted) != caller.end();
}

Refusal ReasonOf(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) return Refusal::kOtherAuthority;
  if (absl::IsOutOfRange(status)) return Refusal::kExpired;
  return Refusal::kBadCertificate;
}

CallerBook::Caller Refused(Refusal reason, absl::string_view why) {
  return {{}, CallRefusal{reason, Unauthenticated("the certificate of the caller ", why)}};
}

}  // namespace

std::optional<CallRefusal> CheckCall(std::string_view name, const CallRights& rights,
                                     const std::vector<Identity>& caller) {
  if (rights.kind == CallKind::kAnyone) return std::nullopt;
  if (caller.empty()) {
    return CallRefusal{
        Refusal::kNoCertificate,
        Unauthenticated(name, ": got a caller without a certificate, wanted one of this run's ",
                        "authority (longwave join, or security.folder)")};
  }
  const auto refuse = [&](const std::string& wanted) {
    return CallRefusal{Refusal::kWrongName,
                       PermissionDenied(name, ": got a certificate for ", Describe(caller),
                                        ", wanted one for ", wanted)};
  };
  switch (rights.kind) {
    case CallKind::kAnyone:
    case CallKind::kMember:
      return std::nullopt;
    case CallKind::kSubject:
      if (Holds(caller, rights.subject)) return std::nullopt;
      return refuse(Describe(rights.subject));
    case CallKind::kOperator:
      if (Holds(caller, OperatorIdentity()) || Holds(caller, CoordinatorIdentity()))
        return std::nullopt;
      break;
  }
  return refuse(Describe(OperatorIdentity()));
}

CallRefusal RefuseExpelled(const Identity& worker) {
  return {Refusal::kExpelled, PermissionDenied(Describe(worker), " was expelled from this run")};
}

std::optional<Fingerprint> KnownNames::OwnerOf(const std::string& subject) const {
  const auto found = owners.find(subject);
  return found == owners.end() ? std::nullopt : std::optional(found->second);
}

std::optional<CallRefusal> RefuseName(const KnownNames& names, const Identity& named,
                                      const Fingerprint& key) {
  if (named.role != Role::kWorker && named.role != Role::kShard) return std::nullopt;
  if (named.role == Role::kWorker && names.IsExpelled(named.worker)) return RefuseExpelled(named);
  const std::optional<Fingerprint> owner = names.OwnerOf(SubjectOf(named));
  if (!owner || *owner == key) return std::nullopt;
  return CallRefusal{
      Refusal::kWrongName,
      PermissionDenied(
          Describe(named),
          owner == kNoKey
              ? " was expelled, and may join again only with a new token; wanted that token"
              : " belongs to another key now, which joined under that name by token; wanted that "
                "key, or a new token for the name")};
}

std::optional<CallRefusal> RefuseHolder(const KnownNames& names,
                                        const CertificateInfo& certificate) {
  for (const Identity& named : certificate.identities) {
    if (named.role == Role::kWorker && names.IsExpelled(named.worker)) return RefuseExpelled(named);
  }
  std::optional<CallRefusal> refusal;
  for (const Identity& named : certificate.identities) {
    std::optional<CallRefusal> why = RefuseName(names, named, certificate.key_fingerprint);
    if (!why) return std::nullopt;
    if (!refusal) refusal = std::move(why);
  }
  return refusal;
}

absl::StatusOr<std::unique_ptr<CallerBook>> CallerBook::Open(const std::string& authority_file) {
  std::unique_ptr<CallerBook> book(new CallerBook(authority_file));
  LONGWAVE_RETURN_IF_ERROR(book->Reload());
  return book;
}

absl::Status CallerBook::Reload() {
  const FileStamp stamp = StampOf(file_);
  LONGWAVE_ASSIGN_OR_RETURN(const std::string pem, ReadTextFile(file_));
  absl::StatusOr<std::unique_ptr<Trust>> trust = Trust::Create(pem);
  if (!trust.ok()) {
    return absl::Status(trust.status().code(), absl::StrCat(file_, " ", trust.status().message()));
  }
  trust_ = *std::move(trust);
  stamp_ = stamp;
  known_.clear();
  return absl::OkStatus();
}

CallerBook::Caller CallerBook::Look(const std::string& certificate, const std::string& chain,
                                    absl::Time now) {
  if (certificate.empty()) return {};
  const Fingerprint fingerprint = Sha256(certificate);
  const std::lock_guard lock(mutex_);
  if (const absl::Time here = MonotonicNow(); here - looked_ >= kLookInterval) {
    looked_ = here;
    // A file that is unreadable for the moment leaves the known authority in place.
    if (StampOf(file_) != stamp_) Reload().IgnoreError();
  }
  auto known = known_.find(fingerprint);
  if (known == known_.end() || now > known->second.not_after || now < known->second.not_before) {
    absl::StatusOr<CertificateInfo> info = trust_->Verify(chain, now);
    if (!info.ok()) return Refused(ReasonOf(info.status()), info.status().message());
    if (info->identities.empty()) {
      return Refused(Refusal::kBadCertificate,
                     "names nobody of a run (a URI longwave:worker/NAME, longwave:shard/N, …)");
    }
    if (known_.size() >= kKnownMax) known_.clear();
    known = known_.insert_or_assign(fingerprint, *std::move(info)).first;
  }
  return {known->second, std::nullopt};
}

}  // namespace longwave
