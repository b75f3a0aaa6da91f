#ifndef LONGWAVE_COMMON_SECURITY_IDENTITY_H_
#define LONGWAVE_COMMON_SECURITY_IDENTITY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// Who somebody is in a run. A certificate says it as a URI among its names:
//   longwave:coordinator   longwave:shard/3   longwave:worker/NAME   longwave:operator
// with what a URI does not take in NAME written as %XX. A certificate may have several, and is then
// good for each of them.
enum class Role : uint8_t { kCoordinator, kShard, kWorker, kOperator };

struct Identity {
  Role role = Role::kOperator;
  uint32_t shard = 0;  // of a shard
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

// As tokens and owners of names have it: "worker/NAME", "shard/3"; of a worker or a shard.
std::string SubjectOf(const Identity& identity);
// "longwave:worker/a%20b".
std::string UriOf(const Identity& identity);
// InvalidArgument: not one of those above. Each identity has one URI.
absl::StatusOr<Identity> ParseIdentityUri(std::string_view uri);
// As people write it: "coordinator", "shard/3", "worker/NAME" (NAME as it is), "operator".
absl::StatusOr<Identity> ParseIdentity(std::string_view text);
// "the coordinator", "shard 3", "worker a", "an operator".
std::string Describe(const Identity& identity);
// "worker a or shard 3"; "nobody" of none.
std::string Describe(const std::vector<Identity>& identities);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_IDENTITY_H_
