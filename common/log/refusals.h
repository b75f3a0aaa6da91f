#ifndef LONGWAVE_COMMON_LOG_REFUSALS_H_
#define LONGWAVE_COMMON_LOG_REFUSALS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace longwave {

// Why a process rejected a peer. docs/reference/security.md explains each reason.
enum class Refusal : uint8_t {
  kNoCertificate,   // a call without the certificate that it needs
  kOtherAuthority,  // a certificate of another authority
  kExpired,         // or not valid yet
  kBadCertificate,  // without a name of a run, or otherwise invalid
  kWrongName,       // a call in another process's name, or beyond the caller's role
  kExpelled,
  kToken,           // unknown, used up, expired, revoked, or for another purpose
  kDataConnection,  // a data connection with a key that is no member's, or without CURVE
  kDataWorker,      // a frame whose header names another worker than its connection's
  kDataFrame,       // bytes that are no frame
};
inline constexpr size_t kRefusalCount = 10;
// The reasons that apply to any caller of a gRPC service.
inline constexpr Refusal kPeerRefusals[] = {Refusal::kNoCertificate, Refusal::kOtherAuthority,
                                            Refusal::kExpired,       Refusal::kBadCertificate,
                                            Refusal::kWrongName,     Refusal::kExpelled};

// "no_certificate", "other_authority", …: in metrics, statuses and logs.
std::string_view Name(Refusal refusal);

// Counts of one process by reason. Thread-safe.
class Refusals {
 public:
  // Returns the count, this one included.
  uint64_t Count(Refusal refusal) {
    return counts_[static_cast<size_t>(refusal)].fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Counts, and logs if MayName permits. from: "10.1.2.3:4567", "[::1]:4567", "10.1.2.3"; "" if
  // unknown.
  void Note(Refusal refusal, absl::string_view sentence, const std::string& from = "");
  // Whether to log `sentence` about a peer (its address without the port; "" if unknown) now. True
  // counts it as logged. False if the log had it within the last kNamedFor, or if kNamedMax or
  // kNamedOfOneMax is reached.
  bool MayName(Refusal refusal, const std::string& peer, absl::string_view sentence,
               absl::Time now);
  static constexpr absl::Duration kNamedFor = absl::Minutes(1);
  static constexpr size_t kNamedMax = 64;      // lines in each kNamedFor,
  static constexpr size_t kNamedOfOneMax = 8;  // of one peer for one reason

  uint64_t of(Refusal refusal) const {
    return counts_[static_cast<size_t>(refusal)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kRefusalCount> counts_{};
  std::mutex mutex_;
  absl::Time named_since_ = absl::InfinitePast();
  size_t named_count_ = 0;                                                  // since then
  std::map<std::pair<Refusal, std::string>, std::set<std::string>> named_;  // sentences by peer
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LOG_REFUSALS_H_
