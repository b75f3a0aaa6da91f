#ifndef LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_
#define LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "common/control/control.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"

namespace longwave {

// Expelled names and the keys of names, as sent by the coordinator. With these a shard admits the
// same certificates as the coordinator. Thread-safe.
class NamesKnown {
 public:
  void Set(const CallerNames& names) {
    const std::lock_guard lock(mutex_);
    version_ = names.version;
    names_.expelled = {names.expelled.begin(), names.expelled.end()};
    names_.owners.clear();
    for (const NameOwner& owner : names.owners) names_.owners[owner.subject] = owner.key;
  }
  // 0: nothing was received.
  uint64_t version() const {
    const std::lock_guard lock(mutex_);
    return version_;
  }

  std::optional<CallRefusal> Admit(const CertificateInfo& caller) const {
    const std::lock_guard lock(mutex_);
    return RefuseHolder(names_, caller);
  }

 private:
  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  KnownNames names_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_
