#ifndef LONGWAVE_COMMON_WIRE_ELIAS_FANO_BLOCK_H_
#define LONGWAVE_COMMON_WIRE_ELIAS_FANO_BLOCK_H_

#include <cstdint>

namespace longwave {

// The shape of a block of k indices below n, as elias_fano.h describes it.
struct EliasFanoShape {
  uint32_t n, k;
  uint32_t low_bits;    // of one index
  uint32_t high_size;   // bits of the high array
  uint32_t total_size;  // bits of both, before padding
};

// EliasFanoDecode of a block of the right length with n up to kTileSizeMax, compiled for each
// instruction set from one source. False if invalid.
bool DecodeBlockGeneric(const EliasFanoShape& shape, const uint8_t* in, uint16_t* indices);
#if defined(__x86_64__)
bool DecodeBlockAvx2(const EliasFanoShape& shape, const uint8_t* in, uint16_t* indices);
#endif

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_ELIAS_FANO_BLOCK_H_
