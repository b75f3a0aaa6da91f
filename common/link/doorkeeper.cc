#include "common/link/doorkeeper.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

namespace longwave {
namespace {

constexpr char kZapAddress[] = "inproc://zeromq.zap.01";
constexpr char kFailuresAddress[] = "inproc://failed-handshakes";

}  // namespace

Doorkeeper::Doorkeeper(zmq::context_t& context, zmq::socket_t& router, Refusals* refusals)
    : router_(router),
      refusals_(refusals),
      ending_(*WakeEvent::Create()),
      questions_(context, zmq::socket_type::rep),
      failures_(context, zmq::socket_type::pair) {
  questions_.set(zmq::sockopt::linger, 0);
  questions_.bind(kZapAddress);
  // Not the connections that their other end closes or that time out: health checks and port scans
  // close theirs without sending anything.
  if (zmq_socket_monitor(router_.handle(), kFailuresAddress, ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) !=
      0) {
    throw zmq::error_t();
  }
  failures_.set(zmq::sockopt::linger, 0);
  failures_.connect(kFailuresAddress);
  thread_ = std::thread([this] { Serve(); });
}

Doorkeeper::~Doorkeeper() {
  zmq_socket_monitor(router_.handle(), nullptr, 0);
  ending_.Wake();
  thread_.join();
}

void Doorkeeper::Serve() {
  zmq::pollitem_t items[] = {{nullptr, ending_.fd(), ZMQ_POLLIN, 0},
                             {questions_.handle(), 0, ZMQ_POLLIN, 0},
                             {failures_.handle(), 0, ZMQ_POLLIN, 0}};
  while ((items[0].revents & ZMQ_POLLIN) == 0) {
    try {
      zmq::poll(items, std::size(items), std::chrono::milliseconds(-1));
      if ((items[1].revents & ZMQ_POLLIN) != 0) Answer();
      if ((items[2].revents & ZMQ_POLLIN) != 0) CountFailures();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;  // the context outlives the thread
    }
  }
}

void Doorkeeper::Answer() {
  // version, request, domain, address, identity, mechanism, key
  std::vector<std::string> parts;
  bool more = true;
  while (more) {
    zmq::message_t part;
    if (!questions_.recv(part, zmq::recv_flags::dontwait)) return;
    more = part.more();
    parts.push_back(part.to_string());
  }
  parts.resize(7);
  const std::string &mechanism = parts[5], &key = parts[6];
  const std::string user_id = absl::BytesToHexString(key);
  const bool is_admitted = mechanism == "CURVE" && key.size() == kCurveKeyBytes &&
                           admitted_.WorkerOf(user_id).has_value();
  if (!is_admitted) Count("a connection to the data port: its key is no member's");
  // 300 instead of 400: a client gives up after 400, but a member whose key is still on its way
  // here must retry.
  const std::string answer[] = {"1.0",
                                parts[1],
                                is_admitted ? "200" : "300",
                                is_admitted ? "OK" : "not a member",
                                is_admitted ? user_id : "",
                                ""};
  for (size_t i = 0; i < std::size(answer); ++i) {
    questions_.send(zmq::buffer(answer[i]),
                    i + 1 < std::size(answer) ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

void Doorkeeper::CountFailures() {
  zmq::message_t event, endpoint;
  while (failures_.recv(event, zmq::recv_flags::dontwait)) {
    static_cast<void>(failures_.recv(endpoint, zmq::recv_flags::dontwait));
    Count("a connection to the data port: it does not speak CURVE with this shard's key");
  }
}

void Doorkeeper::Count(const char* sentence) {
  if (refusals_ != nullptr) refusals_->Note(Refusal::kDataConnection, sentence);
}

}  // namespace longwave
