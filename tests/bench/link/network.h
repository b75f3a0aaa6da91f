#ifndef LONGWAVE_TESTS_BENCH_LINK_NETWORK_H_
#define LONGWAVE_TESTS_BENCH_LINK_NETWORK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/link/namespace.h"

namespace longwave {

// An interface's traffic by the kernel's counters: bytes with Ethernet, IP and TCP headers.
struct InterfaceBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;

  InterfaceBytes operator-(const InterfaceBytes& other) const {
    return {sent - other.sent, received - other.received, packets_sent - other.packets_sent,
            packets_received - other.packets_received};
  }
};

// Headers of a packet here: Ethernet 14, IP 20, TCP with its timestamps 32.
inline constexpr uint32_t kPacketHeaderBytes = 66;

// Workers and shards, each in a network namespace of its own, with two links to a hub:
//
//     worker-0 ── data ──[rate]──┐               ┌──[rate]── data ── shard-0
//     worker-1 ── data ──[rate]──┼─ bridge data ─┼──[rate]── data ── shard-1
//        …                       │      hub      │              …
//     every one ── control ──────┴ bridge control ┴────── control ── coordinator and this tool
//
// Both directions of each data link are shaped to the same rate by tbf: what a node sends at its
// own end, what it receives at the hub's. Control links are not shaped. The names "data" and
// "control" are those of the interfaces in every namespace.
class LinkNetwork {
 public:
  static constexpr std::string_view kData = "data";
  static constexpr std::string_view kControl = "control";
  static constexpr std::string_view kCoordinator = "coordinator";  // control link alone

  // The kernel may hand on packets of up to this much, whatever the MTU (segmentation offload, as
  // network cards have it), each counted with one header; the bucket of tbf must hold one.
  static constexpr uint32_t kOffloadBytesMax = 65536;

  // Whether networks can be had here at all. PermissionDenied: not root. NotFound: a program is
  // missing, and which package has it.
  static absl::Status Check();

  struct Settings {
    uint32_t mtu = 9000;      // of the data links
    bool loss_probes = true;  // TCP's, at all nodes (the kernel's net.ipv4.tcp_early_retrans)
  };
  // nodes: names; each gets both links. work_folder: for the commands' scripts and errors.
  // PermissionDenied: not root. Unavailable: ip, tc or nsenter is missing, or the kernel refused.
  static absl::StatusOr<std::unique_ptr<LinkNetwork>> Create(const std::vector<std::string>& nodes,
                                                             const Settings& settings,
                                                             const std::string& work_folder);

  // Shapes every data link in both directions; 0: no shaping.
  absl::Status Shape(double mbit_per_second);

  // The command line's prefix for running at `node`.
  std::vector<std::string> Prefix(std::string_view node) const;
  std::string Address(std::string_view node, std::string_view interface) const;
  const NetNamespace& NamespaceOf(std::string_view node) const;

  absl::StatusOr<InterfaceBytes> Bytes(std::string_view node, std::string_view interface) const;
  // Segments that TCP has sent again, over any of the node's links.
  absl::StatusOr<uint64_t> SegmentsSentAgain(std::string_view node) const;

 private:
  struct Node {
    std::unique_ptr<NetNamespace> space;
    uint32_t number;  // in its addresses and the hub's ends of its links
  };

  LinkNetwork(std::string work_folder, std::string nsenter, std::string ip, std::string tc)
      : work_folder_(std::move(work_folder)),
        nsenter_(std::move(nsenter)),
        ip_(std::move(ip)),
        tc_(std::move(tc)) {}
  // A file of /proc/net as the node sees it.
  absl::StatusOr<std::string> ReadNet(std::string_view node, const char* file) const;
  absl::Status Build(const std::vector<std::string>& names, const Settings& settings);
  absl::Status AddNode(const std::string& name, uint32_t number, std::string* hub_script);
  // Runs `program -batch` of the script in a namespace.
  absl::Status Batch(const NetNamespace& space, const std::string& program,
                     const std::string& script) const;
  const Node& Find(std::string_view node) const;

  const std::string work_folder_, nsenter_, ip_, tc_;
  std::unique_ptr<NetNamespace> hub_;
  std::map<std::string, Node, std::less<>> nodes_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_NETWORK_H_
