#ifndef LONGWAVE_SERVER_STORE_CRC32C_CONCAT_H_
#define LONGWAVE_SERVER_STORE_CRC32C_CONCAT_H_

#include <cstdint>

namespace longwave {

// The CRC-32C of A followed by B, from that of A and that of B, whose length is `bytes_b`: a
// payload whose CRC is known is not read again to checksum the record around it. Some 30 steps a
// bit of bytes_b's length.
//   A CRC is linear: appending B multiplies A's by x^(8·bytes_b) modulo the polynomial and adds
//   B's.
uint32_t Crc32cConcat(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_CRC32C_CONCAT_H_
