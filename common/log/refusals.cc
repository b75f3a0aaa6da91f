#include "common/log/refusals.h"

#include "common/base/clock.h"
#include "common/base/enum_name.h"
#include "common/log/log.h"

namespace longwave {

std::string_view Name(Refusal refusal) {
  return EnumName(refusal,
                  {"no_certificate", "other_authority", "expired", "bad_certificate", "wrong_name",
                   "expelled", "token", "data_connection", "data_worker", "data_frame"});
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
  // Without the port, which differs between a peer's connections.
  if (!MayName(refusal, from.substr(0, from.rfind(':')), sentence, MonotonicNow())) return;
  Log(LogLevel::kWarning, "refused (", Name(refusal), ", ", count, " so far): ", sentence,
      from.empty() ? "" : ", from ", from);
}

}  // namespace longwave
