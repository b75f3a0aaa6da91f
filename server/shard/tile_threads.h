#ifndef LONGWAVE_SERVER_SHARD_TILE_THREADS_H_
#define LONGWAVE_SERVER_SHARD_TILE_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace longwave {

// Threads for the work of a merge, a fixed number, including the caller's. The tiles of a segment
// are independent, so that the result is the same with any number. The other threads sleep between
// merges and end with the object.
class TileThreads {
 public:
  // Works on the tiles begin … end − 1. Calls of one slot are sequential, so each slot's buffers
  // belong to one call.
  using Work = absl::FunctionRef<void(uint32_t begin, uint32_t end, uint32_t slot)>;

  // threads: 1 or more. If the system gives fewer, the merge uses those. on_run (may be empty) gets
  // the time of each Run.
  explicit TileThreads(uint32_t threads, std::function<void(absl::Duration)> on_run = {});
  ~TileThreads();
  TileThreads(const TileThreads&) = delete;
  TileThreads& operator=(const TileThreads&) = delete;

  // Constant, 1 or more; slots are 0 … slot_count − 1.
  uint32_t slot_count() const { return 1 + static_cast<uint32_t>(helpers_.size()); }

  // Calls `work` for ranges that cover 0 … tile_count − 1, each tile once, and returns when all
  // calls have ended. One thread at a time calls Run. `work` must not throw.
  void Run(uint32_t tile_count, Work work);

 private:
  void Share(uint32_t tile_count, Work work);
  void Help(uint32_t slot);
  // Takes chunk after chunk until none is left.
  void WorkOn(Work work, uint32_t tile_count, uint32_t slot);

  const std::function<void(absl::Duration)> on_run_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  bool stopping_ = false;
  // The current merge. Its number lets each helper take part once.
  uint64_t number_ = 0;
  const Work* work_ = nullptr;
  uint32_t tile_count_ = 0;
  uint32_t busy_ = 0;  // helpers that still work on it
  std::atomic<uint32_t> next_{0};

  std::vector<std::thread> helpers_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_TILE_THREADS_H_
