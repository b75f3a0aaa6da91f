#include "common/rpc/silent_connections.h"

#include <arpa/inet.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
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
                                                 absl::Time now) {
  std::vector<std::string> silent;
  for (const std::string& peer : connected) {
    const auto [found, is_new] = connections_.try_emplace(peer);
    Connection& connection = found->second;
    connection.there = true;
    if (is_new) connection.since = now;
    if (connection.heard || connection.counted || now - connection.since < kSilenceMax) continue;
    connection.counted = true;
    silent.push_back(peer);
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
  return absl::StrReplaceAll(rest, {{"%5B", "["}, {"%5D", "]"}});
}

std::vector<std::string> PeersAt(uint16_t port, std::string_view table) {
  std::vector<std::string> peers;
  const absl::string_view lines(table.data(), table.size());
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    // "  0: LOCAL REMOTE STATE …"
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::StripAsciiWhitespace(line), ' ', absl::SkipEmpty());
    if (fields.size() < 4 || fields[3] != kEstablished) continue;
    const std::optional<Address> local = ReadAddress(fields[1]), remote = ReadAddress(fields[2]);
    if (!local || !remote || local->port != port) continue;
    peers.push_back(absl::StrCat(remote->host, ":", remote->port));
  }
  return peers;
}

SilenceWatch::~SilenceWatch() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void SilenceWatch::Begin(uint16_t port) {
  thread_ = std::jthread([this, port](std::stop_token stop) { Watch(std::move(stop), port); });
}

void SilenceWatch::Heard(const std::string& grpc_peer) {
  const std::lock_guard lock(mutex_);
  connections_.Heard(PeerOfGrpc(grpc_peer), MonotonicNow());
}

void SilenceWatch::Watch(std::stop_token stop, uint16_t port) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kLookInterval, [] { return false; });
    lock.unlock();
    std::vector<std::string> connected = PeersAt(port, Text("/proc/net/tcp"));
    for (std::string& peer : PeersAt(port, Text("/proc/net/tcp6")))
      connected.push_back(std::move(peer));
    lock.lock();
    for (const std::string& peer : connections_.Look(connected, MonotonicNow())) {
      refusals_->Note(
          Refusal::kHalfOpen,
          "a connection to the control port that has stood for some seconds and made no "
          "call",
          peer);
    }
  }
}

}  // namespace longwave
