// Warnings for people, of what is probably not as it was meant: the workers' own, and those that
// only the coordinator can give, since it sees all workers.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "server/coordinator/coordinator.h"

namespace longwave {
namespace {

// Limits, so that no worker makes the record large.
constexpr size_t kWarningBytesMax = 1024;
constexpr std::ptrdiff_t kWarningsOfOneMax = 16;
constexpr size_t kWarningsMax = 256;
constexpr char kFurther[] = "has further warnings, which its log shows";

}  // namespace

void Coordinator::Warn(std::string worker, const std::string& text, Effects& effects) {
  const bool is_full = warnings_.size() >= kWarningsMax;
  if (is_full) worker = "one of the workers";
  const bool has_many =
      std::ranges::count(warnings_, worker, &Warning::worker) >= kWarningsOfOneMax;
  const Warning warning{std::move(worker),
                        is_full || has_many ? kFurther : Utf8Prefix(text, kWarningBytesMax)};
  if (std::ranges::find(warnings_, warning) != warnings_.end()) return;
  warnings_.push_back(warning);
  unsaved_ = true;
  effects.push_back(Notice{.text = SentenceOf(warning), .is_warning = true});
}

void Coordinator::WarnOfEqualLosses(const RoundOutcome& outcome, Effects& effects) {
  for (const std::vector<uint32_t>& equal : outcome.equal_losses) {
    constexpr size_t kNamesMax = 4;
    std::string names;
    for (size_t i = 0; i < std::min(equal.size(), kNamesMax); ++i) {
      absl::StrAppend(&names,
                      i == 0                  ? ""
                      : i + 1 == equal.size() ? " and "
                                              : ", ",
                      workers_.at(equal[i]).member.name);
    }
    if (equal.size() > kNamesMax)
      absl::StrAppend(&names, " and ", equal.size() - kNamesMax, " more");
    Warn("",
         absl::StrCat(names, " have had the same training loss, to the last bit, for ",
                      EqualLosses::kRounds, " rounds up to round ", outcome.round,
                      ": they train on the same data in the same order, so that all but one of "
                      "them add nothing; wanted other data at each worker, for example by a seed "
                      "of the data that depends on the worker's index or name"),
         effects);
  }
}

}  // namespace longwave
