#ifndef LONGWAVE_COMMON_WIRE_CRC32C_H_
#define LONGWAVE_COMMON_WIRE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace longwave {

// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4: reflected, polynomial 0x1edc6f41, initial
// value and final xor all ones. By the processor's instruction, or by tables in ISA generic.
uint32_t Crc32c(std::span<const std::byte> bytes);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_CRC32C_H_
