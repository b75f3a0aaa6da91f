#ifndef LONGWAVE_SERVER_SHARD_TILE_THREADS_H_
#define LONGWAVE_SERVER_SHARD_TILE_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "server/shard/tile_runner.h"

namespace longwave {

// A fixed number of threads, including the caller's. The others sleep between merges and end with
// the object.
class TileThreads : public TileRunner {
 public:
  // threads: 1 or more. If the system gives fewer, the merge uses those.
  explicit TileThreads(uint32_t threads);
  ~TileThreads() override;
  TileThreads(const TileThreads&) = delete;
  TileThreads& operator=(const TileThreads&) = delete;

  uint32_t slot_count() const override { return 1 + static_cast<uint32_t>(helpers_.size()); }
  void Run(uint32_t tile_count, Work work) override;

 private:
  void Help(uint32_t slot);
  // Takes chunk after chunk until none is left.
  void WorkOn(Work work, uint32_t tile_count, uint32_t slot);

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
