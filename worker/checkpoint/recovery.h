#ifndef LONGWAVE_WORKER_CHECKPOINT_RECOVERY_H_
#define LONGWAVE_WORKER_CHECKPOINT_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/journal.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// Makes of a checkpoint the state that a process may go on from, after what the journal says was
// sent since: each push decays its segment's residual, and the coefficients that it has sent are
// zeros from then on. A push that came back is in the residual again. So nothing counts twice; what
// is lost are the signals since the checkpoint, as far as they were not sent. Pushes of the last
// fragment that the journal does not settle become the checkpoint's. Pure. checkpoint: a rank's
// part (ReadPart) or the whole. options: the pipeline's. DataLoss: records that no worker writes.
absl::Status ApplyJournal(const Layout& layout, const SyncOptions& options,
                          std::span<const JournalRecord> records, Checkpoint* checkpoint);

// ReadPartOfLast, with the journal applied. A checkpoint whose journal is damaged is stale, and
// logged. Errors: as ReadPartOfLast.
absl::StatusOr<std::optional<FoundCheckpoint>> Recover(FileSystem& files, const std::string& folder,
                                                       uint64_t run, const std::string& name,
                                                       uint32_t worker, const Layout& layout,
                                                       NodeRank node, const SyncOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_RECOVERY_H_
