#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace longwave::cpu {
namespace {

// Chunks of indices for each thread: enough for balance, and few enough that neighbours, which
// share and prefetch each other's cache lines, mostly belong to one thread.
constexpr uint32_t kChunksAThread = 8;

// Restores the handling of denormals, a thread's state that a library may have changed in the
// caller's thread and that new threads inherit.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    std::fegetenv(&kept_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&kept_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  std::fenv_t kept_;
};

// A call, on its caller's stack. The pool's mutex guards all members but `next`.
struct Job {
  absl::FunctionRef<void(uint32_t)> body;
  uint32_t count;
  uint32_t chunk;
  std::atomic<uint32_t> next{0};
  uint32_t wanted;       // helpers that may still join
  uint32_t running = 0;  // helpers at work
  Job* after = nullptr;  // in the list of jobs that want helpers
  std::condition_variable done;

  Job(absl::FunctionRef<void(uint32_t)> f, uint32_t n, uint32_t helpers)
      : body(f),
        count(n),
        chunk(std::max(1u, n / (kChunksAThread * (helpers + 1)))),
        wanted(helpers) {}

  void Work() {
    const DefaultFloatingPoint scope;
    // At most `count` plus one chunk for each thread: no overflow, as layouts have 2^28 tiles at
    // most.
    for (uint32_t begin; (begin = next.fetch_add(chunk, std::memory_order_relaxed)) < count;) {
      const uint32_t end = std::min(count, begin + chunk);
      for (uint32_t i = begin; i < end; ++i) body(i);
    }
  }
};

// The helpers of all calls. If no helper is free, the caller does its job alone, so that callers
// never wait for each other and a body may start jobs.
class Pool {
 public:
  void Run(Job& job) {
    const uint32_t helpers = job.wanted;
    {
      const std::lock_guard lock(mutex_);
      Start(helpers);
      job.after = first_;
      first_ = &job;
    }
    for (uint32_t i = 0; i < helpers; ++i) wake_.notify_one();
    job.Work();
    std::unique_lock lock(mutex_);
    Remove(job);
    job.done.wait(lock, [&job] { return job.running == 0; });
  }

 private:
  // Requires the mutex.
  void Start(size_t wanted) {
    try {
      while (threads_.size() < wanted) threads_.emplace_back([this] { Help(); });
    } catch (const std::system_error&) {
      // No more threads are available: the running ones do the work.
    }
  }

  void Remove(const Job& job) {
    Job** link = &first_;
    while (*link != nullptr && *link != &job) link = &(*link)->after;
    if (*link != nullptr) *link = job.after;
  }

  void Help() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return first_ != nullptr; });
      Job& job = *first_;
      ++job.running;
      if (--job.wanted == 0) Remove(job);
      lock.unlock();
      job.Work();
      lock.lock();
      // A late helper finds nothing left to do, and must not come again.
      if (job.wanted > 0) Remove(job);
      if (--job.running == 0) job.done.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Job* first_ = nullptr;
  std::vector<std::thread> threads_;
};

// Never destroyed: a forked child that exits has no helpers, whose end its destructor would await.
Pool& SharedPool() {
  static Pool& pool = *new Pool;
  return pool;
}

}  // namespace

void ParallelFor(uint32_t count, int threads, absl::FunctionRef<void(uint32_t)> body) {
  const auto wanted = static_cast<uint32_t>(std::max(1, threads));
  Job job(body, count, std::max(1u, std::min(count, wanted)) - 1);
  if (job.wanted == 0) return job.Work();
  SharedPool().Run(job);
}

}  // namespace longwave::cpu
