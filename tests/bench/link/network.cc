#include "tests/bench/link/network.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/process.h"
#include "common/base/check.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// The bucket's size: one packet, and its header.
constexpr uint32_t kBucketBytes = LinkNetwork::kOffloadBytesMax + 1024;
// The queue before the bucket: half a second of the link, as in routers of slow links.
constexpr double kQueueSeconds = 0.5;
constexpr uint32_t kQueueBytesMin = 4 * kBucketBytes;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string LastLine(const std::string& text) {
  std::string last;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    last = std::string(absl::StripAsciiWhitespace(line));
  }
  return last;
}

// A program of PATH or of the system's administration folders. NotFound: the message says how to
// install it.
absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& package) {
  const char* path = std::getenv("PATH");
  const std::string folders =
      absl::StrCat(path == nullptr ? "" : path, ":/usr/sbin:/sbin:/usr/bin");
  for (absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    std::string program = absl::StrCat(folder, "/", name);
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return absl::NotFoundError(
      absl::StrCat("the program ", name, " is not here; the package ", package, " has it"));
}

// The interface's line of a /proc/net/dev. NotFound: there is none.
absl::StatusOr<InterfaceBytes> ParseNetDev(std::string_view text, std::string_view interface) {
  const std::string name = absl::StrCat(absl::string_view(interface.data(), interface.size()), ":");
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, name)) continue;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    // Eight figures of received traffic, bytes and packets first, then those of sent traffic.
    constexpr size_t kSent = 8;
    InterfaceBytes bytes;
    if (fields.size() > kSent + 1 && absl::SimpleAtoi(fields[0], &bytes.received) &&
        absl::SimpleAtoi(fields[1], &bytes.packets_received) &&
        absl::SimpleAtoi(fields[kSent], &bytes.sent) &&
        absl::SimpleAtoi(fields[kSent + 1], &bytes.packets_sent)) {
      return bytes;
    }
  }
  return absl::NotFoundError(absl::StrCat("no counters of the interface ", name));
}

// RetransSegs of a /proc/net/snmp. NotFound: there is none.
absl::StatusOr<uint64_t> ParseSegmentsSentAgain(std::string_view text) {
  // A line with the names of TCP's figures, and one with the figures.
  std::vector<absl::string_view> names;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (!absl::ConsumePrefix(&line, "Tcp: ")) continue;
    std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (names.empty()) {
      names = std::move(fields);
      continue;
    }
    const auto place = std::find(names.begin(), names.end(), "RetransSegs") - names.begin();
    uint64_t count = 0;
    if (static_cast<size_t>(place) < std::min(names.size(), fields.size()) &&
        absl::SimpleAtoi(fields[static_cast<size_t>(place)], &count)) {
      return count;
    }
    break;
  }
  return absl::NotFoundError("no RetransSegs among TCP's counters");
}

}  // namespace

absl::Status LinkNetwork::Check() {
  if (geteuid() != 0) {
    return absl::PermissionDeniedError(
        "network namespaces and shaped links need root; got an ordinary user");
  }
  for (const char* program : {"ip", "tc"}) {
    LONGWAVE_RETURN_IF_ERROR(FindProgram(program, "iproute2").status());
  }
  return FindProgram("nsenter", "util-linux").status();
}

absl::StatusOr<std::unique_ptr<LinkNetwork>> LinkNetwork::Create(
    const std::vector<std::string>& nodes, const Settings& settings,
    const std::string& work_folder) {
  LONGWAVE_RETURN_IF_ERROR(Check());
  LONGWAVE_ASSIGN_OR_RETURN(std::string nsenter, FindProgram("nsenter", "util-linux"));
  LONGWAVE_ASSIGN_OR_RETURN(std::string ip, FindProgram("ip", "iproute2"));
  LONGWAVE_ASSIGN_OR_RETURN(std::string tc, FindProgram("tc", "iproute2"));
  std::unique_ptr<LinkNetwork> network(
      new LinkNetwork(work_folder, std::move(nsenter), std::move(ip), std::move(tc)));
  LONGWAVE_RETURN_IF_ERROR(network->Build(nodes, settings));
  return network;
}

