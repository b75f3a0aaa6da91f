#include "worker/node/socket_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr uint32_t kFailed = ~uint32_t{0};
// Above the events of any step. Bytes of another process of this program, not of a network.
constexpr uint32_t kMessageBytesMax = uint32_t{1} << 30;
constexpr absl::Duration kPollMax = absl::Hours(1);

void AppendMessage(uint32_t head, std::string_view bytes, std::string* out) {
  out->append(reinterpret_cast<const char*>(&head), sizeof(head));
  out->append(bytes);
}

}  // namespace

SocketLink::SocketLink(NodeRank node, std::vector<int> sockets)
    : node_(node), sockets_(std::move(sockets)) {
  LONGWAVE_CHECK(sockets_.size() == (node_.rank == 0 ? node_.ranks - 1 : 1));
}

SocketLink::~SocketLink() {
  for (const int socket : sockets_) close(socket);
}

absl::StatusOr<std::vector<std::string>> SocketLink::AllGather(std::string_view mine,
                                                               absl::Duration patience) {
  LONGWAVE_RETURN_IF_ERROR(broken_);
  patience_ = patience;
  deadline_ = MonotonicNow() + patience;
  absl::StatusOr<std::vector<std::string>> all =
      mine.size() > kMessageBytesMax
          ? ResourceExhausted("node: got a message of ", mine.size(), " bytes, wanted at most ",
                              kMessageBytesMax)
      : node_.rank == 0 ? Collect(mine)
                        : GiveAndTake(mine);
  if (all.ok()) return all;
  broken_ = all.status();
  TellFailure(std::string(broken_.message()));
  return broken_;
}

absl::StatusOr<std::vector<std::string>> SocketLink::Collect(std::string_view mine) {
  std::vector<std::string> all = {std::string(mine)};
  // A rank that has ended is noticed while a slower one before it is awaited.
  std::vector<pollfd> waited;
  for (const int socket : sockets_) waited.push_back({.fd = socket, .events = POLLIN});
  all.resize(node_.ranks);
  for (size_t missing = sockets_.size(); missing > 0;) {
    const absl::Duration left = std::min(deadline_ - MonotonicNow(), kPollMax);
    const int ready = poll(waited.data(), waited.size(),
                           static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left))));
    if (ready < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "node: poll");
    for (size_t s = 0; ready > 0 && s < waited.size(); ++s) {
      if (waited[s].revents == 0) continue;
      LONGWAVE_ASSIGN_OR_RETURN(all[s + 1], ReceiveMessage(s));
      waited[s].fd = -1;  // poll ignores it
      --missing;
    }
    if (missing == 0 || MonotonicNow() < deadline_) continue;
    std::string late;
    for (size_t s = 0; s < waited.size(); ++s) {
      if (waited[s].fd >= 0) absl::StrAppend(&late, late.empty() ? "" : ", ", s + 1);
    }
    return Unavailable("node: rank ", late, " has not come within ",
                       absl::FormatDuration(patience_));
  }
  std::string out;
  for (const std::string& each : all) AppendMessage(static_cast<uint32_t>(each.size()), each, &out);
  for (size_t s = 0; s < sockets_.size(); ++s) LONGWAVE_RETURN_IF_ERROR(Send(s, out));
  return all;
}

absl::StatusOr<std::vector<std::string>> SocketLink::GiveAndTake(std::string_view mine) {
  std::string out;
  AppendMessage(static_cast<uint32_t>(mine.size()), mine, &out);
  LONGWAVE_RETURN_IF_ERROR(Send(0, out));
  std::vector<std::string> all(node_.ranks);
  for (std::string& each : all) {
    LONGWAVE_ASSIGN_OR_RETURN(each, ReceiveMessage(0));
  }
  return all;
}

absl::Status SocketLink::Ended(size_t socket) const {
  return Unavailable("node: rank ", RankOf(socket), " has ended");
}

absl::Status SocketLink::Await(size_t socket, short events) {
  pollfd waited = {.fd = sockets_[socket], .events = events};
  for (;;) {
    const absl::Duration left = std::min(deadline_ - MonotonicNow(), kPollMax);
    const int ready =
        poll(&waited, 1, static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left))));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "node: poll");
    if (MonotonicNow() >= deadline_) {
      return Unavailable("node: a rank has not come within ", absl::FormatDuration(patience_));
    }
  }
}

absl::Status SocketLink::Send(size_t socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(sockets_[socket], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      LONGWAVE_RETURN_IF_ERROR(Await(socket, POLLOUT));
    } else if (errno != EINTR) {
      return Ended(socket);
    }
  }
  return absl::OkStatus();
}

absl::Status SocketLink::Receive(size_t socket, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(sockets_[socket], bytes, size, MSG_DONTWAIT);
    if (got > 0) {
      bytes += got;
      size -= static_cast<size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      LONGWAVE_RETURN_IF_ERROR(Await(socket, POLLIN));
    } else if (got == 0 || errno != EINTR) {
      return Ended(socket);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SocketLink::ReceiveMessage(size_t socket) {
  uint32_t head = 0;
  LONGWAVE_RETURN_IF_ERROR(Receive(socket, reinterpret_cast<char*>(&head), sizeof(head)));
  const bool failed = head == kFailed;
  if (failed)
    LONGWAVE_RETURN_IF_ERROR(Receive(socket, reinterpret_cast<char*>(&head), sizeof(head)));
  if (head > kMessageBytesMax)
    return Internal("node: rank ", RankOf(socket), " sends ", head, " bytes, wanted at most ",
                    kMessageBytesMax);
  std::string bytes(head, '\0');
  LONGWAVE_RETURN_IF_ERROR(Receive(socket, bytes.data(), bytes.size()));
  if (failed) return Unavailable(bytes);
  return bytes;
}

void SocketLink::TellFailure(std::string_view text) {
  std::string out;
  AppendMessage(kFailed, "", &out);
  AppendMessage(static_cast<uint32_t>(text.size()), text, &out);
  // A rank that hangs may have a full socket, and gets no sentence. One that has got half of a
  // message takes the rest for the end of it, and fails all the same.
  for (const int socket : sockets_)
    static_cast<void>(send(socket, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace longwave
