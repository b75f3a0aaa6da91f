#include "common/link/doorkeeper.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longwave {
namespace {

constexpr char kZapAddress[] = "inproc://zeromq.zap.01";

// Its part of a question that is shown to people comes from a stranger.
std::string Shown(const std::string& text) { return absl::CHexEscape(text.substr(0, 64)); }

// A handshake that is given up by the clock (Doorkeeper::kHandshakeMax) ends no earlier than this.
constexpr absl::Duration kGivenUpAfterMin = absl::Milliseconds(4500);
// Nor later than this, on a busy machine: a connection that ends then was through it long ago.
constexpr absl::Duration kGivenUpAfterMax = absl::Seconds(10);

std::string PortOf(const std::string& address) {
  return address.substr(std::min(address.rfind(':'), address.size()));
}

// An IPv4 address as such, too, where the port is one of both families.
std::optional<Doorkeeper::Peer> ReadAddress(sockaddr_storage address, socklen_t size) {
  if (const auto& wide = reinterpret_cast<const sockaddr_in6&>(address);
      address.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&wide.sin6_addr)) {
    sockaddr_in narrow{};
    narrow.sin_family = AF_INET;
    narrow.sin_port = wide.sin6_port;
    std::memcpy(&narrow.sin_addr, &wide.sin6_addr.s6_addr[12], sizeof narrow.sin_addr);
    std::memcpy(&address, &narrow, size = sizeof narrow);
  }
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return std::nullopt;
  const bool is_wide = address.ss_family == AF_INET6;
  return Doorkeeper::Peer{
      host, absl::StrCat(is_wide ? "[" : "", host, is_wide ? "]:" : ":", std::string(port))};
}

// The other end of a connection that was accepted at `local`, "tcp://host:port"; empty if there is
// none any more. By now the descriptor may be that of another one: of another port, which shows.
Doorkeeper::Peer PeerOf(int fd, const std::string& local) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  const std::optional<Doorkeeper::Peer> own = ReadAddress(address, size);
  if (!own || PortOf(own->address) != PortOf(local)) return {};
  size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return ReadAddress(address, size).value_or(Doorkeeper::Peer());
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

Doorkeeper::Doorkeeper(std::shared_ptr<zmq::context_t> context, Clock clock)
    : context_(std::move(context)),
      clock_(std::move(clock)),
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
        if ((items[place++].revents & ZMQ_POLLIN) == 0) continue;
        for (const Told& told : TakeTold(one.monitor)) HearOf(told, clock_(), *one.door);
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
    // ZeroMQ names the address alone, without the port.
    Knock knock{&DoorCounts::keys, Shown(address), Shown(address),
                absl::StrCat("the key ", user_id.substr(0, 16), "… is no member's")};
    door->counts.last_key = WithAddress(knock);
    Keep(std::move(knock), door->knocks);
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

std::vector<Doorkeeper::Told> Doorkeeper::TakeTold(zmq::socket_t& monitor) {
  std::vector<Told> all;
  std::map<uint32_t, size_t> accepted;  // the last place in `all`, by descriptor
  zmq::message_t what, where;
  while (monitor.recv(what, zmq::recv_flags::dontwait)) {
    if (!what.more() || !monitor.recv(where, zmq::recv_flags::dontwait)) continue;
    Told told;
    if (what.size() != sizeof told.event + sizeof told.value) continue;
    std::memcpy(&told.event, what.data(), sizeof told.event);
    std::memcpy(&told.value, what.data<char>() + sizeof told.event, sizeof told.value);
    if (told.event == ZMQ_EVENT_ACCEPTED) {
      told.peer = PeerOf(static_cast<int>(told.value), where.to_string());
      // An end is told before its descriptor is free for the next one. So if that was free when it
      // was asked about for the one before, whose it was then comes now, and the address may be
      // that one's.
      const auto [before, is_first] = accepted.try_emplace(told.value, all.size());
      if (!is_first) all[std::exchange(before->second, all.size())].peer = {};
    }
    all.push_back(std::move(told));
  }
  return all;
}

// ZeroMQ 4.3 says of a handshake that has failed neither whose it was nor by which descriptor. But
// the end of its connection, which names that, is the next thing that its thread tells. Several
// threads for input and output may mix up those of several connections: each failure still counts
// once, and where two wait for their ends at once neither has an address.
void Doorkeeper::HearOf(const Told& told, absl::Time now, Door& door) {
  switch (told.event) {
    case ZMQ_EVENT_ACCEPTED:
      door.guests[static_cast<int>(told.value)] = {told.peer, now};
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: {
      const bool mixed = door.failure.has_value();
      if (mixed) CountFailure(nullptr, now, door);
      door.failure = {told.event, told.value, mixed};
      return;
    }
    case ZMQ_EVENT_DISCONNECTED: {
      const auto guest = door.guests.find(static_cast<int>(told.value));
      const bool is_new = guest != door.guests.end() && now - guest->second.came < kGivenUpAfterMax;
      if (door.failure) {
        CountFailure(is_new && !door.failure->mixed ? &guest->second : nullptr, now, door);
      }
      if (guest != door.guests.end()) door.guests.erase(guest);
      return;
    }
    default:
      return;
  }
}

void Doorkeeper::CountFailure(const Door::Guest* guest, absl::Time now, Door& door) {
  const Door::Failure failure = *std::exchange(door.failure, std::nullopt);
  // Whoever goes again by itself, without a wrong word, knows no better or only looked whether the
  // port is open. What stays until the clock ends it is another matter, and only the time tells: of
  // that one ZeroMQ tells whatever error its thread had last. Of an unknown one it is believed.
  const bool went = failure.event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL &&
                    (failure.value == EPIPE || failure.value == ECONNRESET) &&
                    (guest == nullptr || now - guest->came < kGivenUpAfterMin);
  Knock knock{.counted = went ? &DoorCounts::closed : &DoorCounts::handshakes};
  if (guest != nullptr)
    std::tie(knock.peer, knock.from) = std::tie(guest->peer.host, guest->peer.address);
  knock.sentence = absl::StrCat(
      "a connection to the data port: ",
      went ? "its other end closed it before it was through (a health check, a scan of ports)"
           : std::string(HandshakeError(failure.event, failure.value)));
  const std::lock_guard lock(door.mutex);
  ++(door.counts.*knock.counted);
  (went ? door.counts.last_closed : door.counts.last_handshake) = WithAddress(knock);
  Keep(std::move(knock), door.knocks);
}

}  // namespace longwave
