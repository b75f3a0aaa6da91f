#ifndef LONGWAVE_SERVER_SERVICE_EXPELLED_LIST_H_
#define LONGWAVE_SERVER_SERVICE_EXPELLED_LIST_H_

#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "common/wire/control.h"

namespace longwave {

// The workers that were expelled, as a shard hears of them from the coordinator. Thread-safe.
class ExpelledList {
 public:
  void Set(const ExpelledWorkers& expelled);
  // 0: nothing was heard.
  uint64_t version() const;

  // Of a certificate that names an expelled worker, whoever else it names.
  std::optional<CallRefusal> Admit(const CertificateInfo& caller) const;

 private:
  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  std::set<std::string> names_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_EXPELLED_LIST_H_
