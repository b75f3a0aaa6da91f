#ifndef LONGWAVE_TESTS_SUPPORT_SHARD_CLIENT_H_
#define LONGWAVE_TESTS_SUPPORT_SHARD_CLIENT_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "longwave/v1/shard.calls.h"

namespace longwave {

// Calls to one shard's control endpoint. Thread-safe; errors as CoordinatorClient's.
class ShardClient : public ShardServiceCalls {
 public:
  static std::unique_ptr<ShardClient> Connect(const std::string& address,
                                              absl::Duration deadline = absl::Seconds(5),
                                              const std::string& credentials = "");
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_SHARD_CLIENT_H_
