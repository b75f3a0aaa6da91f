#include "kernels/ops.h"

#include "absl/strings/str_cat.h"
#include "kernels/backends.h"
#include "kernels/cpu/cpu_ops.h"

namespace longwave {

absl::StatusOr<const KernelOps*> OpsFor(BackendKind kind) {
  switch (kind) {
    case BackendKind::kReference:
      return &ref::Ops();
    case BackendKind::kCpu: {
      static const KernelOps* const best = &cpu::OpsOf(SupportedIsas().back());
      return best;
    }
    case BackendKind::kCuda:
      return cuda::Ops();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown backend ", static_cast<int>(kind)));
}

std::string_view Name(BackendKind kind) {
  switch (kind) {
    case BackendKind::kReference:
      return "reference";
    case BackendKind::kCpu:
      return "cpu";
    case BackendKind::kCuda:
      return "cuda";
  }
  return "unknown";
}

}  // namespace longwave
