#ifndef LONGWAVE_TESTS_SUPPORT_PLAIN_EXCHANGE_H_
#define LONGWAVE_TESTS_SUPPORT_PLAIN_EXCHANGE_H_

#include <optional>
#include <string>
#include <vector>

#include "worker/sync/exchange.h"

namespace longwave {

// The base of doubles with which nobody catches up.
class PlainExchange : public Exchange {
 public:
  absl::Status Fetch(uint32_t, uint32_t, uint32_t) override { return absl::UnimplementedError(""); }
  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::Status PostSnapshot(uint32_t, uint32_t, Buffer) override {
    return absl::UnimplementedError("");
  }
  absl::Status SetEndpoints(const std::vector<std::string>&) override {
    return absl::UnimplementedError("");
  }
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_PLAIN_EXCHANGE_H_
