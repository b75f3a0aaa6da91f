#ifndef LONGWAVE_SERVER_SHARD_TILE_RUNNER_H_
#define LONGWAVE_SERVER_SHARD_TILE_RUNNER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace longwave {

// Runs the work of a merge. The tiles of a segment are independent, so threads may share them. The
// aggregator starts no thread of its own; its owner passes a runner (tile_threads.h has one with
// threads). The result is the same with any runner.
class TileRunner {
 public:
  // Works on the tiles begin … end − 1. Calls of one slot are sequential, so each slot's buffers
  // belong to one call.
  using Work = absl::FunctionRef<void(uint32_t begin, uint32_t end, uint32_t slot)>;

  virtual ~TileRunner() = default;

  virtual uint32_t slot_count() const = 0;  // constant, 1 or more; slots are 0 … slot_count − 1

  // Calls `work` for ranges that cover 0 … tile_count − 1, each tile once, and returns when all
  // calls have ended. One thread at a time calls Run. `work` must not throw.
  virtual void Run(uint32_t tile_count, Work work) = 0;
};

// Runs all work on the caller's thread.
class SerialTileRunner : public TileRunner {
 public:
  uint32_t slot_count() const override { return 1; }
  void Run(uint32_t tile_count, Work work) override { work(0, tile_count, 0); }
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_TILE_RUNNER_H_
