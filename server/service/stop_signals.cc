#include "server/service/stop_signals.h"

#include <pthread.h>
#include <signal.h>

#include "common/base/check.h"

namespace longwave {
namespace {

sigset_t TheSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t signals = TheSignals();
  LONGWAVE_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  thread_ = std::thread([this] {
    const sigset_t waited = TheSignals();
    int signal = 0;
    while (sigwait(&waited, &signal) != 0) {
    }
    source_.request_stop();
  });
}

StopSignals::~StopSignals() {
  // Nobody waits for the token any more; the thread is ended by the signal that it waits for.
  if (!source_.stop_requested()) pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

}  // namespace longwave
