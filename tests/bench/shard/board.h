#ifndef LONGWAVE_TESTS_BENCH_SHARD_BOARD_H_
#define LONGWAVE_TESTS_BENCH_SHARD_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/bench/shard/load.h"

namespace longwave {

// State shared by the threads of a load: the rounds still to begin, and the received updates.
// Thread-safe.
class LoadBoard {
 public:
  LoadBoard(uint32_t segments, uint32_t kept_rounds);

  // Before the threads start: the next stretch ends as Load::Run says.
  void Open(uint64_t rounds, absl::Time end);
  uint64_t first_round() const { return first_round_; }

  // Whether a worker that has finished every round before `round` begins that one. All workers do
  // the same rounds: a round begun by one is begun by all.
  bool MayBegin(uint64_t round);

  // True if the first worker with this merged update got the same bytes. Keeps a copy of the first
  // one's.
  bool Agrees(uint32_t round, uint32_t segment, uint32_t crc, std::span<const std::byte> payload);
  const std::vector<std::byte>& Kept(uint32_t round, uint32_t segment) const;

  // The first failure ends the load on all threads.
  void Fail(absl::Status status);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  absl::Status status() const;

 private:
  // In a closed loop no worker is more than a round ahead of another.
  static constexpr uint32_t kRoundsAtOnce = 4;
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();

  const uint32_t segments_;
  const uint32_t kept_rounds_;
  std::vector<std::atomic<uint64_t>> seen_;   // round + 1 above, CRC below; by round and segment
  std::vector<std::vector<std::byte>> kept_;  // by round and segment; written by who saw it first

  uint64_t first_round_ = 0;  // of this stretch

  mutable std::mutex mutex_;
  uint64_t begun_ = 0;  // rounds that some worker has begun
  uint64_t end_ = 0;    // rounds that all workers will have done
  absl::Time deadline_;
  absl::Status status_;
  std::atomic<bool> failed_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_BOARD_H_
