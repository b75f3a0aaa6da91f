#ifndef LONGWAVE_TESTS_BENCH_SHARD_PAYLOADS_H_
#define LONGWAVE_TESTS_BENCH_SHARD_PAYLOADS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"

namespace longwave {

// A worker's contribution to one segment, in an encoder's form: written once, sent every round.
struct BenchPush {
  Buffer payload;
  float norm = 0;
  uint64_t weight = 0;
};

// The contributions of all workers to all segments. Each worker chooses other coefficients, gives
// them other values and stands for another number of tokens.
class BenchPushes {
 public:
  // format: selection topk or all. weight_max: at least 1. InvalidArgument: not such a format, or
  // it does not fit the layout.
  static absl::StatusOr<BenchPushes> Create(const Layout& layout, const PayloadFormat& format,
                                            uint32_t workers, uint64_t weight_max);

  uint32_t workers() const { return workers_; }
  uint32_t segments() const { return static_cast<uint32_t>(layouts_.size()); }
  const BenchPush& Of(uint32_t worker, uint32_t segment) const {
    return pushes_[size_t{worker} * segments() + segment];
  }
  const PayloadLayout& layout(uint32_t segment) const { return layouts_[segment]; }

  // Sums for one worker and round.
  uint64_t coefficients() const;
  uint64_t coefficients(uint32_t segment) const;

 private:
  BenchPushes() = default;

  uint32_t workers_ = 0;
  std::vector<PayloadLayout> layouts_;  // by segment
  std::vector<BenchPush> pushes_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_PAYLOADS_H_
