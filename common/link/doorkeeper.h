#ifndef LONGWAVE_COMMON_LINK_DOORKEEPER_H_
#define LONGWAVE_COMMON_LINK_DOORKEEPER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "absl/time/time.h"
#include "common/link/curve.h"

namespace longwave {

// Private to this folder: the thread that answers ZeroMQ's questions about keys (ZAP, RFC 27), and
// hears of handshakes that fail. A context has one, since all its sockets ask at one address.
class Doorkeeper {
 public:
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
      std::string peer;
      absl::Time came;
    };
    std::map<int, Guest> guests;
    // A handshake that has failed, of a connection whose end is told next.
    struct Failure {
      uint16_t event = 0;
      uint32_t value = 0;
    };
    std::optional<Failure> failure;
  };

  // In which a connection has to be through its handshake.
  static constexpr absl::Duration kHandshakeMax = absl::Seconds(5);

  // The context's, made for its first door and kept while there is one.
  static std::shared_ptr<Doorkeeper> Of(const std::shared_ptr<zmq::context_t>& context);
  explicit Doorkeeper(std::shared_ptr<zmq::context_t> context);
  ~Doorkeeper();

  // A door, answered for from now on.
  std::shared_ptr<Door> Open();
  // Once the monitor is there, and before the router binds: returns when it is heard.
  void Watch(const std::shared_ptr<Door>& door);
  // Returns when the monitor is not heard any more.
  void Close(const std::shared_ptr<Door>& door);

 private:
  void Serve();
  void Answer();
  static void Hear(zmq::socket_t& monitor, Door& door);
  static void HearOf(uint16_t event, uint32_t value, Door& door);
  // One of those who came lately, if all of them have one address.
  static std::optional<Door::Guest> OnlyNewGuest(const Door& door);
  // Counts the door's failure, of that guest (null: nobody knows of whom).
  static void CountFailure(const Door::Guest* guest, Door& door);
  // Has the thread look at doors_, and waits until it has.
  void Tell(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<zmq::context_t> context_;
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
