#ifndef LONGWAVE_TESTS_INTRUDER_RAW_DEALER_H_
#define LONGWAVE_TESTS_INTRUDER_RAW_DEALER_H_

#include <string>
#include <vector>

#include "common/link/curve.h"
#include "zmq.h"

namespace longwave {

// A member's connection that takes messages of any parts, which Dealer refuses to send.
class RawDealer {
 public:
  RawDealer(const KeyedEndpoint& to, const CurveKeys& keys)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
    const int linger = 0, queue = 16;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &queue, sizeof queue);
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &queue, sizeof queue);
    zmq_setsockopt(socket_, ZMQ_CURVE_PUBLICKEY, keys.public_key.data(), kCurveKeyBytes);
    zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, keys.secret_key.data(), kCurveKeyBytes);
    zmq_setsockopt(socket_, ZMQ_CURVE_SERVERKEY, to.key.data(), to.key.size());
    zmq_connect(socket_, to.endpoint.c_str());
  }
  ~RawDealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawDealer(const RawDealer&) = delete;
  RawDealer& operator=(const RawDealer&) = delete;

  // Parts without space in the queue are lost.
  void Send(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int more = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      if (zmq_send(socket_, parts[i].data(), parts[i].size(), more | ZMQ_DONTWAIT) < 0) return;
    }
  }

 private:
  void* const context_;
  void* const socket_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_RAW_DEALER_H_
