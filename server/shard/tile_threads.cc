#include "server/shard/tile_threads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "common/base/clock.h"

namespace longwave {
namespace {

// Tiles that a thread takes at a time. Neighbouring tiles share cache lines of payloads and
// residual, and small chunks even out tiles that take long.
constexpr uint32_t kChunkTiles = 8;

}  // namespace

TileThreads::TileThreads(uint32_t threads, std::function<void(absl::Duration)> on_run)
    : on_run_(std::move(on_run)) {
  // A helper may start while others are still being added, since it does not read helpers_.
  try {
    while (helpers_.size() + 1 < threads) {
      const auto slot = static_cast<uint32_t>(helpers_.size() + 1);
      helpers_.emplace_back([this, slot] { Help(slot); });
    }
  } catch (const std::system_error&) {
    // The system gives no more threads.
  }
}

TileThreads::~TileThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void TileThreads::Run(uint32_t tile_count, Work work) {
  if (!on_run_) return Share(tile_count, work);
  const absl::Time begin = MonotonicNow();
  Share(tile_count, work);
  on_run_(MonotonicNow() - begin);
}

void TileThreads::Share(uint32_t tile_count, Work work) {
  if (helpers_.empty() || tile_count <= kChunkTiles) return work(0, tile_count, 0);
  {
    const std::lock_guard lock(mutex_);
    next_.store(0, std::memory_order_relaxed);
    work_ = &work;
    tile_count_ = tile_count;
    busy_ = static_cast<uint32_t>(helpers_.size());
    ++number_;
  }
  wake_.notify_all();
  WorkOn(work, tile_count, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void TileThreads::Help(uint32_t slot) {
  uint64_t last = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || number_ != last; });
    if (stopping_) return;
    last = number_;
    const Work work = *work_;
    const uint32_t tile_count = tile_count_;
    lock.unlock();
    WorkOn(work, tile_count, slot);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

void TileThreads::WorkOn(Work work, uint32_t tile_count, uint32_t slot) {
  while (true) {
    const uint32_t begin = next_.fetch_add(kChunkTiles, std::memory_order_relaxed);
    if (begin >= tile_count) return;
    work(begin, std::min(tile_count, begin + kChunkTiles), slot);
  }
}

}  // namespace longwave
