#ifndef LONGWAVE_TESTS_BENCH_KERNELS_ENCODE_CHECK_H_
#define LONGWAVE_TESTS_BENCH_KERNELS_ENCODE_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tests/bench/kernels/problem.h"

namespace longwave::bench {

// Tiles of a layout that are looked at: spread evenly, the first and the last among them.
std::vector<uint32_t> TilesChecked(const Layout& layout);

// Whether one encoding of tile `tile`, begun at problem.momentum(), came out right, held against
// the definition in double precision: payload and residual together are β·m̂ + T(s); the chosen
// coefficients carry as much as the k largest do; the quantization is as near as the wire's own.
//   arrays     the signal that was encoded, in host memory
//   residual   m̂ of the tile afterwards
bool TileIsRight(const Problem& problem, const Setting& setting, uint32_t tile,
                 const Arrays& arrays, const Payloads& payloads, std::span<const float> residual);

}  // namespace longwave::bench

#endif  // LONGWAVE_TESTS_BENCH_KERNELS_ENCODE_CHECK_H_
