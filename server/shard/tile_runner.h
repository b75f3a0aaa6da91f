#ifndef LONGWAVE_SERVER_SHARD_TILE_RUNNER_H_
#define LONGWAVE_SERVER_SHARD_TILE_RUNNER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace longwave {

// Who does the work of a merge: a segment's tiles are independent of each other, so that threads
// may share them. The aggregator starts no thread of its own; its owner hands it a runner
// (tile_threads.h has one that does), and what it computes is the same with any.
class TileRunner {
 public:
  // The tiles begin … end − 1. Calls of one slot come one after the other, so that a slot's buffers
  // are one call's alone.
  using Work = absl::FunctionRef<void(uint32_t begin, uint32_t end, uint32_t slot)>;

  virtual ~TileRunner() = default;

  virtual uint32_t slot_count() const = 0;  // constant, 1 or more; slots are 0 … slot_count − 1

  // Calls `work` for ranges that make up 0 … tile_count − 1, each tile once, and returns when all
  // calls have ended. Called from one thread at a time. `work` must not throw.
  virtual void Run(uint32_t tile_count, Work work) = 0;
};

// The caller does it all.
class SerialTileRunner : public TileRunner {
 public:
  uint32_t slot_count() const override { return 1; }
  void Run(uint32_t tile_count, Work work) override { work(0, tile_count, 0); }
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_TILE_RUNNER_H_
