#ifndef LONGWAVE_KERNELS_CPU_VALUES_H_
#define LONGWAVE_KERNELS_CPU_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/isa.h"
#include "common/wire/payload.h"
#include "kernels/cpu/tile_math.h"

namespace longwave::cpu {

// The loops of an instruction set, which this processor must support.
const TileMath& TileMathOf(Isa isa);

// QuantizeTile of tests/support/reference and ReadTile of common/wire/tile_codec.h, to the same
// bits, with a TileMath's loops.

// Quantizes work.values to work.codes. Returns the scale's code.
uint16_t QuantizeValues(const TileMath& math, ValueCodec codec, uint32_t count, TileWork& work);

// Reads the values of tile `tile` into work.values.
void ReadValues(const TileMath& math, const PayloadLayout& layout, uint32_t tile,
                std::span<const std::byte> payload, TileWork& work);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_VALUES_H_
