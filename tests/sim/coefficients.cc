#include "tests/sim/coefficients.h"

#include "common/base/check.h"
#include "common/wire/tile_codec.h"
#include "tests/sim/settings.h"

namespace longwave::sim {

PayloadLayout LayoutOfPayload(std::span<const std::byte> payload) {
  const auto format = DecodePayloadHead(payload);
  LONGWAVE_CHECK(format.ok());
  const uint32_t sizes[] = {kSegmentElements};
  auto layout = PayloadLayout::Create(*format, sizes);
  LONGWAVE_CHECK(layout.ok());
  return *std::move(layout);
}

Coefficients ReadCoefficients(std::span<const std::byte> payload) {
  const PayloadLayout layout = LayoutOfPayload(payload);
  Coefficients coefficients;
  coefficients.indices.resize(layout.sent_count(0));
  coefficients.values.resize(layout.sent_count(0));
  ReadTile(layout, 0, payload, 0, coefficients.indices, coefficients.values);
  return coefficients;
}

}  // namespace longwave::sim
