#include "common/rpc/call_guard.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/support/server_interceptor.h"

namespace longwave {
namespace {

// The certificates that the caller has shown, its own first; "": none.
std::string ChainOf(const grpc::ServerContext& context) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return "";
  std::string chain;
  for (const char* const property :
       {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const grpc::string_ref& pem : auth->FindPropertyValues(property))
      chain.append(pem.data(), pem.size());
  }
  return chain;
}

// Hears of calls where gRPC's own services do, which come by nothing else of ours.
class Ear final : public grpc::experimental::Interceptor {
 public:
  Ear(std::shared_ptr<SilenceWatch> watch, const grpc::ServerContextBase* context)
      : watch_(std::move(watch)), context_(context) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_INITIAL_METADATA))
      watch_->Heard(context_->peer());
    methods->Proceed();
  }

 private:
  const std::shared_ptr<SilenceWatch> watch_;
  const grpc::ServerContextBase* const context_;
};

class EarFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit EarFactory(std::shared_ptr<SilenceWatch> watch) : watch_(std::move(watch)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new Ear(watch_, info->server_context());
  }

 private:
  const std::shared_ptr<SilenceWatch> watch_;
};

}  // namespace

void HearCalls(std::shared_ptr<SilenceWatch> watch, grpc::ServerBuilder& builder) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> ears;
  ears.push_back(std::make_unique<EarFactory>(std::move(watch)));
  builder.experimental().SetInterceptorCreators(std::move(ears));
}

absl::Status CallGuard::Check(const grpc::ServerContext& context, std::string_view call,
                              const CallRights& rights, CertificateInfo* caller) const {
  if (!is_on()) return absl::OkStatus();
  if (rights.kind == CallKind::kAnyone) return absl::OkStatus();
  CallerBook::Caller who = book_->Look(ChainOf(context), absl::Now());
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
