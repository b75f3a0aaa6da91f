#include "tests/sim/probes.h"

#include <iterator>

#include "common/base/enum_name.h"

namespace longwave::sim {

std::string_view Name(Probe probe) {
  static constexpr std::string_view kNames[] = {"frame lost",
                                                "connection stalled",
                                                "frame overtaken",
                                                "call unanswered",
                                                "push answered duplicate",
                                                "push answered late",
                                                "push answered busy",
                                                "push answered not a member",
                                                "pull answered compacted",
                                                "contribution settled late",
                                                "contribution settled without its update",
                                                "segment closed by quorum",
                                                "epoch without a lost worker",
                                                "epoch with a joining worker",
                                                "caught up by the log",
                                                "caught up by a snapshot",
                                                "snapshot asked of a worker",
                                                "snapshot confirmed",
                                                "worker asked where it stands",
                                                "what the run began with asked for",
                                                "what the run began with told to a worker",
                                                "what the run began with kept to the end",
                                                "worker with other first weights than the run",
                                                "worker crashed",
                                                "a node of several ranks",
                                                "a node comes back with another number of ranks",
                                                "a node crashes before rank 0 has written its part",
                                                "worker told to end",
                                                "checkpoint between two steps",
                                                "checkpoint with pushes in flight",
                                                "worker returned with its checkpoint",
                                                "checkpointed pushes posted again",
                                                "worker joined late",
                                                "worker fell behind and caught up",
                                                "round filled that nobody closed",
                                                "shard crashed",
                                                "shard crashed in the midst of a write",
                                                "shard lost power",
                                                "shard recovered from its log",
                                                "shard in trouble with its disk",
                                                "shard out of trouble again",
                                                "shard lost its folder",
                                                "shard restored by replicas",
                                                "shard's folder from an older time",
                                                "coordinator crashed",
                                                "coordinator recovered",
                                                "coordinator crashed in the midst of a write",
                                                "coordinator lost power",
                                                "coordinator in trouble with its disk",
                                                "coordinator's record cut at its end",
                                                "coordinator's record published whole",
                                                "folder of an older time refused",
                                                "coordinator's record from an older time",
                                                "replica damaged",
                                                "replica repaired",
                                                "replica repaired between two sealing rounds",
                                                "later sealing round reported by an equal replica",
                                                "duty of writing came after the final report",
                                                "clock jumped",
                                                "process frozen",
                                                "log dropped",
                                                "connection died without being seen",
                                                "dead connection made anew",
                                                "hello asked of a worker",
                                                "frame for a connection that had gone",
                                                "send queue full",
                                                "poison rejected",
                                                "poison left out of a merge, and its sender named"};
  static_assert(std::size(kNames) == static_cast<size_t>(Probe::kCount));
  return EnumName(probe, kNames);
}

std::vector<Probe> Probes::Missed() const {
  std::vector<Probe> missed;
  for (size_t i = 0; i < kProbeCount; ++i) {
    if (counts_[i] == 0) missed.push_back(static_cast<Probe>(i));
  }
  return missed;
}

}  // namespace longwave::sim
