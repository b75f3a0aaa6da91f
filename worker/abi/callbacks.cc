#include "worker/abi/callbacks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>

#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr std::chrono::milliseconds kPause(50);
// Most messages of a node fit into the first gather, behind their size.
constexpr size_t kShortBytes = 248;

}  // namespace

void Interruptible::Ask(bool at_once) {
  if (callbacks_.interrupted == nullptr || stop_->requested()) return;
  const absl::Time now = MonotonicNow();
  if (!at_once && now - asked_ < absl::FromChrono(kPause)) return;
  asked_ = now;
  if (callbacks_.interrupted(callbacks_.context) != 0) stop_->Request();
}

absl::Status Interruptible::Run(absl::FunctionRef<absl::Status()> work) {
  auto done = std::async(std::launch::async, [&] { return work(); });
  while (done.wait_for(kPause) != std::future_status::ready) Ask();
  return done.get();
}

absl::StatusOr<std::string> AbiNodeLink::Gather(std::string_view mine,
                                                absl::Duration patience) const {
  std::string all(mine.size() * node_.ranks, 0);
  const double seconds = absl::ToDoubleSeconds(patience);
  if (node_.all_gather(node_.context, mine.data(), mine.size(), all.data(), seconds) == 0)
    return all;
  return Unavailable("node: a rank has ended, or has not come within ", seconds, " s");
}

absl::StatusOr<std::vector<std::string>> AbiNodeLink::AllGather(std::string_view mine,
                                                                absl::Duration patience) {
  uint64_t size = mine.size();
  std::string first(sizeof size + kShortBytes, 0);
  std::memcpy(first.data(), &size, sizeof size);
  std::memcpy(first.data() + sizeof size, mine.data(), std::min(mine.size(), kShortBytes));
  LONGWAVE_ASSIGN_OR_RETURN(const std::string shorts, Gather(first, patience));
  std::vector<uint64_t> sizes(node_.ranks);
  for (uint32_t r = 0; r < node_.ranks; ++r)
    std::memcpy(&sizes[r], shorts.data() + r * first.size(), sizeof size);
  const uint64_t longest = *std::ranges::max_element(sizes);
  std::string longs = shorts;
  uint64_t stride = first.size(), begin = sizeof size;
  if (longest > kShortBytes) {
    std::string padded(mine);
    padded.resize(longest);
    LONGWAVE_ASSIGN_OR_RETURN(longs, Gather(padded, patience));
    stride = longest;
    begin = 0;
  }
  std::vector<std::string> gathered;
  for (uint32_t r = 0; r < node_.ranks; ++r)
    gathered.push_back(longs.substr(r * stride + begin, sizes[r]));
  return gathered;
}

}  // namespace longwave
