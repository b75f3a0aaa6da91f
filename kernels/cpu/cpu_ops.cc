#include "kernels/cpu/cpu_ops.h"

#include <vector>

#include "common/base/check.h"
#include "kernels/cpu/decode_update.h"
#include "kernels/cpu/encode.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/host_memory.h"

namespace longwave::cpu {
namespace {

absl::Status Finish(const Exec&, uint32_t) { return absl::OkStatus(); }

absl::Status Wait(const Exec&) { return absl::OkStatus(); }

template <Isa kIsa>
const KernelOps& Table() {
  static const KernelOps ops = {
      "cpu",
      [](const Exec& exec, const EncodeArgs& a) { return Encode(TileMathOf(kIsa), exec, a); },
      Finish,
      [](const Exec& exec, const RestoreArgs& a) { return Restore(TileMathOf(kIsa), exec, a); },
      [](const Exec& exec, const DecodeUpdateArgs& a) {
        return DecodeUpdate(TileMathOf(kIsa), exec, a);
      },
      [](const Exec& exec, const HashArgs& a) { return Hash(TileMathOf(kIsa), exec, a); },
      CopyHost,
      AllocateHost,
      ReleaseHost,
      Wait,
      [](const Exec& exec, const AdamWArgs& a) { return AdamW(OptimizerMathOf(kIsa), exec, a); },
      [](const Exec& exec, const SquareSumArgs& a) {
        return SquareSum(OptimizerMathOf(kIsa), exec, a);
      },
      [](const Exec& exec, const ScaleArgs& a) { return Scale(OptimizerMathOf(kIsa), exec, a); },
      [](const Exec& exec, const BlendArgs& a) { return Blend(OptimizerMathOf(kIsa), exec, a); },
      ReadMachineMemory,
      false};
  return ops;
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas = {Isa::kGeneric};
#ifdef LONGWAVE_CPU_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("popcnt")) {
    return isas;
  }
  isas.push_back(Isa::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    isas.push_back(Isa::kAvx512);
  }
#endif
  return isas;
}

const TileMath& TileMathOf(Isa isa) {
#ifdef LONGWAVE_CPU_X86
  if (isa == Isa::kAvx2) return kTileMathAvx2;
  if (isa == Isa::kAvx512) return kTileMathAvx512;
#endif
  LONGWAVE_CHECK(isa == Isa::kGeneric);
  return kTileMathGeneric;
}

const KernelOps& OpsOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return Table<Isa::kAvx2>();
    case Isa::kAvx512:
      return Table<Isa::kAvx512>();
    case Isa::kGeneric:
      break;
  }
  return Table<Isa::kGeneric>();
}

}  // namespace longwave::cpu
