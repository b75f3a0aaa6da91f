#ifndef LONGWAVE_KERNELS_OPTIMIZER_H_
#define LONGWAVE_KERNELS_OPTIMIZER_H_

#include <cstdint>

namespace longwave {

// The operations on flat arrays in the table of ops.h: the inner optimizer's, and the blend of an
// overlapped sync.
//
// Every operation is rounded to nearest, square root and division included, so that equal inputs
// give equal bits on every backend: with a merged gradient (`update: inner`) the
// replicas stay equal on CPUs and GPUs alike. NaNs stay NaNs; their bits may differ.

// A step of AdamW:
//   m ← β₁·m + (1 − β₁)·g
//   v ← β₂·v + (1 − β₂)·(g·g)
//   θ ← θ·keep − step_size·(m / (√v·root_scale + ε))
// Source: Loshchilov & Hutter 2019 (arXiv 1711.05101), with the bias corrections in the scalars.
struct AdamWArgs {
  uint64_t count = 0;
  const float* gradient = nullptr;  // g, [count]; the arrays do not overlap
  float* m = nullptr;
  float* v = nullptr;
  float* theta = nullptr;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float step_size = 0;   // lr / (1 − β₁ᵗ)
  float root_scale = 1;  // 1 / √(1 − β₂ᵗ)
  float epsilon = 0;
  float keep = 1;  // 1 − lr·weight_decay
};

// Σ x² in double. In a chunk of kSquareSumChunk elements, lane l of kSquareSumLanes adds the
// squares of elements l, l + kSquareSumLanes, … in order; then neighbouring lanes are added in
// pairs, neighbouring pairs in pairs of these and so on; then chunks likewise, with zeros as
// padding. The order depends on the index alone, so that the bits are the same for any number of
// threads and on a GPU.
inline constexpr uint32_t kSquareSumChunk = 4096;
inline constexpr uint32_t kSquareSumLanes = 32;

struct SquareSumArgs {
  uint64_t count = 0;
  const float* x = nullptr;  // [count]
  double* sum = nullptr;     // host memory; set when the call returns
};

// x ← scale·x
struct ScaleArgs {
  uint64_t count = 0;
  float* x = nullptr;  // [count]
  float scale = 1;
};

// θ ← fma(α, θ − base, anchor) for the elements begin … end − 1: the worker's progress since
// `base`, on top of the merged anchor. α = 0 copies the anchor, and reads neither θ nor base.
struct BlendArgs {
  uint64_t begin = 0;  // of all three arrays, which do not overlap
  uint64_t end = 0;
  float* theta = nullptr;
  const float* anchor = nullptr;
  const float* base = nullptr;  // may be null with α = 0
  float alpha = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_OPTIMIZER_H_
