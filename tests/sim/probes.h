#ifndef LONGWAVE_TESTS_SIM_PROBES_H_
#define LONGWAVE_TESTS_SIM_PROBES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longwave::sim {

// Rare branches that a good set of seeds must reach, since an unreached branch hides later ones;
// each with its name.
#define LONGWAVE_SIM_PROBES(PROBE)                                                     \
  PROBE(kFrameLost, "frame lost")                                                      \
  PROBE(kConnectionStalled, "connection stalled")                                      \
  PROBE(kFrameOvertaken, "frame overtaken by one of a later connection")               \
  PROBE(kCallUnanswered, "call unanswered")                                            \
  PROBE(kPushDuplicate, "push answered duplicate")                                     \
  PROBE(kPushLate, "push answered late")                                               \
  PROBE(kPushBusy, "push answered busy")                                               \
  PROBE(kPushNotMember, "push answered not a member")                                  \
  PROBE(kPullCompacted, "pull answered compacted")                                     \
  PROBE(kSettledLate, "contribution settled late")                                     \
  PROBE(kSettledCompacted, "contribution settled without its update")                  \
  PROBE(kClosedByQuorum, "segment closed by quorum")                                   \
  PROBE(kEpochAfterLoss, "epoch without a lost worker")                                \
  PROBE(kEpochAfterJoin, "epoch with a joining worker")                                \
  PROBE(kFetchByLog, "caught up by the log")                                           \
  PROBE(kFetchBySnapshot, "caught up by a snapshot")                                   \
  PROBE(kSnapshotRequested, "snapshot asked of a worker")                              \
  PROBE(kSnapshotConfirmed, "snapshot confirmed")                                      \
  PROBE(kPositionRequested, "worker asked where it stands")                            \
  PROBE(kStartRequested, "what the run began with asked for")                          \
  PROBE(kStartTold, "what the run began with told to a worker")                        \
  PROBE(kStartKept, "what the run began with kept to the end")                         \
  PROBE(kOtherStart, "worker with other first weights than the run")                   \
  PROBE(kWorkerCrashed, "worker crashed")                                              \
  PROBE(kNode, "a node of several ranks")                                              \
  PROBE(kNodeChangedRanks, "a node comes back with another number of ranks")           \
  PROBE(kNodeCrashedBetweenParts, "a node crashes before rank 0 has written its part") \
  PROBE(kJournalApplied, "worker returned with a journal of later pushes")             \
  PROBE(kJournalTorn, "worker crashed in the midst of a write of its journal")         \
  PROBE(kJournalDamaged, "record in the middle of a journal damaged")                  \
  PROBE(kCheckpointHalfWritten, "worker crashed with a checkpoint half written")       \
  PROBE(kWorkerToldToEnd, "worker told to end")                                        \
  PROBE(kKeptBetweenSteps, "checkpoint between two steps")                             \
  PROBE(kKeptInFlight, "checkpoint with pushes in flight")                             \
  PROBE(kWorkerReturned, "worker returned with its checkpoint")                        \
  PROBE(kPushesPostedAgain, "checkpointed pushes posted again")                        \
  PROBE(kWorkerJoinedLate, "worker joined late")                                       \
  PROBE(kWorkerFellBehind, "worker fell behind and caught up")                         \
  PROBE(kRoundFilled, "round filled that nobody closed")                               \
  PROBE(kShardCrashed, "shard crashed")                                                \
  PROBE(kShardCrashedInWrite, "shard crashed in the midst of a write")                 \
  PROBE(kShardLostPower, "shard lost power")                                           \
  PROBE(kShardRecovered, "shard recovered from its log")                               \
  PROBE(kShardTrouble, "shard in trouble with its disk")                               \
  PROBE(kShardTroubleEnded, "shard out of trouble again")                              \
  PROBE(kShardLostFolder, "shard lost its folder")                                     \
  PROBE(kShardRestoredByReplicas, "shard restored by replicas")                        \
  PROBE(kShardGotOlderFolder, "shard's folder from an older time")                     \
  PROBE(kShardLostTail, "shard lost the end of its log")                               \
  PROBE(kTailRestored, "end of a log restored by replicas")                            \
  PROBE(kClusterGotOlderFolders, "coordinator and shards from an older time")          \
  PROBE(kCoordinatorCrashed, "coordinator crashed")                                    \
  PROBE(kCoordinatorRecovered, "coordinator recovered")                                \
  PROBE(kCoordinatorCrashedInWrite, "coordinator crashed in the midst of a write")     \
  PROBE(kCoordinatorLostPower, "coordinator lost power")                               \
  PROBE(kCoordinatorTrouble, "coordinator in trouble with its disk")                   \
  PROBE(kRecordCut, "coordinator's record cut at its end")                             \
  PROBE(kRecordPublished, "coordinator's record published whole")                      \
  PROBE(kOldFolderRefused, "folder of an older time refused")                          \
  PROBE(kCoordinatorGotOlderRecord, "coordinator's record from an older time")         \
  PROBE(kReplicaDamaged, "replica damaged")                                            \
  PROBE(kReplicaRepaired, "replica repaired")                                          \
  PROBE(kSealingRepaired, "replica repaired between two sealing rounds")               \
  PROBE(kSealedAgain, "later sealing round reported by an equal replica")              \
  PROBE(kDutyCameLate, "duty of writing came after the final report")                  \
  PROBE(kClockJumped, "clock jumped")                                                  \
  PROBE(kProcessFrozen, "process frozen")                                              \
  PROBE(kLogDropped, "log dropped")                                                    \
  PROBE(kConnectionDied, "connection died without being seen")                         \
  PROBE(kConnectionRenewed, "dead connection made anew")                               \
  PROBE(kHelloRequested, "hello asked of a worker")                                    \
  PROBE(kPeerGone, "frame for a connection that had gone")                             \
  PROBE(kSendQueueFull, "send queue full")                                             \
  PROBE(kIntervalChanged, "interval changed")                                          \
  PROBE(kIntervalAwaited, "worker waits for a round's inner steps")                    \
  PROBE(kPoisonRejected, "poison rejected")                                            \
  PROBE(kPoisonLeftOut, "poison left out of a merge, and its sender named")

enum class Probe : uint8_t {
#define LONGWAVE_SIM_PROBE(probe, name) probe,
  LONGWAVE_SIM_PROBES(LONGWAVE_SIM_PROBE)
#undef LONGWAVE_SIM_PROBE
      kCount
};
inline constexpr size_t kProbeCount = static_cast<size_t>(Probe::kCount);

std::string_view Name(Probe probe);

// Counts of reached branches.
class Probes {
 public:
  void Hit(Probe probe, uint64_t times = 1) { counts_[static_cast<size_t>(probe)] += times; }
  uint64_t count(Probe probe) const { return counts_[static_cast<size_t>(probe)]; }
  void Add(const Probes& other) {
    for (size_t i = 0; i < kProbeCount; ++i) counts_[i] += other.counts_[i];
  }
  std::vector<Probe> Missed() const;

 private:
  std::array<uint64_t, kProbeCount> counts_ = {};
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_PROBES_H_
