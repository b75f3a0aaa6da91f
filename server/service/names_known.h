#ifndef LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_
#define LONGWAVE_SERVER_SERVICE_NAMES_KNOWN_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "common/wire/control.h"

namespace longwave {

// Who was expelled and which key a name belongs to, as a shard hears of it from the coordinator. So
// a shard admits the certificates that the coordinator admits. Thread-safe.
class NamesKnown {
 public:
  void Set(const CallerNames& names);
  // 0: nothing was heard.
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
