#ifndef LONGWAVE_COMMON_LINK_DOORKEEPER_H_
#define LONGWAVE_COMMON_LINK_DOORKEEPER_H_

#include <thread>
#include <zmq.hpp>

#include "common/base/wake_event.h"
#include "common/link/curve.h"
#include "common/log/refusals.h"

namespace longwave {

// Private to this folder: the thread that answers ZeroMQ's authentication requests (ZAP, RFC 27)
// for a secured router, and counts the connections that are refused. ZAP has one address in a
// context, so such a router has a context of its own.
class Doorkeeper {
 public:
  // Before the router binds. Both outlive this. refusals: null (not counted), or outlives this.
  // Throws zmq::error_t.
  Doorkeeper(zmq::context_t& context, zmq::socket_t& router, Refusals* refusals);
  ~Doorkeeper();

  AdmittedKeys& admitted() { return admitted_; }

 private:
  void Serve();
  void Answer();
  // Counts all events that wait at the monitor (zmq_socket_monitor).
  void CountFailures();
  void Count(const char* sentence);

  zmq::socket_t& router_;
  Refusals* const refusals_;
  AdmittedKeys admitted_;
  const WakeEvent ending_;
  zmq::socket_t questions_;  // this and the next are the thread's
  zmq::socket_t failures_;
  std::thread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_DOORKEEPER_H_
