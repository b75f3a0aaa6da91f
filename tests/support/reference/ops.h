#ifndef LONGWAVE_TESTS_SUPPORT_REFERENCE_OPS_H_
#define LONGWAVE_TESTS_SUPPORT_REFERENCE_OPS_H_

#include "kernels/ops.h"

namespace longwave::ref {

// The definition that every backend is tested against: double precision, in simple loops, slow
// where simplicity needs it. Dense data is fp32 in memory as everywhere, and all results between
// two stores are double. Only the bits of a payload come from the wire's own functions, which
// define them.
const KernelOps& Ops();

}  // namespace longwave::ref

#endif  // LONGWAVE_TESTS_SUPPORT_REFERENCE_OPS_H_
