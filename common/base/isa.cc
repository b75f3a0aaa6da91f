#include "common/base/isa.h"

#include <atomic>

#include "common/base/enum_name.h"

namespace longwave {
namespace {

std::atomic<Isa>& Choice() {
  static std::atomic<Isa> choice = SupportedIsas().back();
  return choice;
}

}  // namespace

std::string_view Name(Isa isa) { return EnumName(isa, {"generic", "avx2", "avx512"}); }

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas = {Isa::kGeneric};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("popcnt")) {
    return isas;
  }
  isas.push_back(Isa::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2")) {
    isas.push_back(Isa::kAvx512);
  }
#endif
  return isas;
}

Isa ChosenIsa() { return Choice().load(std::memory_order_relaxed); }

ScopedIsa::ScopedIsa(Isa isa) : before_(Choice().exchange(isa)) {}
ScopedIsa::~ScopedIsa() { Choice() = before_; }

}  // namespace longwave
