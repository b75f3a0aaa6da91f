#ifndef LONGWAVE_TESTS_SIM_PROBES_H_
#define LONGWAVE_TESTS_SIM_PROBES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longwave::sim {

// Rare branches that a good set of seeds must reach, since an unreached branch hides later ones.
enum class Probe : uint8_t {
  kFrameLost,
  kConnectionStalled,
  kFrameOvertaken,  // by one of a later connection
  kCallUnanswered,
  kPushDuplicate,
  kPushLate,
  kPushBusy,
  kPushNotMember,
  kPullCompacted,
  kSettledLate,
  kSettledCompacted,
  kClosedByQuorum,
  kEpochAfterLoss,
  kEpochAfterJoin,
  kFetchByLog,
  kFetchBySnapshot,
  kSnapshotRequested,
  kSnapshotConfirmed,
  kPositionRequested,
  kStartRequested,
  kStartTold,
  kStartKept,
  kOtherStart,
  kWorkerCrashed,
  kNode,
  kNodeChangedRanks,
  kNodeCrashedBetweenParts,
  kWorkerToldToEnd,
  kKeptBetweenSteps,
  kKeptInFlight,
  kWorkerReturned,
  kPushesPostedAgain,
  kWorkerJoinedLate,
  kWorkerFellBehind,
  kRoundFilled,
  kShardCrashed,
  kShardCrashedInWrite,
  kShardLostPower,
  kShardRecovered,
  kShardTrouble,
  kShardTroubleEnded,
  kShardLostFolder,
  kShardRestoredByReplicas,
  kShardGotOlderFolder,
  kCoordinatorCrashed,
  kCoordinatorRecovered,
  kCoordinatorCrashedInWrite,
  kCoordinatorLostPower,
  kCoordinatorTrouble,
  kRecordCut,
  kRecordPublished,
  kOldFolderRefused,
  kCoordinatorGotOlderRecord,
  kReplicaDamaged,
  kReplicaRepaired,
  kSealingRepaired,
  kSealedAgain,
  kDutyCameLate,
  kClockJumped,
  kProcessFrozen,
  kLogDropped,
  kConnectionDied,
  kConnectionRenewed,
  kHelloRequested,
  kPeerGone,
  kSendQueueFull,
  kPoisonRejected,
  kPoisonLeftOut,
  kCount,
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
