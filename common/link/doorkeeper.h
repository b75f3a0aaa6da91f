#ifndef LONGWAVE_COMMON_LINK_DOORKEEPER_H_
#define LONGWAVE_COMMON_LINK_DOORKEEPER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "common/base/wake_event.h"
#include "common/link/curve.h"
#include "common/log/refusals.h"

namespace longwave {

// Private to this folder: the thread that answers ZeroMQ's authentication requests (ZAP, RFC 27)
// and receives the events of failed handshakes. One for each context, since all its sockets use one
// ZAP address.
class Doorkeeper {
 public:
  // A router's access list, and the counters of its rejects.
  struct Door {
    std::string domain;            // the router's, in ZAP requests
    std::string monitor;           // inproc endpoint of its handshake-failure events
    Refusals* refusals = nullptr;  // null: rejects are not counted
    AdmittedKeys admitted;
  };

  // The context's instance, made for its first router and kept while one lives.
  static std::shared_ptr<Doorkeeper> Of(const std::shared_ptr<zmq::context_t>& context);
  explicit Doorkeeper(std::shared_ptr<zmq::context_t> context);
  ~Doorkeeper();

  // Registers a router. refusals outlives the returned object.
  std::shared_ptr<Door> Open(Refusals* refusals);
  // Call after the monitor is set up and before the router binds. Returns once the thread reads it.
  void Watch(const std::shared_ptr<Door>& door);
  // Returns once the thread no longer reads the monitor.
  void Close(const std::shared_ptr<Door>& door);

 private:
  void Serve();
  void Answer();
  // Counts all events that wait at the monitor (zmq_socket_monitor).
  static void CountFailures(zmq::socket_t& monitor, const Door& door);
  // Makes the thread reread doors_, and waits until it has.
  void Tell(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<zmq::context_t> context_;
  const WakeEvent wake_;
  zmq::socket_t questions_;  // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Door>> doors_;    // by domain
  std::map<std::string, std::shared_ptr<Door>> watched_;  // of them
  uint64_t told_ = 0;                                     // grows with each change
  uint64_t heeded_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_DOORKEEPER_H_
