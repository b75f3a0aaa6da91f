#include "server/service/names_known.h"

namespace longwave {

std::optional<Fingerprint> NamesKnown::Names::OwnerOf(const std::string& subject) const {
  const auto found = owners.find(subject);
  if (found == owners.end()) return std::nullopt;
  return found->second;
}

void NamesKnown::Set(const CallerNames& names) {
  const std::lock_guard lock(mutex_);
  version_ = names.version;
  names_.expelled = {names.expelled.begin(), names.expelled.end()};
  names_.owners.clear();
  for (const NameOwner& owner : names.owners) names_.owners[owner.subject] = owner.key;
}

uint64_t NamesKnown::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::optional<CallRefusal> NamesKnown::Admit(const CertificateInfo& caller) const {
  const std::lock_guard lock(mutex_);
  return RefuseHolder(names_, caller);
}

}  // namespace longwave
