#ifndef LONGWAVE_KERNELS_CPU_DCT_TILE_H_
#define LONGWAVE_KERNELS_CPU_DCT_TILE_H_

#include "kernels/cpu/dct_steps.h"

// The transform of dct_plan.h of a whole tile of kRows × kCols, both powers of two and multiples of
// kLanes: columns side by side in the lanes, then rows, with one transposition between.

namespace longwave::cpu {
namespace {

// Each group of kLanes columns or rows is a function call: compilers would load all of a loop's
// constants beforehand, into more registers than there are.
//
// Both passes prefetch half each of another array's part for the tile after this one. They spread
// it evenly over their time, since prefetches at once wait for each other, and row by row, since
// rows are pages apart and the TLB is small.
struct Ahead {
  const char* a;
  const char* b;  // may be null
  uint64_t row_bytes;
  uint32_t line_bytes;  // of a quarter of a row

  // Prefetches line `line` of 256.
  LONGWAVE_SIMD void Fetch(uint32_t line) const {
    const uint64_t at = line / 4 * row_bytes + line % 4 * line_bytes;
    Prefetch(a + at);
    if (b != nullptr) Prefetch(b + at);
  }
};

// The line of a pass of 4096 / kLanes steps.
template <uint32_t kRows>
LONGWAVE_SIMD uint32_t LineOf(uint32_t c, uint32_t i) {
  return (c / kLanes * kRows + i) * kLanes / 16;
}

// A pass reads and writes Groups of a source or a target: kLanes columns or rows each, made before
// them and ended after them.
//
// Elements in memory, in[…, kCols], times the norm.
template <uint32_t kCols>
struct FromMemory {
  const float* in;
  float norm;
  struct Group {
    const float* at;
    V norm;
    LONGWAVE_SIMD Group(const FromMemory& from, uint32_t c)
        : at(from.in + c), norm(Broadcast(from.norm)) {}
    template <class R>
    LONGWAVE_SIMD V Get(R) const {
      return Mul(norm, Load(at + R::value * kCols));
    }
    LONGWAVE_SIMD void End(FromMemory&) const {}
  };
};

template <uint32_t kRows, uint32_t kCols, class From>
__attribute__((noinline)) void ForwardColumnsAt(uint32_t c, From& source, const Ahead& ahead,
                                                float* between) {
  typename From::Group from(source, c);  // no pointer to it exists, so it stays in registers
  Steps2<kRows>::Forward([&](auto r) LONGWAVE_BODY { return from.Get(r); },
                         [&](auto i, V v) LONGWAVE_BODY {
                           if (i.value % 2 == 0) ahead.Fetch(LineOf<kRows>(c, i.value) / 2);
                           Store(between + i.value * kCols + c, v);
                         });
  from.End(source);
}

// A group's Get(Index<r>): elements c … of row r, times the norm. between: [kRows, kCols].
template <uint32_t kRows, uint32_t kCols, class From>
inline void ForwardColumns(From& from, const Ahead& ahead, float* between) {
  for (uint32_t c = 0; c < kCols; c += kLanes) {
    ForwardColumnsAt<kRows, kCols>(c, from, ahead, between);
  }
}

// The blocks of a transposition are spread over the pauses of a neighbouring group's transform:
// shuffles and arithmetic then run in parallel.
template <uint32_t kCols, uint32_t kPart, class F>
LONGWAVE_SIMD void ForBlocks(const F& transpose_at) {
  constexpr uint32_t kBlocks = kCols / kLanes;
  Unroll<kBlocks>([&](auto block) LONGWAVE_BODY {
    if constexpr (block.value * 4 / kBlocks == kPart) transpose_at(block.value * kLanes);
  });
}

template <uint32_t kRows, uint32_t kCols>
LONGWAVE_SIMD void TransposeIn(const float* between, uint32_t i, uint32_t c,
                               Waiting<kCols>& across) {
  V block[kLanes];
  TransposeBlock(between + i * kCols + c, kCols, block);
  Unroll<kLanes>([&](auto k) LONGWAVE_BODY { across.Set(c + k.value, block[k.value]); });
}

// Transforms row group i from `across`, and loads the next one into `next`.
template <uint32_t kRows, uint32_t kCols, class To>
__attribute__((noinline)) void ForwardRowsAt(uint32_t i, const float* between,
                                             const Waiting<kCols>& across, Waiting<kCols>& next,
                                             const Ahead& ahead, To& target) {
  typename To::Group to(target, i);  // no pointer to it exists, so it stays in registers
  Steps2<kCols>::Forward([&](auto c) LONGWAVE_BODY { return across.Get(c.value); },
                         [&](auto j, V v) LONGWAVE_BODY {
                           if (j.value % 2 == 0) ahead.Fetch(128 + LineOf<kCols>(i, j.value) / 2);
                           to.Put(j, v);
                         },
                         [&](auto part) LONGWAVE_BODY {
                           if (i + kLanes >= kRows) return;
                           ForBlocks<kCols, part.value>([&](uint32_t c) LONGWAVE_BODY {
                             TransposeIn<kRows, kCols>(between, i + kLanes, c, next);
                           });
                         });
  to.End(target);
}

// Coefficients unchanged: out[kCols, kRows].
template <uint32_t kRows>
struct Plainly {
  float* out;
  struct Group {
    float* at;
    LONGWAVE_SIMD Group(const Plainly& to, uint32_t i) : at(to.out + i) {}
    template <class J>
    LONGWAVE_SIMD void Put(J, V v) const {
      Store(at + J::value * kRows, v);
    }
    LONGWAVE_SIMD void End(Plainly&) const {}
  };
};

// A group's Put(Index<j>, v) takes coefficients i … of row j, of kCols rows of kRows.
template <uint32_t kRows, uint32_t kCols, class To>
inline void ForwardRows(const float* between, const Ahead& ahead, To& to) {
  Waiting<kCols> across[2];
  for (uint32_t c = 0; c < kCols; c += kLanes) {
    TransposeIn<kRows, kCols>(between, 0, c, across[0]);
  }
  for (uint32_t i = 0; i < kRows; i += kLanes) {
    const uint32_t which = i / kLanes % 2;
    ForwardRowsAt<kRows, kCols>(i, between, across[which], across[1 - which], ahead, to);
  }
}

template <uint32_t kRows, uint32_t kCols>
LONGWAVE_SIMD void TransposeOut(const Waiting<kCols>& across, uint32_t i, uint32_t c,
                                float* between) {
  V block[kLanes];
  TransposeBlock(across.at + c * kLanes, kLanes, block);
  Unroll<kLanes>([&](auto k)
                     LONGWAVE_BODY { Store(between + (i + k.value) * kCols + c, block[k.value]); });
}

// Transforms row group i into `across`, and stores the one before it from `last`.
template <uint32_t kRows, uint32_t kCols>
__attribute__((noinline)) void InverseRowsAt(uint32_t i, const float* in, const Ahead& ahead,
                                             Waiting<kCols>& across, const Waiting<kCols>& last,
                                             float* between) {
  Steps2<kCols>::Inverse(
      [&](auto j) LONGWAVE_BODY {
        if (j.value % 2 == 0) ahead.Fetch(LineOf<kCols>(i, j.value) / 2);
        return Load(in + j.value * kRows + i);
      },
      [&](auto c, V v) LONGWAVE_BODY { across.Set(c.value, v); },
      [&](auto part) LONGWAVE_BODY {
        if (i == 0) return;
        ForBlocks<kCols, part.value>([&](uint32_t c) LONGWAVE_BODY {
          TransposeOut<kRows, kCols>(last, i - kLanes, c, between);
        });
      });
}

// in[kCols, kRows]: coefficients, already times the norm. between: [kRows, kCols].
template <uint32_t kRows, uint32_t kCols>
inline void InverseRows(const float* in, const Ahead& ahead, float* between) {
  Waiting<kCols> across[2];
  uint32_t which = 0;
  for (uint32_t i = 0; i < kRows; i += kLanes, which = 1 - which) {
    InverseRowsAt<kRows, kCols>(i, in, ahead, across[which], across[1 - which], between);
  }
  for (uint32_t c = 0; c < kCols; c += kLanes) {
    TransposeOut<kRows, kCols>(across[1 - which], kRows - kLanes, c, between);
  }
}

template <uint32_t kRows, uint32_t kCols>
__attribute__((noinline)) void InverseColumnsAt(uint32_t c, const float* between,
                                                const Ahead& ahead, float* out) {
  Steps2<kRows>::Inverse(
      [&](auto i) LONGWAVE_BODY {
        if (i.value % 2 == 0) ahead.Fetch(128 + LineOf<kRows>(c, i.value) / 2);
        return Load(between + i.value * kCols + c);
      },
      [&](auto r, V v) LONGWAVE_BODY { Store(out + r.value * kCols + c, v); });
}

// between, out: [kRows, kCols].
template <uint32_t kRows, uint32_t kCols>
inline void InverseColumns(const float* between, const Ahead& ahead, float* out) {
  for (uint32_t c = 0; c < kCols; c += kLanes) {
    InverseColumnsAt<kRows, kCols>(c, between, ahead, out);
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_TILE_H_
