#include "server/service/expelled_list.h"

#include "common/security/identity.h"

namespace longwave {

void ExpelledList::Set(const ExpelledWorkers& expelled) {
  const std::lock_guard lock(mutex_);
  version_ = expelled.version;
  names_ = {expelled.names.begin(), expelled.names.end()};
}

uint64_t ExpelledList::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::optional<CallRefusal> ExpelledList::Admit(const CertificateInfo& caller) const {
  const std::lock_guard lock(mutex_);
  std::optional<CallRefusal> refusal;
  for (const Identity& identity : caller.identities) {
    if (identity.role != Role::kWorker || !names_.contains(identity.worker)) return std::nullopt;
    if (!refusal) refusal = RefuseExpelled(identity);
  }
  return refusal;
}

}  // namespace longwave
