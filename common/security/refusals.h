#ifndef LONGWAVE_COMMON_SECURITY_REFUSALS_H_
#define LONGWAVE_COMMON_SECURITY_REFUSALS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace longwave {

// Why somebody was refused at a door. docs/security.md explains each.
enum class Refusal : uint8_t {
  kNoCertificate,   // a call without a certificate that needs one
  kOtherAuthority,  // a certificate of another authority
  kExpired,         // or not valid yet
  kBadCertificate,  // without a name of a run, or otherwise unfit
  kWrongName,       // a call in somebody else's name, or beyond the caller's role
  kExpelled,
  kToken,          // unknown, used up, expired, revoked, or not for what was asked
  kDataKey,        // a data connection with a key that is no member's
  kDataHandshake,  // a data connection that never got through its handshake: no CURVE, half-open
  kDataWorker,     // a frame whose header names another worker than its connection belongs to
  kDataFrame,      // bytes that are no frame
};
inline constexpr size_t kRefusalCount = 11;
// Those of who calls a gRPC service, whatever is asked for.
inline constexpr Refusal kPeerRefusals[] = {Refusal::kNoCertificate, Refusal::kOtherAuthority,
                                            Refusal::kExpired,       Refusal::kBadCertificate,
                                            Refusal::kWrongName,     Refusal::kExpelled};

// "no_certificate", "other_authority", …: in metrics, statuses and logs.
std::string_view Name(Refusal refusal);

// Counts of one process, by reason. From any thread.
class Refusals {
 public:
  // Returns how often it happened, this time included.
  uint64_t Count(Refusal refusal) {
    return counts_[static_cast<size_t>(refusal)].fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Counts it, and writes a line for the log the first, second, fourth, eighth … time.
  void Note(Refusal refusal, absl::string_view sentence);
  // Raises the count to what somebody else has counted. Whether it grew past a power of two.
  bool RaiseTo(Refusal refusal, uint64_t count);

  uint64_t of(Refusal refusal) const {
    return counts_[static_cast<size_t>(refusal)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kRefusalCount> counts_{};
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_REFUSALS_H_
