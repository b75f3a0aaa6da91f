#ifndef LONGWAVE_SERVER_STORE_COORDINATOR_FORMAT_H_
#define LONGWAVE_SERVER_STORE_COORDINATOR_FORMAT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/coordinator_record.h"

namespace longwave {

// Changes of a coordinator's record as bytes: magic, version, and the fields in the order of their
// structs, little-endian, texts and lists after their lengths. The encoding is canonical: what
// DecodeCoordinatorChanges takes, Encode gives again. Checksums are the file's that they are in.
inline constexpr uint32_t kCoordinatorFormat = 11;

std::vector<std::byte> Encode(const CoordinatorChanges& changes);
// FailedPrecondition (magic, version), DataLoss (the length, a value that no process of ours
// writes), InvalidArgument (the manifest, as Validate says). Reserves no memory by a count that the
// bytes do not bear out.
absl::StatusOr<CoordinatorChanges> DecodeCoordinatorChanges(std::span<const std::byte> bytes);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_COORDINATOR_FORMAT_H_
