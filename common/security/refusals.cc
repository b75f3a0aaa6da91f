#include "common/security/refusals.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/log/log.h"

namespace longwave {

std::string_view Name(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNoCertificate:
      return "no_certificate";
    case Refusal::kOtherAuthority:
      return "other_authority";
    case Refusal::kExpired:
      return "expired";
    case Refusal::kBadCertificate:
      return "bad_certificate";
    case Refusal::kWrongName:
      return "wrong_name";
    case Refusal::kExpelled:
      return "expelled";
    case Refusal::kToken:
      return "token";
    case Refusal::kDataKey:
      return "data_key";
    case Refusal::kDataHandshake:
      return "data_handshake";
    case Refusal::kDataWorker:
      return "data_worker";
    case Refusal::kDataFrame:
      return "data_frame";
    case Refusal::kDataClosed:
      return "data_closed";
    case Refusal::kHalfOpen:
      return "half_open";
  }
  return "unknown";
}

bool Refusals::MayName(Refusal refusal, const std::string& peer, absl::string_view sentence,
                       absl::Time now) {
  const std::lock_guard lock(mutex_);
  if (now - named_since_ >= kNamedFor) {
    named_.clear();
    named_count_ = 0;
    named_since_ = now;
  }
  if (named_count_ >= kNamedMax) return false;
  std::set<std::string>& sentences = named_[{refusal, peer}];
  if (sentences.size() >= kNamedOfOneMax || !sentences.emplace(sentence).second) return false;
  ++named_count_;
  return true;
}

void Refusals::Note(Refusal refusal, absl::string_view sentence, const std::string& from) {
  const uint64_t count = Count(refusal);
  // By each connection another port.
  const bool is_new = MayName(refusal, from.substr(0, from.rfind(':')), sentence, MonotonicNow());
  if (!is_new && !std::has_single_bit(count)) return;
  Log(LogLevel::kWarning,
      absl::StrCat("refused (", std::string(Name(refusal)), ", ", count, " so far): ", sentence,
                   from.empty() ? "" : ", from ", from));
}

bool Refusals::RaiseTo(Refusal refusal, uint64_t count) {
  std::atomic<uint64_t>& counter = counts_[static_cast<size_t>(refusal)];
  const uint64_t before = counter.load(std::memory_order_relaxed);
  if (count <= before) return false;
  counter.store(count, std::memory_order_relaxed);
  return std::bit_width(count) != std::bit_width(before);
}

}  // namespace longwave
