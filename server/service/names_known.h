#ifndef LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_
#define LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "common/control/control.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"

namespace longwave {

// Expelled names and the keys of names, as sent by the coordinator. With these a shard admits the
// same certificates as the coordinator. Thread-safe.
class NamesKnown {
 public:
  void Set(const CallerNames& names);
  // 0: nothing was received.
  uint64_t version() const;

  std::optional<CallRefusal> Admit(const CertificateInfo& caller) const;

 private:
  struct Names {
    std::set<std::string> expelled;
    std::map<std::string, Fingerprint> owners;

    bool IsExpelled(const std::string& worker) const { return expelled.contains(worker); }
    std::optional<Fingerprint> OwnerOf(const std::string& subject) const;
  };

  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  Names names_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_
