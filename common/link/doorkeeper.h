#ifndef LONGWAVE_COMMON_LINK_DOORKEEPER_H_
#define LONGWAVE_COMMON_LINK_DOORKEEPER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/link/curve.h"

namespace longwave {

// Private to this folder: the thread that answers ZeroMQ's questions about keys (ZAP, RFC 27), and
// hears of handshakes that fail. A context has one, since all its sockets ask at one address.
class Doorkeeper {
 public:
  // The other end of a connection; empty: nobody knows.
  struct Peer {
    std::string host;
    std::string address;  // "1.2.3.4:5", "[::1]:5"
  };
  // What a router's door is: whom it admits, and what came to it.
  struct Door {
    std::string domain;   // the router's, for its questions
    std::string monitor;  // inproc endpoint at which its handshakes are told
    AdmittedKeys admitted;

    mutable std::mutex mutex;
    DoorCounts counts;
    std::vector<Knock> knocks;

    // The following are the doorkeeper's thread's. Who is connected, by the connection's
    // descriptor.
    struct Guest {
      Peer peer;
      absl::Time came;
    };
    std::map<int, Guest> guests;
    // A handshake that has failed, of a connection whose end is told next.
    struct Failure {
      uint16_t event = 0;
      uint32_t value = 0;
      bool mixed = false;  // another one had not ended yet
    };
    std::optional<Failure> failure;
  };

  // In which a connection has to be through its handshake.
  static constexpr absl::Duration kHandshakeMax = absl::Seconds(5);

  // The context's, made for its first door and kept while there is one.
  static std::shared_ptr<Doorkeeper> Of(const std::shared_ptr<zmq::context_t>& context);
  using Clock = std::function<absl::Time()>;
  explicit Doorkeeper(std::shared_ptr<zmq::context_t> context, Clock clock = MonotonicNow);
  ~Doorkeeper();

  // A door, answered for from now on.
  std::shared_ptr<Door> Open();
  // Once the monitor is there, and before the router binds: returns when it is heard.
  void Watch(const std::shared_ptr<Door>& door);
  // Returns when the monitor is not heard any more.
  void Close(const std::shared_ptr<Door>& door);

  // What ZeroMQ tells of a door (zmq_socket_monitor). Here for tests: the thread hears it by
  // itself.
  struct Told {
    uint16_t event = 0;
    uint32_t value = 0;
    Peer peer;  // of ZMQ_EVENT_ACCEPTED
  };
  // All that waits at the monitor.
  static std::vector<Told> TakeTold(zmq::socket_t& monitor);
  static void HearOf(const Told& told, absl::Time now, Door& door);

 private:
  void Serve();
  void Answer();
  // Counts the door's failure, of that guest (null: nobody knows of whom).
  static void CountFailure(const Door::Guest* guest, absl::Time now, Door& door);
  // Has the thread look at doors_, and waits until it has.
  void Tell(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<zmq::context_t> context_;
  const Clock clock_;
  const int wake_fd_;
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
