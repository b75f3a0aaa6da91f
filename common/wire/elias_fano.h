#ifndef LONGWAVE_COMMON_WIRE_ELIAS_FANO_H_
#define LONGWAVE_COMMON_WIRE_ELIAS_FANO_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace longwave {

// k strictly increasing indices below n, coded in EliasFanoBytes(n, k) bytes. An index has
// l = floor(log2(n/k)) low bits; the rest are its high bits. Two bit arrays follow each other:
//   high  k + ceil(n / 2^l) bits; the i-th index sets bit (index >> l) + i
//   low   k fields of l bits
// The second starts where the first ends; both are least significant bit first, and zeros pad the
// end to whole bytes. n = 4096 and k = 64 cost 64 bytes: 8 bits an index, where
// log2(binomial(4096, 64)) / 64 = 7.36. Source: Elias 1974, Fano 1971.

// 1 <= k <= n <= 65536.
size_t EliasFanoBytes(uint32_t n, uint32_t k);

// indices: strictly increasing, below n. out: EliasFanoBytes(n, k) bytes, all written.
void EliasFanoEncode(uint32_t n, std::span<const uint16_t> indices, std::span<std::byte> out);

// indices.size() is k; in: EliasFanoBytes(n, k) bytes. Errors: InvalidArgument (not exactly k high
// bits, indices not strictly increasing or not below n, nonzero padding).
absl::Status EliasFanoDecode(uint32_t n, std::span<const std::byte> in,
                             std::span<uint16_t> indices);

// Decodes many blocks of EliasFanoBytes(n, k) bytes: k indices from each, one after the other.
// False if any is invalid.
[[nodiscard]] bool EliasFanoDecodeAll(uint32_t n, uint32_t k,
                                      std::span<const std::byte* const> blocks, uint16_t* indices);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_ELIAS_FANO_H_
