#ifndef LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_PARTS_H_
#define LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_PARTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/frame.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// The checkpoint of a node of several ranks: each rank writes a part with its own segments. The
// part of rank 0 is WorkerFolder's `checkpoint`. It is written last, and makes the others' parts,
// which have the same `write`, the checkpoint. Until then the one before stands with its own parts.

// Writes the part of a rank above 0, durably, as `part.WRITE.RANK`.
absl::Status WriteCheckpointPart(FileSystem& files, const std::string& folder,
                                 const Checkpoint& part);

// Removes the parts of all other writes.
absl::Status RemovePartsBut(FileSystem& files, const std::string& folder, uint64_t write);

// The parts of all ranks, by rank: `first`, rank 0's, and the others from the folder. DataLoss: a
// part is damaged, absent or of another checkpoint.
absl::StatusOr<std::vector<Checkpoint>> ReadParts(FileSystem& files, const std::string& folder,
                                                  Checkpoint first, const CheckpointShape& shape);

// A rank's part of the checkpoint that all `parts` make up, whatever their number of ranks was. Of
// other ranks' pushes it has no payloads. Blobs: the rank's own, or, where the number of ranks has
// changed, those of all parts one after the other. DataLoss: a part's residual does not fit.
absl::StatusOr<Checkpoint> PartOf(std::vector<Checkpoint> parts, const Layout& layout,
                                  NodeRank node);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_CHECKPOINT_PARTS_H_
