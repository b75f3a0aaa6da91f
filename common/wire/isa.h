#ifndef LONGWAVE_COMMON_WIRE_ISA_H_
#define LONGWAVE_COMMON_WIRE_ISA_H_

namespace longwave {

// The instructions beyond the baseline that some loops have a second form for. Every form gives the
// same bits; the choice is made when the program runs, so that one binary serves every machine.
// A function of the second form carries LONGWAVE_AVX512 and is called only if UsesAvx512.
#if defined(__x86_64__)
#define LONGWAVE_HAS_AVX512 1
#define LONGWAVE_AVX512                                                            \
  __attribute__((                                                                  \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
             "popcnt,lzcnt,fma")))
#else
#define LONGWAVE_HAS_AVX512 0
#endif

// Whether this machine has them, that is Intel since Ice Lake and AMD since Zen 4.
bool UsesAvx512();

// While one lives, UsesAvx512 is false: for tests that hold the forms against each other.
class ScopedBaselineIsa {
 public:
  ScopedBaselineIsa();
  ~ScopedBaselineIsa();
  ScopedBaselineIsa(const ScopedBaselineIsa&) = delete;
  ScopedBaselineIsa& operator=(const ScopedBaselineIsa&) = delete;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_ISA_H_
