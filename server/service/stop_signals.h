#ifndef LONGWAVE_SERVER_SERVICE_STOP_SIGNALS_H_
#define LONGWAVE_SERVER_SERVICE_STOP_SIGNALS_H_

#include <stop_token>
#include <thread>

namespace longwave {

// While it lives, SIGTERM and SIGINT request a stop instead of ending the process. Made first thing
// in main, before there are other threads: they inherit that these signals are not theirs.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::thread thread_;  // waits for the signals
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_STOP_SIGNALS_H_
