#include "common/link/doorkeeper.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"

namespace longwave {
namespace {

constexpr char kZapAddress[] = "inproc://zeromq.zap.01";

// Its part of a question that is shown to people comes from a stranger.
std::string Shown(const std::string& text) { return absl::CHexEscape(text.substr(0, 64)); }

// A handshake that is given up by the clock (Doorkeeper::kHandshakeMax) ends no earlier than this.
constexpr absl::Duration kGivenUpAfterMin = absl::Milliseconds(4500);
// Nor later than this, on a busy machine: a connection that ends then was through it long ago.
constexpr absl::Duration kGivenUpAfterMax = absl::Seconds(10);

// The other end's address, without its port; "": there is none any more.
std::string PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST];
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "";
  return host;
}

void Keep(Knock knock, std::vector<Knock>& knocks) {
  if (knocks.size() >= kKnocksMax) knocks.erase(knocks.begin());
  knocks.push_back(std::move(knock));
}

std::string_view HandshakeError(uint16_t event, uint32_t value) {
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
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      questions_(*context_, zmq::socket_type::rep) {
  LONGWAVE_CHECK(wake_fd_ >= 0);
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
  close(wake_fd_);
}

void Doorkeeper::Tell(std::unique_lock<std::mutex>& lock) {
  const uint64_t mine = ++told_;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
  changed_.wait(lock, [&] { return heeded_ >= mine; });
}

std::shared_ptr<Doorkeeper::Door> Doorkeeper::Open() {
  static std::atomic<uint64_t> number{0};
  auto door = std::make_shared<Door>();
  door->domain = absl::StrCat("longwave-", ++number);
  door->monitor = absl::StrCat("inproc://handshakes-of-", door->domain);
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
    std::vector<zmq::pollitem_t> items = {{nullptr, wake_fd_, ZMQ_POLLIN, 0},
                                          {questions_.handle(), 0, ZMQ_POLLIN, 0}};
    for (auto& [domain, one] : heard) items.push_back({one.monitor.handle(), 0, ZMQ_POLLIN, 0});
    try {
      zmq::poll(items, std::chrono::milliseconds(-1));
      if ((items[1].revents & ZMQ_POLLIN) != 0) Answer();
      size_t place = 2;
      for (auto& [domain, one] : heard) {
        if ((items[place++].revents & ZMQ_POLLIN) != 0) Hear(one.monitor, *one.door);
      }
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;  // the context is this object's own: nothing else ends it
    }
    if ((items[0].revents & ZMQ_POLLIN) == 0) continue;
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_fd_, &wakes, sizeof wakes);
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
  if (!admitted && door != nullptr) {
    const std::lock_guard lock(door->mutex);
    ++door->counts.keys;
    door->counts.last_key =
        absl::StrCat("the key ", user_id.substr(0, 16), "… is no member's, from ", Shown(address));
    Keep({&DoorCounts::keys, Shown(address), door->counts.last_key}, door->knocks);
  }
  // 300, not 400: a member whose key is still on its way here comes again, where a client that is
  // told 400 gives up for good.
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

void Doorkeeper::Hear(zmq::socket_t& monitor, Door& door) {
  zmq::message_t what, where;
  while (monitor.recv(what, zmq::recv_flags::dontwait)) {
    if (!what.more() || !monitor.recv(where, zmq::recv_flags::dontwait)) continue;
    uint16_t event = 0;
    uint32_t value = 0;
    if (what.size() != sizeof event + sizeof value) continue;
    std::memcpy(&event, what.data(), sizeof event);
    std::memcpy(&value, what.data<char>() + sizeof event, sizeof value);
    HearOf(event, value, door);
  }
}

// ZeroMQ 4.3 says of a handshake that has failed neither whose it was nor by which descriptor; but
// of one without a wrong word the end of its connection, which names that, comes next. Several
// threads for input and output may mix those of two connections up, so that what is counted does
// not hang on it.
void Doorkeeper::HearOf(uint16_t event, uint32_t value, Door& door) {
  const int fd = static_cast<int>(value);
  switch (event) {
    case ZMQ_EVENT_ACCEPTED:
      door.guests[fd] = {PeerOf(fd), MonotonicNow()};
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: {
      // Nothing comes after this one. It is of somebody who came a moment ago, which says who it is
      // where all of those have one address.
      const std::optional<Door::Guest> guest = OnlyNewGuest(door);
      if (door.failure) CountFailure(nullptr, door);
      door.failure = {event, value};
      CountFailure(guest ? &*guest : nullptr, door);
      return;
    }
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      if (door.failure) CountFailure(nullptr, door);
      door.failure = {event, value};
      return;
    case ZMQ_EVENT_DISCONNECTED: {
      const auto guest = door.guests.find(fd);
      const bool is_new =
          guest != door.guests.end() && MonotonicNow() - guest->second.came < kGivenUpAfterMax;
      if (door.failure) CountFailure(is_new ? &guest->second : nullptr, door);
      if (guest != door.guests.end()) door.guests.erase(guest);
      return;
    }
    default:
      return;
  }
}

std::optional<Doorkeeper::Door::Guest> Doorkeeper::OnlyNewGuest(const Door& door) {
  std::optional<Door::Guest> only;
  const absl::Time now = MonotonicNow();
  for (const auto& [fd, guest] : door.guests) {
    if (now - guest.came >= kGivenUpAfterMax) continue;
    if (only.has_value() && only->peer != guest.peer) return std::nullopt;
    only = guest;
  }
  return only;
}

void Doorkeeper::CountFailure(const Door::Guest* guest, Door& door) {
  const Door::Failure failure = *std::exchange(door.failure, std::nullopt);
  // Whoever goes again by itself, without a wrong word, knows no better or only looked whether the
  // port is open. What stays until the clock ends it is another matter.
  const bool went = failure.event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL &&
                    (failure.value == EPIPE || failure.value == ECONNRESET) && guest != nullptr &&
                    MonotonicNow() - guest->came < kGivenUpAfterMin;
  const std::string peer = guest == nullptr ? "" : guest->peer;
  const std::string sentence = absl::StrCat(
      "a connection to the data port: ",
      went ? "its other end closed it before it was through (a health check, a scan of ports)"
           : std::string(HandshakeError(failure.event, failure.value)),
      ", from ", peer.empty() ? "an address that was gone too soon" : peer);
  const std::lock_guard lock(door.mutex);
  ++(went ? door.counts.closed : door.counts.handshakes);
  (went ? door.counts.last_closed : door.counts.last_handshake) = sentence;
  Keep({went ? &DoorCounts::closed : &DoorCounts::handshakes, peer, sentence}, door.knocks);
}

}  // namespace longwave
