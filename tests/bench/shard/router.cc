#include "tests/bench/shard/router.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

void Serve(uint32_t peers, zmq::socket_t& socket) {
  std::map<uint32_t, std::vector<zmq::message_t>> senders;  // by segment, of the open round
  for (;;) {
    zmq::message_t peer, head, payload;
    (void)socket.recv(peer);
    (void)socket.recv(head);
    (void)socket.recv(payload);
    if (head.size() != kRawHeadBytes || payload.more()) continue;
    RawHead wanted;
    std::memcpy(&wanted, head.data(), sizeof wanted);
    if (wanted.reply_bytes > kRawReplyBytesMax) continue;
    std::vector<zmq::message_t>& waiting = senders[wanted.segment];
    waiting.push_back(std::move(peer));
    if (waiting.size() < peers) continue;
    zmq::message_t body(wanted.reply_bytes);
    std::memset(body.data(), 0, body.size());
    for (zmq::message_t& to : waiting) {
      zmq::message_t same_head, same_body;
      same_head.copy(head);
      same_body.copy(body);
      socket.send(to, zmq::send_flags::sndmore);
      socket.send(same_head, zmq::send_flags::sndmore);
      socket.send(same_body, zmq::send_flags::none);
    }
    waiting.clear();
  }
}

}  // namespace

absl::Status ServeRawRouter(uint32_t peers, const std::function<void(const std::string&)>& ready) {
  try {
    zmq::context_t context(1);
    zmq::socket_t socket(context, zmq::socket_type::router);
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.set(zmq::sockopt::rcvhwm, 0);
    socket.bind("tcp://127.0.0.1:*");
    ready(socket.get(zmq::sockopt::last_endpoint));
    Serve(peers, socket);
    return absl::OkStatus();
  } catch (const zmq::error_t& error) {
    return absl::InternalError(absl::StrCat("raw router, ZeroMQ: ", error.what()));
  }
}

}  // namespace longwave
