#include "common/rpc/call_guard.h"

#include <memory>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/rpc/channel.h"

namespace longwave {
namespace {

// The caller's own certificate, or the chain that it sent; "" if none.
std::string Shown(const grpc::ServerContext& context, const char* property) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return "";
  std::string shown;
  for (const grpc::string_ref& pem : auth->FindPropertyValues(property))
    shown.append(pem.data(), pem.size());
  return shown;
}

// gRPC's "ipv4:1.2.3.4:5" and "ipv6:%5B::1%5D:5" in the form for people.
std::string PeerOf(const grpc::ServerContext& context) {
  const std::string text = context.peer();
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "ipv4:")) absl::ConsumePrefix(&rest, "ipv6:");
  return absl::StrReplaceAll(rest, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace

absl::Status CallGuard::Check(const grpc::ServerContext& context, std::string_view call,
                              const CallRights& rights, CertificateInfo* caller) const {
  if (!is_on()) return absl::OkStatus();
  if (rights.kind == CallKind::kAnyone) return absl::OkStatus();
  const std::string own = Shown(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  CallerBook::Caller who =
      book_->Look(own, own + Shown(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME), absl::Now());
  std::optional<CallRefusal> refusal = std::move(who.refusal);
  if (!refusal) refusal = CheckCall(call, rights, who.certificate.identities);
  if (!refusal && admit_) {
    refusal = admit_(who.certificate);
    // A caller that acts as one of several identities is also checked for that one.
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

absl::Status CallGuard::LetIn(const grpc::ServerContext& context, std::string_view call,
                              const v1::CallOptions& options) const {
  if (options.admission() && !is_on()) {
    return FailedPrecondition(
        "this run is not secured (security.mode off, or auto on loopback): nobody needs a token or "
        "a certificate, and nobody can be kept out");
  }
  switch (options.caller()) {
    case v1::ANYBODY:
      return Check(context, call, {CallKind::kAnyone, {}});
    case v1::TOKEN: {
      const absl::Status status = check_token_(TokenOf(context));
      if (!status.ok()) Note(context, Refusal::kToken, status.message());
      return status;
    }
    case v1::MEMBER:
    case v1::ITSELF:
    case v1::WORKER:  // A request is read from any member, to see whom it names.
    case v1::SHARD:
      return Check(context, call, {CallKind::kMember, {}});
    default:
      return Check(context, call, {CallKind::kOperator, {}});
  }
}

std::string TokenOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(kTokenKey);
  return found == context.client_metadata().end()
             ? ""
             : std::string(found->second.data(), found->second.size());
}

void CallGuard::Note(const grpc::ServerContext& context, Refusal reason,
                     absl::string_view sentence) const {
  if (refusals_ == nullptr) return;
  refusals_->Note(reason, sentence, PeerOf(context));
}

}  // namespace longwave
