#ifndef LONGWAVE_COMMON_RPC_CALL_GUARD_H_
#define LONGWAVE_COMMON_RPC_CALL_GUARD_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/log/refusals.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "grpcpp/grpcpp.h"
#include "longwave/v1/limits.pb.h"

namespace longwave {

// Private to this folder: identifies a caller and checks its rights. A guard without a book permits
// every call. Thread-safe; copies share the book.
class CallGuard {
 public:
  // Whether the holder of a certificate may act for the certificate's names; the reason if not.
  using Admit = std::function<std::optional<CallRefusal>(const CertificateInfo&)>;

  CallGuard() = default;
  CallGuard(std::unique_ptr<CallerBook> book, Refusals* refusals)
      : book_(std::move(book)), refusals_(refusals) {}

  void SetAdmit(Admit admit) { admit_ = std::move(admit); }
  // Whether a token of this run is good.
  void SetTokenCheck(std::function<absl::Status(const std::string&)> check) {
    check_token_ = std::move(check);
  }
  bool is_on() const { return book_ != nullptr; }

  // OK, with the caller's certificate if wanted; or the refusal, which is already noted.
  absl::Status Check(const grpc::ServerContext& context, std::string_view call,
                     const CallRights& rights, CertificateInfo* caller = nullptr) const;
  // Whether to read the request of the call, as far as that can be decided without it. A refusal
  // is noted.
  absl::Status LetIn(const grpc::ServerContext& context, std::string_view call,
                     const v1::CallOptions& options) const;
  // Notes a refusal that was decided elsewhere.
  void Note(const grpc::ServerContext& context, Refusal reason, absl::string_view sentence) const;

 private:
  std::shared_ptr<CallerBook> book_;
  Refusals* refusals_ = nullptr;
  Admit admit_;
  std::function<absl::Status(const std::string&)> check_token_;
};

// The token that came before a request; "": none.
std::string TokenOf(const grpc::ServerContext& context);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CALL_GUARD_H_
