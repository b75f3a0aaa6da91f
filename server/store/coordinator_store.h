#ifndef LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_
#define LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/coordinator_record.h"

namespace longwave {

// Where a coordinator's record lies on a disk: an SQLite database, folder/coordinator.db, in the
// folder that one process at a time has. A change costs one synced transaction, whose size is that
// of the members and of what is new, not of the run so far. Not for many threads at once.
class CoordinatorStore {
 public:
  // Makes the folder if need be. Unavailable: another process has it. FailedPrecondition: a newer
  // schema, or a database that is not ours. Others: the disk's.
  static absl::StatusOr<std::unique_ptr<CoordinatorStore>> Open(const std::string& folder);
  virtual ~CoordinatorStore() = default;

  // What the writes so far amount to; nothing: there was none. DataLoss: damaged; says where.
  virtual absl::StatusOr<std::optional<CoordinatorRecord>> Load() = 0;

  // All or nothing, and durable when it returns. After an error the same changes, or others that
  // include them, may be written again. ResourceExhausted: the disk is full.
  virtual absl::Status Write(const CoordinatorChanges& changes) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_
