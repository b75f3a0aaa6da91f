#include "server/coordinator/replica_vote.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {

std::string Describe(const Member& member) {
  return absl::StrCat("worker ", member.worker, " (", member.name, ")");
}

ReplicaVote CompareReplicas(const std::map<uint32_t, OpenReport>& reports) {
  ReplicaVote vote;
  for (const auto& [worker, open] : reports) vote.suspects[worker];
  const auto segment_count =
      static_cast<uint32_t>(reports.begin()->second.report.segment_hashes.size());
  vote.hashes.reserve(segment_count);
  for (uint32_t segment = 0; segment < segment_count; ++segment) {
    const auto hash_of = [&](const OpenReport& open) {
      return open.report.segment_hashes[segment];
    };
    std::map<uint64_t, size_t> votes;
    for (const auto& [worker, open] : reports) ++votes[hash_of(open)];
    const OpenReport* right = nullptr;
    for (const auto& [worker, open] : reports) {
      if (right == nullptr || votes[hash_of(open)] > votes[hash_of(*right)]) right = &open;
    }
    const uint64_t wanted = hash_of(*right);
    vote.hashes.push_back(wanted);
    if (votes.size() == 1) continue;
    const bool decided = votes[wanted] * 2 > reports.size();
    if (!decided) vote.undecided.push_back(segment);
    for (const auto& [worker, open] : reports) {
      if (!decided || hash_of(open) != wanted) vote.suspects[worker].push_back(segment);
      if (hash_of(open) == wanted || !vote.difference.empty()) continue;
      vote.difference = absl::StrFormat(
          "round %d: %s has hash %016x in segment %d, wanted %016x as %d of %d members have",
          open.report.round, Describe(open.member), hash_of(open), segment, wanted, votes[wanted],
          reports.size());
    }
  }
  return vote;
}

}  // namespace longwave
