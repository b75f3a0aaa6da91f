#ifndef LONGWAVE_TESTS_BENCH_SHARD_LOAD_H_
#define LONGWAVE_TESTS_BENCH_SHARD_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/bench/shard/payloads.h"

namespace longwave {

// Many workers in few threads, over ZeroMQ itself: each with a DEALER of its own to every shard, in
// closed loop. A worker pushes all its segments of a round at once, waits for the merged ones and
// goes on with the next round. The same generator drives shards and the raw routers that they are
// compared with.
struct LoadOptions {
  // Shards verify frames, answer pushes and send merged updates. Raw routers (zmq_router.h) do
  // nothing but ZeroMQ.
  enum class Peer : uint8_t { kShard, kRawRouter };
  Peer peer = Peer::kShard;

  std::vector<std::string> endpoints;  // by shard
  std::vector<uint32_t> shards;        // by segment: the shard that owns it
  std::vector<uint64_t> reply_bytes;   // by segment: a merged payload's
  std::vector<uint32_t> workers;       // the indices by which the shards know them
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint32_t threads = 1;
  uint32_t kept_rounds = 0;  // merged payloads of these first rounds are kept, see Kept
  absl::Duration patience = absl::Seconds(60);  // without any frame for this long, Run gives up
};

// The results of one or more stretches of rounds.
struct LoadFigures {
  double seconds = 0;            // wall
  double generator_seconds = 0;  // of processors, this whole process
  uint64_t rounds = 0;
  uint64_t pushes = 0;    // sent, repeated ones included
  uint64_t accepted = 0;  // answers by outcome; none from raw routers
  uint64_t busy = 0;
  uint64_t refused = 0;        // late, duplicate or rejected
  uint64_t merged = 0;         // frames received
  uint64_t disagreements = 0;  // merged frames that differ from another worker's
  uint64_t payload_sent = 0;   // bytes
  uint64_t payload_received = 0;
  uint64_t frame_bytes_sent = 0;  // headers and payloads with their ZMTP framing, as LinkCounts
  uint64_t frame_bytes_received = 0;
  // For each segment and round, the time from the last worker's push (given to ZeroMQ) until the
  // first worker has the merged update. A push's wait for others in the shard's queue is included.
  std::vector<double> close_seconds;

  void Add(const LoadFigures& other);
};

class Load {
 public:
  // pushes: for as many workers and segments as options name; outlives the load. With a shard,
  // greets it from every worker and waits for the answers. DeadlineExceeded: one did not come.
  static absl::StatusOr<std::unique_ptr<Load>> Connect(const LoadOptions& options,
                                                       const BenchPushes* pushes);
  virtual ~Load() = default;

  // Whole rounds of all workers: `rounds` of them, or, if that is 0, those that begin within
  // `duration`. DeadlineExceeded: nothing came for `patience`. FailedPrecondition: a push was
  // rejected, DataLoss: a frame does not verify; which and why.
  virtual absl::StatusOr<LoadFigures> Run(uint64_t rounds, absl::Duration duration) = 0;

  // The merged payload of one of the first kept_rounds rounds, as the first worker got it; empty
  // before.
  virtual const std::vector<std::byte>& Kept(uint32_t round, uint32_t segment) const = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_LOAD_H_
