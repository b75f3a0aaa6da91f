#include "common/base/termination.h"

#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace longwave {
namespace {

// A handler instead of blocked signals and sigwait: threads that libraries start before main would
// take the signal with its default action. A handler may only post a semaphore and set atomics.
sem_t g_wake;
std::atomic<bool> g_closing = false;
std::atomic<int> g_first_signal = 0;

void OnSignal(int signal) {
  const int saved = errno;
  int none = 0;
  g_first_signal.compare_exchange_strong(none, signal);
  sem_post(&g_wake);
  errno = saved;
}

void SetHandler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (signal == SIGHUP && IgnoresHangup()) continue;
    LONGWAVE_CHECK(sigaction(signal, &action, nullptr) == 0);
  }
}

}  // namespace

void WaitFor(absl::Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [] { return false; });
}

bool IgnoresHangup() {
  struct sigaction action;
  LONGWAVE_CHECK(sigaction(SIGHUP, nullptr, &action) == 0);
  return action.sa_handler == SIG_IGN;
}

Termination::Termination(Options options) : options_(std::move(options)) {
  g_closing = false;
  g_first_signal = 0;
  LONGWAVE_CHECK(sem_init(&g_wake, /*pshared=*/0, 0) == 0);
  thread_ = std::thread([this] { Watch(); });
  SetHandler(OnSignal);
}

Termination::~Termination() {
  SetHandler(SIG_DFL);
  g_closing = true;
  sem_post(&g_wake);
  thread_.join();
}

void Termination::Watch() {
  while (sem_wait(&g_wake) != 0) {
  }
  if (g_closing) return;
  options_.on_signal();
  // MonotonicNow counts from the epoch of CLOCK_MONOTONIC.
  const timespec end = absl::ToTimespec(MonotonicNow() + options_.grace);
  while (!g_closing) {
    if (sem_clockwait(&g_wake, CLOCK_MONOTONIC, &end) != 0 && errno == ETIMEDOUT) {
      options_.on_overdue();
      std::_Exit(options_.overdue_status.value_or(128 + g_first_signal));
    }
  }
}

}  // namespace longwave
