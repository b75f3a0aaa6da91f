#ifndef LONGWAVE_WORKER_NODE_SOCKET_LINK_H_
#define LONGWAVE_WORKER_NODE_SOCKET_LINK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/member/node_link.h"

namespace longwave {

// The link between processes of one machine: a star of stream sockets around rank 0, which collects
// the bytes of all ranks and sends them to each. The end of a process closes its socket, so rank 0
// notices it at once and tells the other ranks.
//
// A message is its size (u32, native byte order) and its bytes; kFailed instead of a size: the text
// of an error follows. From rank 0 a message is one of each rank, by rank.
class SocketLink final : public NodeLink {
 public:
  // sockets: at rank 0 those of ranks 1, 2, …; at other ranks the one of rank 0. The link closes
  // them.
  SocketLink(NodeRank node, std::vector<int> sockets);
  ~SocketLink() override;
  SocketLink(const SocketLink&) = delete;
  SocketLink& operator=(const SocketLink&) = delete;

  NodeRank node() const override { return node_; }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string_view mine,
                                                     absl::Duration patience) override;

 private:
  absl::StatusOr<std::vector<std::string>> Collect(std::string_view mine);
  absl::StatusOr<std::vector<std::string>> GiveAndTake(std::string_view mine);
  // The socket's rank.
  uint32_t RankOf(size_t socket) const {
    return node_.rank == 0 ? static_cast<uint32_t>(socket) + 1 : 0;
  }
  absl::Status Ended(size_t socket) const;
  // Waits until the socket is ready for `events` of poll.
  absl::Status Await(size_t socket, short events);
  absl::Status Send(size_t socket, std::string_view bytes);
  absl::Status Receive(size_t socket, char* bytes, size_t size);
  absl::StatusOr<std::string> ReceiveMessage(size_t socket);
  // Tells the other ranks, without waiting for them.
  void TellFailure(std::string_view text);

  const NodeRank node_;
  const std::vector<int> sockets_;
  absl::Duration patience_;  // of the call
  absl::Time deadline_;      // likewise
  absl::Status broken_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_SOCKET_LINK_H_
