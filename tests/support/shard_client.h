#ifndef LONGWAVE_TESTS_SUPPORT_SHARD_CLIENT_H_
#define LONGWAVE_TESTS_SUPPORT_SHARD_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "longwave/v1/shard.records.h"

namespace longwave {

// Calls to one shard's control endpoint. Thread-safe; errors as CoordinatorClient's.
class ShardClient {
 public:
  static std::unique_ptr<ShardClient> Connect(const std::string& address,
                                              absl::Duration deadline = absl::Seconds(5),
                                              const std::string& credentials = "");
  virtual ~ShardClient() = default;

  virtual absl::StatusOr<ShardReport> GetStatus() = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_SHARD_CLIENT_H_
