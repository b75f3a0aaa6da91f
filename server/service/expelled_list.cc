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
  return RefuseIfExpelled(caller.identities,
                          [this](const std::string& name) { return names_.contains(name); });
}

}  // namespace longwave
