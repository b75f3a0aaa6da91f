#ifndef LONGWAVE_COMMON_WIRE_BYTES_H_
#define LONGWAVE_COMMON_WIRE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace longwave {

// The wire is little-endian, and so are all supported machines: loads and stores are plain copies.
static_assert(std::endian::native == std::endian::little);

template <typename T>
T LoadLe(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void StoreLe(T value, std::byte* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

// Up to 64 bits from byte `first`, as a word; bytes past the end read as zero.
inline uint64_t LoadWordAt(std::span<const std::byte> bytes, size_t first) {
  if (first + 8 <= bytes.size()) return LoadLe<uint64_t>(bytes.data() + first);
  uint64_t word = 0;
  for (size_t i = first; i < bytes.size(); ++i) {
    word |= std::to_integer<uint64_t>(bytes[i]) << (8 * (i - first));
  }
  return word;
}

// `width` bits (at most 32) from bit `bit` on, least significant first.
inline uint32_t LoadBits(std::span<const std::byte> bytes, size_t bit, uint32_t width) {
  const uint64_t word = LoadWordAt(bytes, bit / 8) >> (bit % 8);
  return static_cast<uint32_t>(word & ((uint64_t{1} << width) - 1));
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_BYTES_H_
