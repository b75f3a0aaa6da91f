#include "common/rpc/call_guard.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longwave {
namespace {

// The caller's own certificate, or the others that it has shown; "": none.
std::string Shown(const grpc::ServerContext& context, const char* property) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return "";
  std::string shown;
  for (const grpc::string_ref& pem : auth->FindPropertyValues(property))
    shown.append(pem.data(), pem.size());
  return shown;
}

}  // namespace

absl::Status CallGuard::Check(const grpc::ServerContext& context, std::string_view call,
                              const CallRights& rights, CertificateInfo* caller) const {
  if (!is_on()) return absl::OkStatus();
  watch_->Heard(context.peer());
  if (rights.kind == CallKind::kAnyone) return absl::OkStatus();
  const std::string own = Shown(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  CallerBook::Caller who =
      book_->Look(own, own + Shown(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME), absl::Now());
  std::optional<CallRefusal> refusal = std::move(who.refusal);
  if (!refusal) refusal = CheckCall(call, rights, who.certificate.identities);
  if (!refusal && admit_) {
    refusal = admit_(who.certificate);
    // Who acts as one of several is held against what is known of that one, too.
    if (!refusal && rights.kind == CallKind::kSubject && who.certificate.identities.size() > 1) {
      CertificateInfo acting = who.certificate;
      acting.identities = {rights.subject};
      refusal = admit_(acting);
    }
  }
  if (refusal) {
    Note(context, refusal->reason, refusal->status.message());
    return refusal->status;
  }
  if (caller != nullptr) *caller = std::move(who.certificate);
  return absl::OkStatus();
}

void CallGuard::Note(const grpc::ServerContext& context, Refusal reason,
                     absl::string_view sentence) const {
  if (refusals_ == nullptr) return;
  refusals_->Note(reason, sentence, PeerOfGrpc(context.peer()));
}

}  // namespace longwave
