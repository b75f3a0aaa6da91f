#ifndef LONGWAVE_SERVER_COORDINATOR_REPLICA_VOTE_H_
#define LONGWAVE_SERVER_COORDINATOR_REPLICA_VOTE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/coordinator/coordinator_record.h"

namespace longwave {

// "worker 2 (worker-2)": how sentences name a worker.
std::string Describe(const Member& member);

// What the hashes that members reported after one round say, segment by segment. A majority is more
// than half of them. Where there is none, the value that most have counts as right, on a tie the
// one that the lowest worker index holds; but nothing is proved by it.
struct ReplicaVote {
  std::vector<uint64_t> hashes;     // that count as right
  std::vector<uint32_t> undecided;  // segments without a majority, ascending
  // By worker, the segments that it had better fetch anew: those that differ from the majority, and
  // the undecided ones, whoever has what there. Everyone who reported hashes is here.
  std::map<uint32_t, std::vector<uint32_t>> suspects;
  std::string difference;  // the first, in a sentence; empty: all are equal
};

// reports: of one round, by worker; not empty. All have equally many hashes.
ReplicaVote CompareReplicas(const std::map<uint32_t, OpenReport>& reports);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_REPLICA_VOTE_H_
