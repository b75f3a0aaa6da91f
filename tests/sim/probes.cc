#include "tests/sim/probes.h"

#include "common/base/check.h"

namespace longwave::sim {

std::string_view Name(Probe probe) {
  switch (probe) {
    case Probe::kFrameLost:
      return "frame lost";
    case Probe::kConnectionStalled:
      return "connection stalled";
    case Probe::kFrameOvertaken:
      return "frame overtaken";
    case Probe::kCallUnanswered:
      return "call unanswered";
    case Probe::kPushDuplicate:
      return "push answered duplicate";
    case Probe::kPushLate:
      return "push answered late";
    case Probe::kPushBusy:
      return "push answered busy";
    case Probe::kPushNotMember:
      return "push answered not a member";
    case Probe::kPullCompacted:
      return "pull answered compacted";
    case Probe::kSettledLate:
      return "contribution settled late";
    case Probe::kSettledCompacted:
      return "contribution settled without its update";
    case Probe::kClosedByQuorum:
      return "segment closed by quorum";
    case Probe::kEpochAfterLoss:
      return "epoch without a lost worker";
    case Probe::kEpochAfterJoin:
      return "epoch with a joining worker";
    case Probe::kFetchByLog:
      return "caught up by the log";
    case Probe::kFetchBySnapshot:
      return "caught up by a snapshot";
    case Probe::kSnapshotRequested:
      return "snapshot asked of a worker";
    case Probe::kSnapshotConfirmed:
      return "snapshot confirmed";
    case Probe::kPositionRequested:
      return "worker asked where it stands";
    case Probe::kStartRequested:
      return "what the run began with asked for";
    case Probe::kStartTold:
      return "what the run began with told to a worker";
    case Probe::kStartKept:
      return "what the run began with kept to the end";
    case Probe::kOtherStart:
      return "worker with other first weights than the run";
    case Probe::kNode:
      return "a node of several ranks";
    case Probe::kNodeChangedRanks:
      return "a node comes back with another number of ranks";
    case Probe::kNodeCrashedBetweenParts:
      return "a node crashes before rank 0 has written its part";
    case Probe::kWorkerCrashed:
      return "worker crashed";
    case Probe::kWorkerToldToEnd:
      return "worker told to end";
    case Probe::kKeptBetweenSteps:
      return "checkpoint between two steps";
    case Probe::kKeptInFlight:
      return "checkpoint with pushes in flight";
    case Probe::kWorkerReturned:
      return "worker returned with its checkpoint";
    case Probe::kPushesPostedAgain:
      return "checkpointed pushes posted again";
    case Probe::kWorkerJoinedLate:
      return "worker joined late";
    case Probe::kWorkerFellBehind:
      return "worker fell behind and caught up";
    case Probe::kRoundFilled:
      return "round filled that nobody closed";
    case Probe::kShardCrashed:
      return "shard crashed";
    case Probe::kShardCrashedInWrite:
      return "shard crashed in the midst of a write";
    case Probe::kShardLostPower:
      return "shard lost power";
    case Probe::kShardRecovered:
      return "shard recovered from its log";
    case Probe::kShardTrouble:
      return "shard in trouble with its disk";
    case Probe::kShardTroubleEnded:
      return "shard out of trouble again";
    case Probe::kShardLostFolder:
      return "shard lost its folder";
    case Probe::kShardRestoredByReplicas:
      return "shard restored by replicas";
    case Probe::kShardGotOlderFolder:
      return "shard's folder from an older time";
    case Probe::kCoordinatorCrashed:
      return "coordinator crashed";
    case Probe::kCoordinatorRecovered:
      return "coordinator recovered";
    case Probe::kCoordinatorCrashedInWrite:
      return "coordinator crashed in the midst of a write";
    case Probe::kCoordinatorLostPower:
      return "coordinator lost power";
    case Probe::kCoordinatorTrouble:
      return "coordinator in trouble with its disk";
    case Probe::kRecordCut:
      return "coordinator's record cut at its end";
    case Probe::kRecordPublished:
      return "coordinator's record published whole";
    case Probe::kOldFolderRefused:
      return "folder of an older time refused";
    case Probe::kCoordinatorGotOlderRecord:
      return "coordinator's record from an older time";
    case Probe::kReplicaDamaged:
      return "replica damaged";
    case Probe::kReplicaRepaired:
      return "replica repaired";
    case Probe::kSealingRepaired:
      return "replica repaired between two sealing rounds";
    case Probe::kSealedAgain:
      return "later sealing round reported by an equal replica";
    case Probe::kDutyCameLate:
      return "duty of writing came after the final report";
    case Probe::kClockJumped:
      return "clock jumped";
    case Probe::kProcessFrozen:
      return "process frozen";
    case Probe::kLogDropped:
      return "log dropped";
    case Probe::kConnectionDied:
      return "connection died without being seen";
    case Probe::kConnectionRenewed:
      return "dead connection made anew";
    case Probe::kHelloRequested:
      return "hello asked of a worker";
    case Probe::kPeerGone:
      return "frame for a connection that had gone";
    case Probe::kSendQueueFull:
      return "send queue full";
    case Probe::kPoisonRejected:
      return "poison rejected";
    case Probe::kPoisonLeftOut:
      return "poison left out of a merge, and its sender named";
    case Probe::kCount:
      break;
  }
  LONGWAVE_CHECK(false);
}

std::vector<Probe> Probes::Missed() const {
  std::vector<Probe> missed;
  for (size_t i = 0; i < kProbeCount; ++i) {
    if (counts_[i] == 0) missed.push_back(static_cast<Probe>(i));
  }
  return missed;
}

}  // namespace longwave::sim
