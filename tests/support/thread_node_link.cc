#include "tests/support/thread_node_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longwave {

class ThreadNode::Rank final : public NodeLink {
 public:
  Rank(ThreadNode* of, uint32_t rank) : of_(of), rank_(rank) {}
  ~Rank() override { of_->End(rank_); }
  NodeRank node() const override {
    return {.rank = rank_, .ranks = static_cast<uint32_t>(of_->places_.size())};
  }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string_view mine,
                                                     absl::Duration patience) override {
    return of_->AllGather(rank_, mine, patience);
  }

 private:
  ThreadNode* const of_;
  const uint32_t rank_;
};

std::unique_ptr<NodeLink> ThreadNode::Link(uint32_t rank) {
  return std::make_unique<Rank>(this, rank);
}

absl::StatusOr<std::vector<std::string>> ThreadNode::AllGather(uint32_t rank, std::string_view mine,
                                                               absl::Duration patience) {
  std::unique_lock lock(mutex_);
  if (!broken_.ok()) return broken_;
  places_[rank] = std::string(mine);
  const uint64_t meeting = meetings_;
  const bool is_last = std::ranges::all_of(places_, [](const auto& p) { return p.has_value(); });
  if (is_last) {
    gathered_.clear();
    for (std::optional<std::string>& place : places_)
      gathered_.push_back(*std::exchange(place, std::nullopt));
    ++meetings_;
    changed_.notify_all();
    return gathered_;
  }
  const auto is_over = [&] { return meetings_ > meeting || !broken_.ok(); };
  const bool in_time = changed_.wait_for(
      lock, absl::ToChronoMilliseconds(std::min(patience, absl::Hours(1))), is_over);
  if (meetings_ > meeting) return gathered_;
  if (!in_time) {
    broken_ = absl::UnavailableError(
        absl::StrCat("node: a rank has not come within ", absl::FormatDuration(patience)));
    changed_.notify_all();
  }
  return broken_;
}

void ThreadNode::End(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  if (broken_.ok())
    broken_ = absl::UnavailableError(absl::StrCat("node: rank ", rank, " has ended"));
  changed_.notify_all();
}

}  // namespace longwave
