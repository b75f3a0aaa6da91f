#include "common/rpc/silent_connections.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"

namespace longwave {
namespace {

constexpr auto kLookInterval = std::chrono::seconds(1);
// Of the table: a connection that stands (linux/tcp_states.h).
constexpr absl::string_view kEstablished = "01";

std::string Text(const char* file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Address {
  std::string host;  // of IPv6 in brackets
  uint16_t port = 0;
};
// "0100007F:1F90", or that with 32 digits: each four bytes are a word of this machine's.
std::optional<Address> ReadAddress(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  uint32_t port = 0;
  if (!absl::SimpleHexAtoi(halves.second, &port)) return std::nullopt;
  const absl::string_view digits = halves.first;
  if (digits.size() != 8 && digits.size() != 32) return std::nullopt;
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < digits.size() / 8; ++i) {
    if (!absl::SimpleHexAtoi(digits.substr(8 * i, 8), &words[i])) return std::nullopt;
  }
  char host[INET6_ADDRSTRLEN];
  in6_addr wide{};
  std::memcpy(&wide, words.data(), sizeof wide);
  const bool is_mapped = digits.size() == 32 && IN6_IS_ADDR_V4MAPPED(&wide);
  if (digits.size() == 8 || is_mapped) {
    inet_ntop(AF_INET, &words[is_mapped ? 3 : 0], host, sizeof host);
    return Address{host, static_cast<uint16_t>(port)};
  }
  inet_ntop(AF_INET6, &wide, host, sizeof host);
  return Address{absl::StrCat("[", host, "]"), static_cast<uint16_t>(port)};
}

}  // namespace

void SilentConnections::Heard(const std::string& peer, absl::Time now) {
  Connection& connection = connections_[peer];
  if (!std::exchange(connection.heard, true)) connection.since = now;
}

std::vector<std::string> SilentConnections::Look(const std::vector<std::string>& connected,
                                                 absl::Time asked, absl::Time now) {
  std::vector<std::string> silent;
  const auto count = [&silent](const std::string& peer, Connection& connection) {
    if (connection.heard || std::exchange(connection.counted, true)) return;
    silent.push_back(peer);
  };
  for (const std::string& peer : connected) {
    const auto [found, is_new] = connections_.try_emplace(peer);
    Connection& connection = found->second;
    connection.there = true;
    connection.last = asked;
    if (is_new) connection.since = now;
    if (asked - connection.since >= kSilenceMax) count(peer, connection);
  }
  for (auto& [peer, connection] : connections_) {
    if (!connection.there && connection.last - connection.since >= kSeenMin)
      count(peer, connection);
  }
  // Somebody who was heard a moment ago may have come after the list was made.
  std::erase_if(connections_, [now](const auto& entry) {
    const Connection& connection = entry.second;
    return !connection.there && (!connection.heard || now - connection.since > kSilenceMax);
  });
  for (auto& [peer, connection] : connections_) connection.there = false;
  return silent;
}

std::string PeerOfGrpc(std::string_view peer) {
  absl::string_view rest(peer.data(), peer.size());
  if (!absl::ConsumePrefix(&rest, "ipv4:")) absl::ConsumePrefix(&rest, "ipv6:");
  std::string text = absl::StrReplaceAll(rest, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  const size_t scope = text.find('%'), end = text.rfind(']');
  if (scope < end && end != std::string::npos) text.erase(scope, end - scope);
  return text;
}

std::set<std::string> HostsOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = is_bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::set<std::string> hosts;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[INET6_ADDRSTRLEN];
    if (one->ai_family == AF_INET6) {
      const in6_addr& wide = reinterpret_cast<const sockaddr_in6*>(one->ai_addr)->sin6_addr;
      if (IN6_IS_ADDR_UNSPECIFIED(&wide)) return {};
      inet_ntop(AF_INET6, &wide, text, sizeof text);
      hosts.insert(absl::StrCat("[", text, "]"));
    } else if (one->ai_family == AF_INET) {
      const in_addr& narrow = reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr;
      if (narrow.s_addr == htonl(INADDR_ANY)) return {};
      inet_ntop(AF_INET, &narrow, text, sizeof text);
      hosts.insert(text);
    }
  }
  return hosts;
}

std::vector<std::string> PeersAt(const ListenAddress& local, std::string_view table) {
  std::vector<std::string> peers;
  const absl::string_view lines(table.data(), table.size());
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    // "  0: LOCAL REMOTE STATE …"
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::StripAsciiWhitespace(line), ' ', absl::SkipEmpty());
    if (fields.size() < 4 || fields[3] != kEstablished) continue;
    const std::optional<Address> own = ReadAddress(fields[1]), remote = ReadAddress(fields[2]);
    if (!own || !remote || own->port != local.port) continue;
    // Another process may listen on the same port of another address.
    if (!local.hosts.empty() && !local.hosts.contains(own->host)) continue;
    peers.push_back(absl::StrCat(remote->host, ":", remote->port));
  }
  return peers;
}

SilenceWatch::~SilenceWatch() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void SilenceWatch::Begin(ListenAddress local) {
  thread_ = std::jthread(
      [this, local = std::move(local)](std::stop_token stop) { Watch(std::move(stop), local); });
}

void SilenceWatch::Heard(const std::string& grpc_peer) {
  const std::lock_guard lock(mutex_);
  connections_.Heard(PeerOfGrpc(grpc_peer), MonotonicNow());
}

void SilenceWatch::Look(const std::vector<std::string>& connected, absl::Time asked,
                        absl::Time now) {
  std::vector<std::string> silent;
  {
    const std::lock_guard lock(mutex_);
    silent = connections_.Look(connected, asked, now);
  }
  // Without the lock, which every call takes: a log may be slow.
  if (refusals_ == nullptr) return;
  for (const std::string& peer : silent) {
    refusals_->Note(Refusal::kHalfOpen,
                    "a connection to the control port that has stood for some seconds and made no "
                    "call",
                    peer);
  }
}

void SilenceWatch::Watch(std::stop_token stop, const ListenAddress& local) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, kLookInterval, [] { return false; });
    }
    const absl::Time asked = MonotonicNow();
    std::vector<std::string> connected = PeersAt(local, Text("/proc/net/tcp"));
    for (std::string& peer : PeersAt(local, Text("/proc/net/tcp6")))
      connected.push_back(std::move(peer));
    Look(connected, asked, MonotonicNow());
  }
}

}  // namespace longwave
