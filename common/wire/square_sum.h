#ifndef LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_
#define LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/payload.h"

namespace longwave {

// Σ v² over the values that a payload holds, of one tile or of all, tile after tile: the square of
// the norm that its frame's header states. Reads scales and values, never the indices; sign reads
// the scales alone. The order of additions is fixed, so that the result is the same everywhere.
double TileSquareSum(const PayloadLayout& layout, uint32_t tile,
                     std::span<const std::byte> payload);
double PayloadSquareSum(const PayloadLayout& layout, std::span<const std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_SQUARE_SUM_H_
