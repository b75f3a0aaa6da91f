#include "server/shard_state/shard_notices.h"

#include <bit>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// True for the first, the second, the fourth … occurrence, to limit repetitions in the log.
bool IsWorthALine(uint64_t count) { return std::has_single_bit(count); }

}  // namespace

void ShardNotices::DroppedWrongKind(const FrameName& frame) {
  if (!IsWorthALine(++rejected_)) return;
  notices_.push_back(absl::StrCat("dropped a frame that only shards send: ",
                                  std::string(Name(frame.kind)), ", worker ", frame.worker));
}

void ShardNotices::Answered(const SendFrame& answer, absl::Time now) {
  if (std::get<AnswerFrame>(answer.frame.header()).outcome != Outcome::kRejected) return;
  const auto bytes = answer.frame.payload().bytes();
  const std::string reason(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (IsWorthALine(++rejected_))
    notices_.push_back(absl::StrCat("rejected ", reason, " (", rejected_, " frames so far)"));
  if (answer.rejection == Rejection::kWeight || answer.rejection == Rejection::kNorm ||
      answer.rejection == Rejection::kPayload) {
    Complain(absl::StrCat("rejected ", reason), now);
  }
}

void ShardNotices::Clipped(const ContributionClipped& clipped, bool is_member, absl::Time now) {
  if (clipped.left_out) Complain(clipped.reason, now);
  if (!is_member) return;
  const uint64_t count = ++clipped_[clipped.worker];
  if (!IsWorthALine(count)) return;
  notices_.push_back(absl::StrCat(clipped.reason, " (", count, " of this worker so far)"));
}

void ShardNotices::DroppedUnsent(uint32_t worker, const FrameName& frame,
                                 const absl::Status& status) {
  if (!IsWorthALine(++unsent_)) return;
  notices_.push_back(absl::StrCat(std::string(Name(frame.kind)), " frame for worker ", worker,
                                  ", round ", frame.round, ", segment ", frame.segment,
                                  " was not sent: ", std::string(status.message()), " (", unsent_,
                                  " unsent so far)"));
}

std::vector<std::string> ShardNotices::Take() { return std::exchange(notices_, {}); }

void ShardNotices::Complain(std::string sentence, absl::Time now) {
  complaint_ = std::move(sentence);
  complained_at_ = now;
}

}  // namespace longwave
