#ifndef LONGWAVE_COMMON_BASE_ISA_H_
#define LONGWAVE_COMMON_BASE_ISA_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace longwave {

// The instruction sets that hot loops are built for, in ascending order. All give the same bits.
// The program chooses at run time, so that one binary serves every machine.
enum class Isa : uint8_t {
  kGeneric = 0,
  kAvx2 = 1,  // AVX2, FMA, BMI, BMI2 and POPCNT
  kAvx512 =
      2,  // these and AVX-512 F, DQ, BW, VL, VBMI and VBMI2: Intel since Ice Lake, AMD since Zen 4
};

std::string_view Name(Isa isa);  // "generic", "avx2", "avx512"

// The sets that this processor can run, kGeneric first. Never empty.
std::vector<Isa> SupportedIsas();

// The last of SupportedIsas, unless a ScopedIsa lives.
Isa ChosenIsa();

// ChosenIsa is `isa`, which must be supported, while this object lives. For tests that compare the
// sets.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  const Isa before_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_ISA_H_
