#include "common/wire/isa.h"

#include <atomic>

namespace longwave {
namespace {

std::atomic<int> baseline_scopes{0};

bool MachineHasAvx512() {
#if LONGWAVE_HAS_AVX512
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace

bool UsesAvx512() {
  static const bool has = MachineHasAvx512();
  return has && baseline_scopes.load(std::memory_order_relaxed) == 0;
}

ScopedBaselineIsa::ScopedBaselineIsa() { ++baseline_scopes; }
ScopedBaselineIsa::~ScopedBaselineIsa() { --baseline_scopes; }

}  // namespace longwave
