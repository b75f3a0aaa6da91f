#ifndef LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_
#define LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_

#include <cstddef>
#include <span>

#include "common/wire/payload.h"

namespace longwave {

// Σ v² over the values that a validated payload holds: the square of the norm that its frame's
// header states. Reads scales and values, never the indices; sign reads the scales alone. Rounded
// as it comes: good for holding a stated norm against it, not for results that have to be equal.
double PayloadSquareSum(const PayloadLayout& layout, std::span<const std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_
