#include "server/store/crc32c_concat.h"

namespace longwave {
namespace {

// Polynomials over GF(2), reflected: the top bit is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0x82f63b78;
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

constexpr uint32_t kX8 = kOne >> 8;

}  // namespace

uint32_t Crc32cConcat(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
  uint32_t shift = kOne;
  for (uint32_t square = kX8; bytes_b != 0; bytes_b >>= 1, square = Times(square, square)) {
    if ((bytes_b & 1) != 0) shift = Times(shift, square);
  }
  return Times(shift, crc_a) ^ crc_b;
}

}  // namespace longwave
