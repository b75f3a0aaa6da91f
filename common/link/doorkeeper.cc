#include "common/link/doorkeeper.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

constexpr char kZapAddress[] = "inproc://zeromq.zap.01";

// Escapes and cuts a part of a ZAP request, which a stranger sent, for people.
std::string Shown(const std::string& text) { return absl::CHexEscape(text.substr(0, 64)); }

const char* HandshakeError(uint16_t event, uint32_t value) {
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
    return "it ended, or did not go on, in the midst of its handshake";
  switch (value) {
    case ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
      return "it does not speak CURVE: a plain client";
    case ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC:
      return "it holds another key of this shard for true";
    default:
      return "it does not keep to ZeroMQ's protocol";
  }
}

}  // namespace

std::shared_ptr<Doorkeeper> Doorkeeper::Of(const std::shared_ptr<zmq::context_t>& context) {
  static std::mutex mutex;
  static std::map<zmq::context_t*, std::weak_ptr<Doorkeeper>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Doorkeeper>& known = all[context.get()];
  std::shared_ptr<Doorkeeper> keeper = known.lock();
  if (keeper == nullptr) {
    keeper = std::make_shared<Doorkeeper>(context);
    known = keeper;
  }
  return keeper;
}

Doorkeeper::Doorkeeper(std::shared_ptr<zmq::context_t> context)
    : context_(std::move(context)),
      wake_(*WakeEvent::Create()),
      questions_(*context_, zmq::socket_type::rep) {
  questions_.set(zmq::sockopt::linger, 0);
  questions_.bind(kZapAddress);
  thread_ = std::thread([this] { Serve(); });
}

Doorkeeper::~Doorkeeper() {
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    Tell(lock);
  }
  thread_.join();
}

void Doorkeeper::Tell(std::unique_lock<std::mutex>& lock) {
  const uint64_t mine = ++told_;
  wake_.Wake();
  changed_.wait(lock, [&] { return heeded_ >= mine; });
}

std::shared_ptr<Doorkeeper::Door> Doorkeeper::Open(Refusals* refusals) {
  static std::atomic<uint64_t> number{0};
  auto door = std::make_shared<Door>();
  door->domain = absl::StrCat("longwave-", ++number);
  door->monitor = absl::StrCat("inproc://handshakes-of-", door->domain);
  door->refusals = refusals;
  const std::lock_guard lock(mutex_);
  doors_[door->domain] = door;
  return door;
}

void Doorkeeper::Watch(const std::shared_ptr<Door>& door) {
  std::unique_lock lock(mutex_);
  watched_[door->domain] = door;
  Tell(lock);
}

void Doorkeeper::Close(const std::shared_ptr<Door>& door) {
  std::unique_lock lock(mutex_);
  doors_.erase(door->domain);
  watched_.erase(door->domain);
  Tell(lock);
}

void Doorkeeper::Serve() {
  struct Heard {
    std::shared_ptr<Door> door;
    zmq::socket_t monitor;
  };
  std::map<std::string, Heard> heard;
  bool ending = false;
  while (!ending) {
    std::vector<zmq::pollitem_t> items = {{nullptr, wake_.fd(), ZMQ_POLLIN, 0},
                                          {questions_.handle(), 0, ZMQ_POLLIN, 0}};
    for (auto& [domain, one] : heard) items.push_back({one.monitor.handle(), 0, ZMQ_POLLIN, 0});
    try {
      zmq::poll(items, std::chrono::milliseconds(-1));
      if ((items[1].revents & ZMQ_POLLIN) != 0) Answer();
      size_t place = 2;
      for (auto& [domain, one] : heard) {
        if ((items[place++].revents & ZMQ_POLLIN) == 0) continue;
        CountFailures(one.monitor, *one.door);
      }
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;  // only the destructor ends the context
    }
    if ((items[0].revents & ZMQ_POLLIN) == 0) continue;
    wake_.Take();
    const std::lock_guard lock(mutex_);
    std::erase_if(heard, [this](const auto& entry) { return !watched_.contains(entry.first); });
    for (const auto& [domain, door] : watched_) {
      if (heard.contains(domain)) continue;
      zmq::socket_t monitor(*context_, zmq::socket_type::pair);
      monitor.set(zmq::sockopt::linger, 0);
      monitor.connect(door->monitor);
      heard.emplace(domain, Heard{door, std::move(monitor)});
    }
    ending = ending_;
    heeded_ = told_;
    changed_.notify_all();
  }
  heard.clear();
  questions_.close();
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
  const std::string &domain = parts[2], &address = parts[3], &mechanism = parts[5], &key = parts[6];
  std::shared_ptr<Door> door;
  {
    const std::lock_guard lock(mutex_);
    const auto found = doors_.find(domain);
    if (found != doors_.end()) door = found->second;
  }
  const std::string user_id = absl::BytesToHexString(key);
  const bool admitted = door != nullptr && mechanism == "CURVE" && key.size() == kCurveKeyBytes &&
                        door->admitted.WorkerOf(user_id).has_value();
  if (!admitted && door != nullptr && door->refusals != nullptr) {
    door->refusals->Note(Refusal::kDataKey,
                         absl::StrCat("the key ", user_id.substr(0, 16), "… is no member's"),
                         Shown(address));
  }
  // 300 instead of 400: a client gives up after 400, but a member whose key is still on its way
  // here must retry.
  const std::string answer[] = {"1.0",
                                parts[1],
                                admitted ? "200" : "300",
                                admitted ? "OK" : "not a member",
                                admitted ? user_id : "",
                                ""};
  for (size_t i = 0; i < std::size(answer); ++i) {
    questions_.send(zmq::buffer(answer[i]),
                    i + 1 < std::size(answer) ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

// ZeroMQ 4.3 does not report the handshake's peer address.
void Doorkeeper::CountFailures(zmq::socket_t& monitor, const Door& door) {
  zmq::message_t what, where;
  while (monitor.recv(what, zmq::recv_flags::dontwait)) {
    if (!what.more() || !monitor.recv(where, zmq::recv_flags::dontwait)) continue;
    uint16_t event = 0;
    uint32_t value = 0;
    if (door.refusals == nullptr || what.size() != sizeof event + sizeof value) continue;
    std::memcpy(&event, what.data(), sizeof event);
    std::memcpy(&value, what.data<char>() + sizeof event, sizeof value);
    // Health checks and port scans close their connection without sending anything.
    const bool closed =
        event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL && (value == EPIPE || value == ECONNRESET);
    door.refusals->Note(
        closed ? Refusal::kDataClosed : Refusal::kDataHandshake,
        absl::StrCat("a connection to the data port: ",
                     closed ? "its other end closed it before it was through (a health check, a "
                              "scan of ports)"
                            : HandshakeError(event, value)));
  }
}

}  // namespace longwave
