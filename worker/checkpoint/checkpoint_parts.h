#ifndef LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_PARTS_H_
#define LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_PARTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/frame.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/worker_folder.h"

namespace longwave {

// The checkpoint of a node of several ranks: each rank writes a part with its own segments. The
// part of rank 0 is WorkerFolder's `checkpoint`. It is written last, and makes the others' parts,
// which have the same `write`, the checkpoint. Until then the one before stands with its own parts.

// Writes the part of a rank above 0, durably, as `part.WRITE.RANK`.
absl::Status WriteCheckpointPart(FileSystem& files, const std::string& folder,
                                 const Checkpoint& part);

// Removes the parts of all other writes.
absl::Status RemovePartsBut(FileSystem& files, const std::string& folder, uint64_t write);

// A rank's part of the checkpoint that the parts of all ranks make up, whatever their number is:
// `first`, rank 0's or the whole of one device, and the others' from the folder. Two parts at most
// are in memory. Of other ranks' pushes the result has no payloads. Blobs: the rank's own, or,
// where the number of ranks has changed, those of all parts one after the other. DataLoss: a part
// is damaged, absent or of another checkpoint, or its residual does not fit.
absl::StatusOr<Checkpoint> ReadPart(FileSystem& files, const std::string& folder, Checkpoint first,
                                    const Layout& layout, NodeRank node);

// A rank's part of the last checkpoint of a worker's folder (ReadLastCheckpoint). Nothing, too, and
// logged: a stale one whose parts are not all there. Errors: as ReadLastCheckpoint and
// ReadPart.
absl::StatusOr<std::optional<FoundCheckpoint>> ReadPartOfLast(FileSystem& files,
                                                              const std::string& folder,
                                                              uint64_t run, const std::string& name,
                                                              uint32_t worker, const Layout& layout,
                                                              NodeRank node);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_PARTS_H_
