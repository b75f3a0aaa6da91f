#ifndef LONGWAVE_TESTS_SIM_COEFFICIENTS_H_
#define LONGWAVE_TESTS_SIM_COEFFICIENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/payload.h"

namespace longwave::sim {

// The content of a segment's payload (one tile of kSegmentElements).
struct Coefficients {
  std::vector<uint16_t> indices;
  std::vector<float> values;
};

// payload: made or checked by a real part.
Coefficients ReadCoefficients(std::span<const std::byte> payload);

// The byte layout of such a payload.
PayloadLayout LayoutOfPayload(std::span<const std::byte> payload);

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_COEFFICIENTS_H_
