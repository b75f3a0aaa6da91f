#ifndef LONGWAVE_SERVER_COORDINATOR_REPLICA_VOTE_H_
#define LONGWAVE_SERVER_COORDINATOR_REPLICA_VOTE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/coordinator/coordinator_record.h"

namespace longwave {

// "worker 2 (worker-2)": the name of a worker in sentences.
std::string Describe(const Member& member);

// The result of comparing the hashes that members reported after one round, segment by segment. A
// majority is more than half of the members. Without a majority the most frequent value counts as
// right, on a tie the value of the lowest worker index; that value proves nothing.
struct ReplicaVote {
  std::vector<uint64_t> hashes;     // the right ones, by segment
  std::vector<uint32_t> undecided;  // segments without a majority, ascending
  // By worker, the segments to fetch anew: segments that differ from the majority, and undecided
  // segments whatever the worker has there. Every worker that reported hashes has an entry.
  std::map<uint32_t, std::vector<uint32_t>> suspects;
  std::string difference;  // the first difference as a sentence; empty if all are equal
};

// reports: of one round, by worker; not empty, all with the same number of hashes.
ReplicaVote CompareReplicas(const std::map<uint32_t, OpenReport>& reports);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_REPLICA_VOTE_H_
