#ifndef LONGWAVE_WORKER_NODE_NODE_PROCESSES_H_
#define LONGWAVE_WORKER_NODE_NODE_PROCESSES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/member/node_link.h"

namespace longwave {

// The processes of a node, which are one worker on one machine, with their link and a memory that
// they share.
//
// Rank 0 starts the other ranks as programs of their own, by fork and exec, and not by a fork
// alone: libraries have threads and locks before main begins (OpenBLAS, gRPC), and a copy of a
// process has the locks without the threads. A rank inherits two descriptors, its socket and the
// memory, and nothing else of the link, so that the end of any process is seen by the others.
class NodeProcesses {
 public:
  // Starts ranks 1 … ranks − 1, each as `command` with a further argument that Join takes. Their
  // standard output goes nowhere: the node speaks through rank 0. The kernel kills them when this
  // thread ends. area_bytes: of the shared memory. Unavailable: the system refuses a process.
  static absl::StatusOr<std::unique_ptr<NodeProcesses>> Start(
      uint32_t ranks, const std::vector<std::string>& command, size_t area_bytes);
  // In a process that Start has started. argument: "RANK,RANKS,SOCKET,MEMORY". InvalidArgument:
  // another text, or no such descriptors.
  static absl::StatusOr<std::unique_ptr<NodeProcesses>> Join(const std::string& argument);
  // At rank 0: ends the link, waits for the other ranks for a while, and kills those that hang. No
  // process remains, not even as a zombie.
  ~NodeProcesses();
  NodeProcesses(const NodeProcesses&) = delete;
  NodeProcesses& operator=(const NodeProcesses&) = delete;

  NodeLink& link() { return *link_; }
  // Zeros at first.
  std::span<std::byte> area() const { return area_; }
  // At rank 0: of ranks 1, 2, …
  const std::vector<pid_t>& children() const { return children_; }

 private:
  NodeProcesses(std::span<std::byte> area, std::unique_ptr<NodeLink> link)
      : area_(area), link_(std::move(link)) {}

  const std::span<std::byte> area_;
  std::unique_ptr<NodeLink> link_;
  std::vector<pid_t> children_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_NODE_PROCESSES_H_
