#ifndef LONGWAVE_COMMON_RPC_CALL_GUARD_H_
#define LONGWAVE_COMMON_RPC_CALL_GUARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/silent_connections.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "common/security/refusals.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: who is calling, and whether he may. A guard without a book lets
// everybody do everything. Thread-safe; copies share the book.
class CallGuard {
 public:
  // Why the holder of a certificate may not act for those that it names, if so.
  using Admit = std::function<std::optional<CallRefusal>(const CertificateInfo&)>;

  CallGuard() = default;
  CallGuard(std::unique_ptr<CallerBook> book, Refusals* refusals)
      : book_(std::move(book)),
        watch_(std::make_shared<SilenceWatch>(refusals)),
        refusals_(refusals) {}

  void SetAdmit(Admit admit) { admit_ = std::move(admit); }
  bool is_on() const { return book_ != nullptr; }
  // From now on connections to this address that make no call are counted.
  void WatchAddress(ListenAddress local) const {
    if (watch_ != nullptr) watch_->Begin(std::move(local));
  }

  // OK, and the caller's certificate if it is wanted; or why not, noted already.
  absl::Status Check(const grpc::ServerContext& context, std::string_view call,
                     const CallRights& rights, CertificateInfo* caller = nullptr) const;
  // Such a check as a function of the context.
  auto By(const char* call, CallKind kind) const {
    return [this, call, rights = CallRights{kind, {}}](const grpc::ServerContext& context) {
      return Check(context, call, rights);
    };
  }
  // A refusal that was decided elsewhere.
  void Note(const grpc::ServerContext& context, Refusal reason, absl::string_view sentence) const;

 private:
  std::shared_ptr<CallerBook> book_;
  std::shared_ptr<SilenceWatch> watch_;
  Refusals* refusals_ = nullptr;
  Admit admit_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CALL_GUARD_H_
