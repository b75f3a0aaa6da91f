#ifndef LONGWAVE_COMMON_RPC_CALL_GUARD_H_
#define LONGWAVE_COMMON_RPC_CALL_GUARD_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/security/call_policy.h"
#include "common/security/identity.h"
#include "common/security/refusals.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: who is calling, and whether he may. A guard without a book lets
// everybody do everything. Thread-safe; copies share the book.
class CallGuard {
 public:
  // Whether those whom a caller acts for may take part at all; not OK: expelled.
  using Admit = std::function<absl::Status(const std::vector<Identity>&)>;

  CallGuard() = default;
  CallGuard(std::unique_ptr<CallerBook> book, Refusals* refusals)
      : book_(std::move(book)), refusals_(refusals) {}

  void SetAdmit(Admit admit) { admit_ = std::move(admit); }
  bool is_on() const { return book_ != nullptr; }

  // OK, and the caller's identities if they are wanted; or why not, noted already.
  absl::Status Check(const grpc::ServerContext& context, std::string_view call,
                     const CallRights& rights, std::vector<Identity>* caller = nullptr) const;
  // A refusal that was decided elsewhere.
  void Note(const grpc::ServerContext& context, Refusal reason, absl::string_view sentence) const;

 private:
  std::shared_ptr<CallerBook> book_;
  Refusals* refusals_ = nullptr;
  Admit admit_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CALL_GUARD_H_
