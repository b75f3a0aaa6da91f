#ifndef LONGWAVE_WORKER_MEMBER_PAYLOAD_COSINE_H_
#define LONGWAVE_WORKER_MEMBER_PAYLOAD_COSINE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"

namespace longwave {

// Square sums and product of two payloads of one segment and round, as coefficients; coefficients
// that a payload does not send are zero. The transform is orthonormal, so norms and cosine are also
// those of the parameters' changes.
struct PayloadPair {
  double a_square_sum = 0;
  double b_square_sum = 0;
  double product = 0;

  double cosine() const;  // 0 if one payload is zero
};

// Validates both payloads. InvalidArgument: one does not fit the segment. run_seed, round: for
// random and stride selection.
absl::StatusOr<PayloadPair> ComparePayloads(const Layout& layout, uint32_t segment,
                                            uint64_t run_seed, uint32_t round,
                                            std::span<const std::byte> a,
                                            std::span<const std::byte> b);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_PAYLOAD_COSINE_H_
