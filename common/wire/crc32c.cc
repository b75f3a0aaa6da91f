#include "common/wire/crc32c.h"

#include <array>

#include "common/base/isa.h"
#include "common/wire/bytes.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace longwave {
namespace {

// Remainders are polynomials over GF(2), reflected: the top bit is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, bits reversed
constexpr uint32_t kOne = 0x80000000;

constexpr uint32_t TimesX(uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0); }

constexpr uint32_t Times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = TimesX(b);
  }
  return product;
}

// x^(8·bytes): a remainder times this has so many zero bytes after it.
constexpr uint32_t ZeroBytes(uint64_t bytes) {
  uint32_t power = kOne;
  for (uint32_t square = kOne >> 8; bytes != 0; bytes >>= 1, square = Times(square, square)) {
    if ((bytes & 1) != 0) power = Times(power, square);
  }
  return power;
}

// tables[t][b]: the effect of byte b on the remainder with t zero bytes after it ("slicing by
// eight"; source: Kounavis & Berry 2005).
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const uint32_t zeros = ZeroBytes(t + 1);
    for (uint32_t b = 0; b < 256; ++b) tables[t][b] = Times(zeros, b);
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t ExtendPortable(uint32_t state, const std::byte* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = LoadLe<uint64_t>(data) ^ state;
    state = 0;
    for (size_t i = 0; i < 8; ++i) state ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; size > 0; ++data, --size) {
    state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<uint32_t>(*data)) & 0xff];
  }
  return state;
}

#if defined(__x86_64__)
// The instruction takes three cycles, but one may start in each cycle, so three lanes run side by
// side. A remainder is linear in its input. Lanes that started from zero are therefore joined by
// shifting the earlier ones over the later ones' length of zeros.
constexpr size_t kLaneBytes = 1024;

// shift[i][b]: the effect of a remainder's byte i of value b after so many zero bytes.
using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr ShiftTable MakeShiftTable(size_t zero_bytes) {
  const uint32_t zeros = ZeroBytes(zero_bytes);
  ShiftTable shift{};
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t b = 0; b < 256; ++b) shift[i][b] = Times(zeros, b << (8 * i));
  }
  return shift;
}

constexpr ShiftTable kShiftOne = MakeShiftTable(kLaneBytes);
constexpr ShiftTable kShiftTwo = MakeShiftTable(2 * kLaneBytes);

uint32_t Shifted(const ShiftTable& shift, uint32_t remainder) {
  return shift[0][remainder & 0xff] ^ shift[1][(remainder >> 8) & 0xff] ^
         shift[2][(remainder >> 16) & 0xff] ^ shift[3][remainder >> 24];
}

__attribute__((target("sse4.2"))) uint32_t ExtendSse42(uint32_t state, const std::byte* data,
                                                       size_t size) {
  for (; size >= 3 * kLaneBytes; data += 3 * kLaneBytes, size -= 3 * kLaneBytes) {
    uint64_t first = state;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t at = 0; at < kLaneBytes; at += 8) {
      first = _mm_crc32_u64(first, LoadLe<uint64_t>(data + at));
      second = _mm_crc32_u64(second, LoadLe<uint64_t>(data + kLaneBytes + at));
      third = _mm_crc32_u64(third, LoadLe<uint64_t>(data + 2 * kLaneBytes + at));
    }
    state = Shifted(kShiftTwo, static_cast<uint32_t>(first)) ^
            Shifted(kShiftOne, static_cast<uint32_t>(second)) ^ static_cast<uint32_t>(third);
  }
  uint64_t wide = state;
  for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, LoadLe<uint64_t>(data));
  state = static_cast<uint32_t>(wide);
  for (; size > 0; ++data, --size) state = _mm_crc32_u8(state, std::to_integer<uint8_t>(*data));
  return state;
}
#endif

}  // namespace

uint32_t Crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (ChosenIsa() != Isa::kGeneric) return ~ExtendSse42(~uint32_t{0}, bytes.data(), bytes.size());
#endif
  return ~ExtendPortable(~uint32_t{0}, bytes.data(), bytes.size());
}

uint32_t Crc32cConcat(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
  return Times(ZeroBytes(bytes_b), crc_a) ^ crc_b;
}

}  // namespace longwave
