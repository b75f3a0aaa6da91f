#ifndef LONGWAVE_SERVER_SHARD_STATE_SHARD_NOTICES_H_
#define LONGWAVE_SERVER_SHARD_STATE_SHARD_NOTICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/shard/shard_effect.h"

namespace longwave {

// Sentences for a shard's log and heartbeat about frames that are useless, clipped or not sent.
// Repeated events appear at their first, second, fourth … occurrence. Pure.
class ShardNotices {
 public:
  // The heartbeat names the last member that has sent something harmful to the model for so long.
  static constexpr absl::Duration kComplaintLife = absl::Minutes(10);

  void DroppedWrongKind(const FrameName& frame);  // only shards send its kind
  void Answered(const SendFrame& answer, absl::Time now);
  // is_member: whether the worker still is one, and is counted until Forget.
  void Clipped(const ContributionClipped& clipped, bool is_member, absl::Time now);
  // Dropping loses nothing: a worker that misses an update repeats its request.
  void DroppedUnsent(uint32_t worker, const FrameName& frame, const absl::Status& status);
  void Forget(uint32_t worker) { clipped_.erase(worker); }

  // The sentences for the log since the last call.
  std::vector<std::string> Take();
  std::string ComplaintAt(absl::Time now) const {
    return now < complained_at_ + kComplaintLife ? complaint_ : "";
  }
  uint64_t unsent_count() const { return unsent_; }

 private:
  void Complain(std::string sentence, absl::Time now);

  std::vector<std::string> notices_;
  uint64_t rejected_ = 0;  // useless frames of workers
  uint64_t unsent_ = 0;
  absl::flat_hash_map<uint32_t, uint64_t> clipped_;  // contributions, by worker
  std::string complaint_;
  absl::Time complained_at_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SHARD_NOTICES_H_
