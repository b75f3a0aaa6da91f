#ifndef LONGWAVE_COMMON_BASE_RNG_H_
#define LONGWAVE_COMMON_BASE_RNG_H_

#include <cstdint>

#ifdef __CUDACC__
#define LONGWAVE_HOST_DEVICE __host__ __device__
#else
#define LONGWAVE_HOST_DEVICE
#endif

namespace longwave {

// The finalizer of SplitMix64: a bijection of 64-bit words in which every input bit reaches every
// output bit. Source: Steele, Lea & Flood 2014; constants of Stafford's variant 13.
LONGWAVE_HOST_DEVICE constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// SplitMix64: a small generator whose whole state is one word, so that any (seed, index) pair names
// a stream of its own. The same on every machine and on a GPU; not for secrets.
class Rng {
 public:
  LONGWAVE_HOST_DEVICE constexpr explicit Rng(uint64_t seed, uint64_t stream = 0)
      : state_(Mix64(seed + 0x9e3779b97f4a7c15u) ^ Mix64(~stream)) {}

  LONGWAVE_HOST_DEVICE constexpr uint64_t Next() { return Mix64(state_ += 0x9e3779b97f4a7c15u); }

  // Equals `count` calls of Next.
  LONGWAVE_HOST_DEVICE constexpr void Skip(uint64_t count) {
    state_ += count * 0x9e3779b97f4a7c15u;
  }

  // Uniform in [0, bound) for a bound of at least 1: the upper half of the product of 64 random
  // bits and the bound, without its lowest partial product and the carries of the fractions. The
  // bias is below 2^-32 for a bound up to 2^32.
  LONGWAVE_HOST_DEVICE constexpr uint64_t Below(uint64_t bound) {
    const uint64_t word = Next(), high = word >> 32, low = word & 0xffffffffu;
    const uint64_t bound_high = bound >> 32, bound_low = bound & 0xffffffffu;
    return high * bound_high + (high * bound_low >> 32) + (low * bound_high >> 32);
  }

  // Uniform in [0, 1), 53 bits.
  LONGWAVE_HOST_DEVICE constexpr double Uniform() {
    return static_cast<double>(Next() >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_RNG_H_
