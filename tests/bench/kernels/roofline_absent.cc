#include "common/base/check.h"
#include "tests/bench/kernels/roofline.h"

namespace longwave::bench {

const Roofline& CudaRoofline() {
  // OpsFor has returned Unavailable before any call of this.
  LONGWAVE_CHECK(!"a build without CUDA has no CUDA backend");
  return HostRoofline();
}

}  // namespace longwave::bench
