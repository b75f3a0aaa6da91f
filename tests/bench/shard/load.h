#ifndef LONGWAVE_TESTS_BENCH_SHARD_LOAD_H_
#define LONGWAVE_TESTS_BENCH_SHARD_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/wake_event.h"
#include "common/link/link.h"
#include "common/link/waiter.h"
#include "tests/bench/shard/payloads.h"

namespace longwave {

struct LoadOptions {
  std::vector<std::string> endpoints;  // by shard
  std::vector<uint32_t> shards;        // by segment: the shard that owns it
  std::vector<uint32_t> workers;       // the indices by which the shards know them
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint32_t kept_rounds = 0;  // merged payloads of these first rounds are kept, see Kept
  absl::Duration patience = absl::Seconds(60);  // without any frame for this long, Run gives up
};

// The results of a stretch of rounds.
struct LoadFigures {
  double seconds = 0;            // wall
  double generator_seconds = 0;  // of processors, this whole process
  uint64_t rounds = 0;
  uint64_t accepted = 0;  // pushes
  uint64_t busy = 0;
  uint64_t disagreements = 0;  // merged frames that differ from another worker's
  LinkCounts link;             // over all workers
  // For each segment and round, the time from the last worker's push (given to the link) until the
  // first worker has the merged update. A push's wait for others in the shard's queue is included.
  std::vector<double> close_seconds;
};

// Many workers in one thread, each with a dealer of its own to every shard, in closed loop. A
// worker pushes all its segments of a round at once, waits for the merged ones and goes on with the
// next round.
class Load {
 public:
  // pushes: for as many workers and segments as options name; outlives the load. Greets every shard
  // from every worker and waits for the answers. DeadlineExceeded: one did not come.
  static absl::StatusOr<std::unique_ptr<Load>> Connect(const LoadOptions& options,
                                                       const BenchPushes* pushes);

  // Whole rounds of all workers: `rounds` of them, or, if that is 0, those that begin within
  // `duration`. DeadlineExceeded: nothing came for `patience`. FailedPrecondition: a push was
  // rejected, DataLoss: a frame does not verify; which and why.
  absl::StatusOr<LoadFigures> Run(uint64_t rounds, absl::Duration duration);

  // The merged payload of one of the first kept_rounds rounds, as the first worker got it; empty
  // before.
  const std::vector<std::byte>& Kept(uint32_t round, uint32_t segment) const {
    return kept_[size_t{round} * pushes_.segments() + segment];
  }

 private:
  struct Worker {
    uint64_t round = 0;
    uint32_t missing = 0;               // segments of the round whose merged update has not come
    std::vector<uint64_t> rounds_done;  // by segment
  };
  // A segment's round: when it closed, and the first worker's merged update.
  struct Close {
    absl::Time last_push = absl::InfinitePast();
    absl::Time first_merged = absl::InfiniteFuture();
    uint32_t crc = 0;
  };
  struct Retry {
    absl::Time due;
    uint32_t worker, segment;
  };

  Load(const LoadOptions& options, const BenchPushes* pushes, WakeEvent wake);

  absl::Status Greet();
  // All workers do the same rounds: a round begun by one is begun by all.
  bool MayBegin(uint64_t round);
  absl::Status Begin(uint32_t worker);  // begins the worker's next round, if there is one
  absl::Status Push(uint32_t worker, uint32_t segment);
  absl::Status PushAgain();
  // Receives frames until done() or a failure.
  template <typename Done>
  absl::Status Serve(const Done& done);
  absl::Status Take(uint32_t worker, const Frame& frame);
  absl::Status TakeAnswer(uint32_t worker, const AnswerFrame& answer, const Buffer& payload);
  absl::Status TakeMerged(uint32_t worker, const MergedFrame& merged, const Buffer& payload);
  Close& CloseOf(uint64_t round, uint32_t segment) {
    return closes_[(round - first_round_) * pushes_.segments() + segment];
  }
  LinkCounts Counts() const;
  // DataLoss: a dealer has dropped a frame that does not verify.
  absl::Status CheckFrames() const;
  absl::Status Silence() const;

  const LoadOptions options_;
  const BenchPushes& pushes_;
  std::vector<Worker> workers_;
  std::vector<std::unique_ptr<Dealer>> dealers_;  // by worker and shard
  Waiter waiter_;
  std::vector<Retry> retries_;  // of pushes that the shard was too busy for; by due time
  size_t greetings_missing_ = 0;
  uint32_t running_ = 0;  // workers in this stretch
  absl::Time last_frame_;

  // Of this stretch.
  uint64_t first_round_ = 0;
  uint64_t begun_ = 0;  // rounds that some worker has begun, in all stretches
  uint64_t end_ = 0;    // rounds that all workers will have done
  absl::Time deadline_;
  LoadFigures figures_;
  std::vector<Close> closes_;                 // by round and segment
  std::vector<std::vector<std::byte>> kept_;  // by round and segment
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_LOAD_H_
