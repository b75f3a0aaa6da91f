#ifndef LONGWAVE_COMMON_BASE_RANDOM_WORD_H_
#define LONGWAVE_COMMON_BASE_RANDOM_WORD_H_

#include <cstdint>
#include <random>

namespace longwave {

// 64 bits from the operating system, for process names and seeds that must be unique.
inline uint64_t RandomWord() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_RANDOM_WORD_H_