absl::Status LinkNetwork::Build(const std::vector<std::string>& names, const Settings& settings) {
  LONGWAVE_ASSIGN_OR_RETURN(hub_, NetNamespace::Create());
  std::string script;
  for (const std::string_view bridge : {kData, kControl}) {
    // Without groups to watch a bridge floods them and says nothing by itself.
    absl::StrAppend(&script, "link add name ", std::string(bridge),
                    " type bridge mcast_snooping 0\nlink set ", std::string(bridge), " up\n");
  }
  uint32_t number = 1;
  LONGWAVE_RETURN_IF_ERROR(AddNode(std::string(kCoordinator), number++, &script));
  for (const std::string& name : names) LONGWAVE_RETURN_IF_ERROR(AddNode(name, number++, &script));
  for (uint32_t end = 2; end < number; ++end) {
    absl::StrAppend(&script, "link set data", end, " mtu ", settings.mtu, "\n");
  }
  LONGWAVE_RETURN_IF_ERROR(Batch(*hub_, ip_, script));
  for (const auto& [name, node] : nodes_) {
    std::string own = "link set lo up\n";
    for (const std::string_view interface : {kControl, kData}) {
      if (name == kCoordinator && interface == kData) continue;
      const std::string link(interface);
      absl::StrAppend(&own, "addr add ", Address(name, interface), "/16 dev ", link, "\nlink set ",
                      link, interface == kData ? absl::StrCat(" mtu ", settings.mtu) : "", " up\n");
    }
    LONGWAVE_RETURN_IF_ERROR(Batch(*node.space, ip_, own));
    if (!settings.loss_probes) {
      LONGWAVE_RETURN_IF_ERROR(node.space->Do([] {
        constexpr char kSetting[] = "/proc/sys/net/ipv4/tcp_early_retrans";
        if (std::ofstream(kSetting) << 0 << std::flush) return absl::OkStatus();
        return absl::UnavailableError(absl::StrCat("cannot write ", kSetting));
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status LinkNetwork::AddNode(const std::string& name, uint32_t number,
                                  std::string* hub_script) {
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<NetNamespace> space, NetNamespace::Create());
  // Kernels without this setting need nothing.
  LONGWAVE_RETURN_IF_ERROR(space->Do([] {
    // IPv6 would announce neighbours and groups on the data links from time to time.
    std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << 1;
    return absl::OkStatus();
  }));
  for (const std::string_view bridge : {kControl, kData}) {
    if (name == kCoordinator && bridge == kData) continue;
    const std::string link(bridge), end = absl::StrCat(link, number);
    absl::StrAppend(hub_script, "link add name ", end, " type veth peer name ", link, " netns ",
                    space->path(), "\nlink set ", end, " master ", link, " up\n");
  }
  nodes_[name] = {std::move(space), number};
  return absl::OkStatus();
}

absl::Status LinkNetwork::Shape(double mbit_per_second) {
  const std::string discipline =
      mbit_per_second > 0
          ? absl::StrFormat(
                "root tbf rate %.0fbit burst %u limit %.0f", mbit_per_second * 1e6, kBucketBytes,
                std::max<double>(kQueueBytesMin, mbit_per_second * 1e6 / 8 * kQueueSeconds))
          : "root noqueue";
  std::string at_hub;
  for (const auto& [name, node] : nodes_) {
    if (name == kCoordinator) continue;
    LONGWAVE_RETURN_IF_ERROR(
        Batch(*node.space, tc_, absl::StrCat("qdisc replace dev data ", discipline, "\n")));
    absl::StrAppend(&at_hub, "qdisc replace dev data", node.number, " ", discipline, "\n");
  }
  return Batch(*hub_, tc_, at_hub);
}

absl::Status LinkNetwork::Batch(const NetNamespace& space, const std::string& program,
                                const std::string& script) const {
  const std::string file = work_folder_ + "/network.batch", log = work_folder_ + "/network.log";
  LONGWAVE_RETURN_IF_ERROR(WriteFile(file, script));
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Process> process,
      Process::Start({.name = program,
                      .argv = {nsenter_, "--net=" + space.path(), "--", program, "-batch", file},
                      .log_file = log}));
  siginfo_t info;
  (void)waitid(P_PID, static_cast<id_t>(process->pid()), &info, WEXITED | WNOWAIT);
  if (!process->Running() && process->succeeded()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot set up the network: ", program, ": ",
                                             LastLine(ReadAll(log)), "; see ", log));
}

const LinkNetwork::Node& LinkNetwork::Find(std::string_view node) const {
  const auto found = nodes_.find(node);
  LONGWAVE_CHECK(found != nodes_.end());
  return found->second;
}

std::vector<std::string> LinkNetwork::Prefix(std::string_view node) const {
  return {nsenter_, "--net=" + Find(node).space->path(), "--"};
}

std::string LinkNetwork::Address(std::string_view node, std::string_view interface) const {
  const uint32_t number = Find(node).number;
  return absl::StrCat("10.", interface == kData ? 1 : 2, ".", number / 256, ".", number % 256);
}

const NetNamespace& LinkNetwork::NamespaceOf(std::string_view node) const {
  return *Find(node).space;
}

absl::StatusOr<std::string> LinkNetwork::ReadNet(std::string_view node, const char* file) const {
  std::string text;
  LONGWAVE_RETURN_IF_ERROR(Find(node).space->Do([&] {
    text = ReadAll(absl::StrCat("/proc/thread-self/net/", file));
    return absl::OkStatus();
  }));
  return text;
}

absl::StatusOr<InterfaceBytes> LinkNetwork::Bytes(std::string_view node,
                                                  std::string_view interface) const {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string text, ReadNet(node, "dev"));
  return ParseNetDev(text, interface);
}

absl::StatusOr<uint64_t> LinkNetwork::SegmentsSentAgain(std::string_view node) const {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string text, ReadNet(node, "snmp"));
  return ParseSegmentsSentAgain(text);
}

}  // namespace longwave
