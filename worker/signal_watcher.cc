#include "worker/signal_watcher.h"

#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "common/base/check.h"
#include "common/log/log.h"

namespace longwave {
namespace {

constexpr long kGraceNanoseconds = 1'500'000'000;

// A handler rather than blocked signals and sigwait: libraries have started threads before main,
// which would take the signal with its default action. Posting a semaphore is all that a handler
// may do.
sem_t g_wake;
std::atomic<bool> g_closing = false;

void OnSignal(int) {
  const int saved = errno;
  sem_post(&g_wake);
  errno = saved;
}

void SetHandler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) LONGWAVE_CHECK(sigaction(signal, &action, nullptr) == 0);
}

}  // namespace

SignalWatcher::SignalWatcher(StopSignal* stop) : stop_(stop) {
  g_closing = false;
  LONGWAVE_CHECK(sem_init(&g_wake, /*pshared=*/0, 0) == 0);
  thread_ = std::thread([this] { Watch(); });
  SetHandler(OnSignal);
}

SignalWatcher::~SignalWatcher() {
  SetHandler(SIG_DFL);
  g_closing = true;
  sem_post(&g_wake);
  thread_.join();
}

void SignalWatcher::Watch() {
  while (sem_wait(&g_wake) != 0) {
  }
  if (g_closing) return;
  Log(LogLevel::kInfo, "stopping: a signal asked for it");
  stop_->Request();
  timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += kGraceNanoseconds;
  end.tv_sec += end.tv_nsec / 1'000'000'000;
  end.tv_nsec %= 1'000'000'000;
  while (!g_closing) {
    if (sem_timedwait(&g_wake, &end) != 0 && errno == ETIMEDOUT) {
      Log(LogLevel::kWarning, "still busy: leaving without tidying up");
      std::_Exit(0);
    }
  }
}

}  // namespace longwave
