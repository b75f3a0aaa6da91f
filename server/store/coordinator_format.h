#ifndef LONGWAVE_SERVER_STORE_COORDINATOR_FORMAT_H_
#define LONGWAVE_SERVER_STORE_COORDINATOR_FORMAT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/coordinator_record.h"

namespace longwave {

// The parts of a coordinator's record as bytes: magic (which says which part), version, XXH3-64 of
// the rest, and the fields in the order of their structs, little-endian, texts and lists after
// their lengths. The encoding is canonical: what a Decode takes, Encode gives again.
//
// Decoders answer with FailedPrecondition (another part, another version) or DataLoss (the hash,
// the length, a value that no process of ours writes), and reserve no memory by a count that the
// bytes do not bear out.
inline constexpr uint32_t kCoordinatorFormat = 5;

std::vector<std::byte> Encode(const CoordinatorState& state);
std::vector<std::byte> Encode(const Manifest& manifest);
std::vector<std::byte> Encode(const RoundRecord& record);
std::vector<std::byte> Encode(const OpenReport& report);
// hashes and undecided of a finished round.
std::vector<std::byte> EncodeHashes(const FinishedRound& round);

absl::StatusOr<CoordinatorState> DecodeCoordinatorState(std::span<const std::byte> bytes);
// Also InvalidArgument, as Validate says.
absl::StatusOr<Manifest> DecodeManifest(std::span<const std::byte> bytes);
absl::StatusOr<RoundRecord> DecodeRoundRecord(std::span<const std::byte> bytes);
absl::StatusOr<OpenReport> DecodeOpenReport(std::span<const std::byte> bytes);
absl::Status DecodeHashes(std::span<const std::byte> bytes, FinishedRound* round);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_COORDINATOR_FORMAT_H_
