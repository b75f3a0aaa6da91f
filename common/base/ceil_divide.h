#ifndef LONGWAVE_COMMON_BASE_CEIL_DIVIDE_H_
#define LONGWAVE_COMMON_BASE_CEIL_DIVIDE_H_

#include <cstdint>

namespace longwave {

// ⌈a / b⌉, also where a + b would overflow. b > 0.
constexpr uint64_t CeilDivide(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_CEIL_DIVIDE_H_
