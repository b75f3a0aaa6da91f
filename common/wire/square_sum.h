#ifndef LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_
#define LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/payload.h"

namespace longwave {

// Σ v² over a payload's values, of one tile or of all in order: the square of the norm in the
// frame's header. Reads scales and values, never the indices; for sign only the scales. The order
// of additions is fixed, so that the result is the same on every machine.
double TileSquareSum(const PayloadLayout& layout, uint32_t tile,
                     std::span<const std::byte> payload);
double PayloadSquareSum(const PayloadLayout& layout, std::span<const std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_
