#ifndef LONGWAVE_COMMON_WIRE_CRC32C_H_
#define LONGWAVE_COMMON_WIRE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace longwave {

// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4: reflected, polynomial 0x1edc6f41, initial
// value and final xor all ones. By the processor's instruction, or by tables in ISA generic.
uint32_t Crc32c(std::span<const std::byte> bytes);

// The CRC-32C of A followed by B, from the CRCs of A and of B, whose length is `bytes_b`. So the
// checksum of a record does not read a payload again whose CRC is known. The cost is about 30 steps
// for each bit of the number bytes_b. CRCs are linear: appending B multiplies A's by x^(8·bytes_b)
// modulo the polynomial and adds B's.
uint32_t Crc32cConcat(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_CRC32C_H_
