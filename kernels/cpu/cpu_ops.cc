#include "kernels/cpu/cpu_ops.h"

#include <span>

#include "kernels/cpu/dense_ops.h"
#include "kernels/cpu/values.h"
#include "kernels/host_memory.h"

namespace longwave::cpu {
namespace {

absl::Status Finish(const Exec&, uint32_t) { return absl::OkStatus(); }

absl::Status Wait(const Exec&) { return absl::OkStatus(); }

// Calls f for each segment's arguments.
template <typename Args, typename F>
absl::Status ForEachSegment(std::span<const Args> args, const F& f) {
  for (const Args& each : args) {
    if (absl::Status status = f(each); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <Isa kIsa>
const KernelOps& Table() {
  static const KernelOps ops = {
      "cpu",
      [](const Exec& exec, std::span<const EncodeArgs> all) {
        return ForEachSegment(
            all, [&](const EncodeArgs& a) { return Encode(TileMathOf(kIsa), exec, a); });
      },
      Finish,
      [](const Exec& exec, const RestoreArgs& a) { return Restore(TileMathOf(kIsa), exec, a); },
      [](const Exec& exec, std::span<const DecodeUpdateArgs> all) {
        return ForEachSegment(all, [&](const DecodeUpdateArgs& a) {
          return DecodeUpdate(TileMathOf(kIsa), exec, a);
        });
      },
      [](const Exec& exec, const HashArgs& a) { return Hash(TileMathOf(kIsa), exec, a); },
      CopyHost,
      AllocateHost,
      ReleaseHost,
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
