#ifndef LONGWAVE_COMMON_SECURITY_REFUSALS_H_
#define LONGWAVE_COMMON_SECURITY_REFUSALS_H_

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
  kDataClosed,     // a data connection that its other end closed before it was through
  kHalfOpen,       // a connection to a gRPC port that has made no call for some seconds
};
inline constexpr size_t kRefusalCount = 13;
// Those of who comes to a gRPC service, whatever is asked for.
inline constexpr Refusal kPeerRefusals[] = {
    Refusal::kNoCertificate, Refusal::kOtherAuthority, Refusal::kExpired, Refusal::kBadCertificate,
    Refusal::kWrongName,     Refusal::kExpelled,       Refusal::kHalfOpen};

// "no_certificate", "other_authority", …: in metrics, statuses and logs.
std::string_view Name(Refusal refusal);

// Counts of one process, by reason. From any thread.
class Refusals {
 public:
  // Returns how often it happened, this time included.
  uint64_t Count(Refusal refusal) {
    return counts_[static_cast<size_t>(refusal)].fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Counts it, and writes a line for the log the first, second, fourth, eighth … time; and each
  // time that MayName says so. from: "10.1.2.3:4567", "[::1]:4567"; "": nobody knows.
  void Note(Refusal refusal, absl::string_view sentence, const std::string& from = "");
  // Raises the count to what somebody else has counted. Whether it grew past a power of two.
  bool RaiseTo(Refusal refusal, uint64_t count);
  // Whether the log is to say this of a peer (its address, without the port; "": nobody knows) now,
  // as it did not for a minute: it counts as said then. False otherwise, or where as much was said
  // within the minute as a log bears.
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

#endif  // LONGWAVE_COMMON_SECURITY_REFUSALS_H_
