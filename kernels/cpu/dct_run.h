#ifndef LONGWAVE_KERNELS_CPU_DCT_RUN_H_
#define LONGWAVE_KERNELS_CPU_DCT_RUN_H_

#include "kernels/cpu/dct_steps.h"
#include "kernels/cpu/rotations.h"

// The transform of one run of 128 … 4096 elements, a power of two: dct_plan.h's factorization level
// by level over the whole run, down to transforms of 64 (the nodes), kLanes at a time. Each level's
// loops run along memory, forwards and backwards.

namespace longwave::cpu {
namespace {

constexpr uint32_t kNode = 64;
constexpr uint32_t kNodesMax = kTileSizeMax / kNode;

// The nodes of each level that are DCT-IV: a DCT-II splits into one of each, a DCT-IV into two
// DCT-II. Node i of a level of 2^l nodes is bit i.
struct NodeKinds {
  uint64_t is_dct4[7];
};
constexpr NodeKinds KindsOfNodes() {
  NodeKinds kinds = {};
  for (uint32_t level = 1; level < 7; ++level) {
    for (uint32_t i = 0; i < (1u << (level - 1)); ++i) {
      const bool parent_is_dct4 = (kinds.is_dct4[level - 1] >> i & 1) != 0;
      if (!parent_is_dct4) kinds.is_dct4[level] |= uint64_t{1} << (2 * i + 1);
    }
  }
  return kinds;
}
constexpr NodeKinds kNodeKinds = KindsOfNodes();

inline bool IsDct4(uint32_t level, uint32_t node) {
  return (kNodeKinds.is_dct4[level] >> node & 1) != 0;
}

inline void SplitDct2(uint32_t n, const float* __restrict x, float* __restrict y) {
  const uint32_t half = n / 2;
  for (uint32_t i = 0; i < half; ++i) {
    y[i] = x[i] + x[n - 1 - i];
    y[half + i] = x[i] - x[n - 1 - i];
  }
}

inline void JoinDct2(uint32_t n, const float* __restrict y, float* __restrict x) {
  for (uint32_t k = 0; k < n / 2; ++k) {
    x[2 * k] = y[k];
    x[2 * k + 1] = y[n / 2 + k];
  }
}

inline void SplitDct4(uint32_t n, const Rotations& r, const float* __restrict x,
                      float* __restrict y) {
  const uint32_t half = n / 2;
  for (uint32_t j = 0; j < half; ++j) {
    y[j] = FmaOnce(r.sine[j], x[n - 1 - j], MulOnce(r.cosine[j], x[j]));
    y[half + j] = FmaOnce(r.minus_cosine[j], x[n - 1 - j], MulOnce(r.plus_sine[j], x[j]));
  }
}

inline void JoinDct4(uint32_t n, const float* __restrict y, float* __restrict x) {
  const uint32_t half = n / 2;
  x[0] = MulOnce(kRoot, y[0]);
  x[n - 1] = MulOnce(kRoot, y[half]);
  for (uint32_t k = 1; k < half; ++k) {
    x[2 * k] = y[k] - y[n - k];
    x[2 * k - 1] = y[k] + y[n - k];
  }
}

// The transposes of the four functions above.
inline void UnsplitDct2(uint32_t n, const float* __restrict y, float* __restrict x) {
  const uint32_t half = n / 2;
  for (uint32_t i = 0; i < half; ++i) {
    x[i] = y[i] + y[half + i];
    x[n - 1 - i] = y[i] - y[half + i];
  }
}

inline void UnjoinDct2(uint32_t n, const float* __restrict x, float* __restrict y) {
  for (uint32_t k = 0; k < n / 2; ++k) {
    y[k] = x[2 * k];
    y[n / 2 + k] = x[2 * k + 1];
  }
}

inline void UnsplitDct4(uint32_t n, const Rotations& r, const float* __restrict y,
                        float* __restrict x) {
  const uint32_t half = n / 2;
  for (uint32_t j = 0; j < half; ++j) {
    x[j] = FmaOnce(r.plus_sine[j], y[half + j], MulOnce(r.cosine[j], y[j]));
    x[n - 1 - j] = FmaOnce(r.minus_cosine[j], y[half + j], MulOnce(r.sine[j], y[j]));
  }
}

inline void UnjoinDct4(uint32_t n, const float* __restrict x, float* __restrict y) {
  const uint32_t half = n / 2;
  y[0] = MulOnce(kRoot, x[0]);
  y[half] = MulOnce(kRoot, x[n - 1]);
  for (uint32_t k = 1; k < half; ++k) {
    y[k] = x[2 * k - 1] + x[2 * k];
    y[n - k] = x[2 * k - 1] - x[2 * k];
  }
}

// kLanes nodes of one kind at a time, in place. The last node pads `list`; its repeated stores have
// the same result.
template <bool kDct4, bool kForward>
__attribute__((noinline)) void TransformNodes(const uint8_t* list, float* x) {
  Waiting<kNode> in, out;
  for (uint32_t i = 0; i < kNode; i += kLanes) {
    alignas(64) float rows[kLanes * kLanes];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      Store(rows + lane * kLanes, Load(x + list[lane] * kNode + i));
    }
    V block[kLanes];
    TransposeBlock(rows, kLanes, block);
    for (uint32_t k = 0; k < kLanes; ++k) in.Set(i + k, block[k]);
  }
  const auto load = [&](auto i) LONGWAVE_BODY { return in.Get(i.value); };
  const auto store = [&](auto i, V v) LONGWAVE_BODY { out.Set(i.value, v); };
  if constexpr (kDct4 && kForward) Steps4<kNode>::Forward(load, store);
  if constexpr (!kDct4 && kForward) Steps2<kNode>::Forward(load, store);
  if constexpr (kDct4 && !kForward) Steps4<kNode>::Inverse(load, store);
  if constexpr (!kDct4 && !kForward) Steps2<kNode>::Inverse(load, store);
  for (uint32_t i = 0; i < kNode; i += kLanes) {
    V block[kLanes];
    TransposeBlock(out.at + i * kLanes, kLanes, block);
    for (uint32_t lane = 0; lane < kLanes; ++lane) Store(x + list[lane] * kNode + i, block[lane]);
  }
}

template <bool kDct4, bool kForward>
inline void TransformNodesOf(uint32_t level, float* x) {
  uint8_t list[kNodesMax + kLanes];
  uint32_t count = 0;
  for (uint32_t node = 0; node < (1u << level); ++node) {
    if (IsDct4(level, node) == kDct4) list[count++] = static_cast<uint8_t>(node);
  }
  for (uint32_t i = 0; i < kLanes; ++i) list[count + i] = list[count - 1];
  for (uint32_t i = 0; i < count; i += kLanes) TransformNodes<kDct4, kForward>(list + i, x);
}

// Calls f(node's size, node's offset, whether it is a DCT-IV) for the nodes of a level.
template <class F>
LONGWAVE_SIMD void ForNodes(uint32_t n, uint32_t level, const F& f) {
  const uint32_t size = n >> level;
  for (uint32_t node = 0; node < (1u << level); ++node) f(size, node * size, IsDct4(level, node));
}

// n = 2^log_n of 128 … 4096. x in place; y has the same size. The inverse's splits are the
// forward's joins, and vice versa.
template <bool kForward>
inline void TransformRun(uint32_t log_n, const Rotations* rotations, float* x, float* y) {
  const uint32_t n = 1u << log_n, levels = log_n - 6;
  float* from = x;
  float* to = y;
  const auto swap = [&] {
    float* swapped = from;
    from = to;
    to = swapped;
  };
  for (uint32_t level = 0; level < levels; ++level) {
    ForNodes(n, level, [&](uint32_t size, uint32_t at, bool is_dct4) {
      if (is_dct4) {
        kForward ? SplitDct4(size, rotations[log_n - level], from + at, to + at)
                 : UnjoinDct4(size, from + at, to + at);
      } else {
        kForward ? SplitDct2(size, from + at, to + at) : UnjoinDct2(size, from + at, to + at);
      }
    });
    swap();
  }
  TransformNodesOf<false, kForward>(levels, from);
  TransformNodesOf<true, kForward>(levels, from);
  for (uint32_t level = levels; level-- > 0;) {
    ForNodes(n, level, [&](uint32_t size, uint32_t at, bool is_dct4) {
      if (is_dct4) {
        kForward ? JoinDct4(size, from + at, to + at)
                 : UnsplitDct4(size, rotations[log_n - level], from + at, to + at);
      } else {
        kForward ? JoinDct2(size, from + at, to + at) : UnsplitDct2(size, from + at, to + at);
      }
    });
    swap();
  }
  // As many levels up as down: the result is in x again.
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_RUN_H_
