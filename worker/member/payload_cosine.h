#ifndef LONGWAVE_WORKER_MEMBER_PAYLOAD_COSINE_H_
#define LONGWAVE_WORKER_MEMBER_PAYLOAD_COSINE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"

namespace longwave {

// Of two payloads of one segment and round, as the coefficients that they stand for: those that a
// payload does not send are zero. The transform is orthonormal, so that norms and cosine are those
// of what they say about the parameters, too.
struct PayloadPair {
  double a_square_sum = 0;
  double b_square_sum = 0;
  double product = 0;

  double cosine() const;  // 0 where one of them is nothing
};

// Both are validated here. InvalidArgument: one does not fit the segment. run_seed, round: what
// random and stride selection draw from.
absl::StatusOr<PayloadPair> ComparePayloads(const Layout& layout, uint32_t segment,
                                            uint64_t run_seed, uint32_t round,
                                            std::span<const std::byte> a,
                                            std::span<const std::byte> b);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_PAYLOAD_COSINE_H_
