#ifndef LONGWAVE_COMMON_SECURITY_IDENTITY_H_
#define LONGWAVE_COMMON_SECURITY_IDENTITY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// A process's or operator's identity in a run. A certificate has it as a URI:
//   longwave:coordinator   longwave:shard/3   longwave:worker/NAME   longwave:operator
// where bytes of NAME that a URI cannot contain are %XX. A certificate with several identities is
// valid for each.
enum class Role : uint8_t { kCoordinator, kShard, kWorker, kOperator };

struct Identity {
  Role role = Role::kOperator;
  uint32_t shard = 0;  // a shard's index
  std::string worker;  // a worker's name
  bool operator==(const Identity&) const = default;
};

inline constexpr size_t kIdentityNameBytesMax = 128;

inline Identity CoordinatorIdentity() { return {Role::kCoordinator, 0, ""}; }
inline Identity ShardIdentity(uint32_t shard) { return {Role::kShard, shard, ""}; }
inline Identity WorkerIdentity(std::string_view name) {
  return {Role::kWorker, 0, std::string(name)};
}
inline Identity OperatorIdentity() { return {Role::kOperator, 0, ""}; }

// "worker/NAME" or "shard/3", as in tokens and owners of names. For a worker or a shard.
std::string SubjectOf(const Identity& identity);
// "longwave:worker/a%20b".
std::string UriOf(const Identity& identity);
// Errors: InvalidArgument (any other text). Each identity has exactly one URI.
absl::StatusOr<Identity> ParseIdentityUri(std::string_view uri);
// Parses the form for people: "coordinator", "shard/3", "worker/NAME" (NAME unescaped), "operator".
absl::StatusOr<Identity> ParseIdentity(std::string_view text);
// "the coordinator", "shard 3", "worker a", "an operator".
std::string Describe(const Identity& identity);
// "worker a or shard 3"; "nobody" for an empty list.
std::string Describe(const std::vector<Identity>& identities);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_IDENTITY_H_
