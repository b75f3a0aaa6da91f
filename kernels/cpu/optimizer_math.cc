// Compiled for each instruction set (kernels/CMakeLists.txt); LONGWAVE_OPTIMIZER_MATH names the
// table. Plain loops without branches and aliases: the compiler vectorizes them, and each is as
// fast as memory. The file calls no inline function that other sources share.
#include "kernels/cpu/optimizer_math.h"

namespace longwave::cpu {
namespace {

void AdamW(const AdamWArgs& args, size_t begin, size_t end) {
  const AdamWArgs a = args;  // in registers, since no store below can change it
  const float* __restrict g = a.gradient;
  float* __restrict m = a.m;
  float* __restrict v = a.v;
  float* __restrict theta = a.theta;
  for (size_t i = begin; i < end; ++i) {
    const float m_new = a.beta1 * m[i] + a.one_minus_beta1 * g[i];
    const float v_new = a.beta2 * v[i] + a.one_minus_beta2 * (g[i] * g[i]);
    m[i] = m_new;
    v[i] = v_new;
    const float root = __builtin_sqrtf(v_new) * a.root_scale + a.epsilon;
    theta[i] = theta[i] * a.keep - a.step_size * (m_new / root);
  }
}

void Scale(const ScaleArgs& args, size_t begin, size_t end) {
  float* const x = args.x;
  const float scale = args.scale;
  for (size_t i = begin; i < end; ++i) x[i] *= scale;
}

void Blend(const BlendArgs& args, size_t begin, size_t end) {
  float* __restrict theta = args.theta;
  const float* __restrict anchor = args.anchor;
  const float* __restrict base = args.base;
  const float alpha = args.alpha;
  if (alpha == 0) {
    __builtin_memcpy(theta + begin, anchor + begin, (end - begin) * sizeof(float));
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    theta[i] = __builtin_fmaf(alpha, theta[i] - base[i], anchor[i]);
  }
}

double SquareSum(const float* x, size_t count) {
  using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
  using Doubles = double __attribute__((vector_size(64)));
  constexpr size_t kWidth = 8;
  constexpr size_t kVectors = kSquareSumLanes / kWidth;
  Doubles sums[kVectors] = {};
  const size_t whole = count / kSquareSumLanes * kSquareSumLanes;
  for (size_t i = 0; i < whole; i += kSquareSumLanes) {
    for (size_t j = 0; j < kVectors; ++j) {
      const Floats& narrow = *reinterpret_cast<const Floats*>(x + i + j * kWidth);
      const Doubles wide = __builtin_convertvector(narrow, Doubles);
      sums[j] += wide * wide;
    }
  }
  double lanes[kSquareSumLanes];
  for (size_t l = 0; l < kSquareSumLanes; ++l) lanes[l] = sums[l / kWidth][l % kWidth];
  for (size_t i = whole; i < count; ++i) lanes[i - whole] += static_cast<double>(x[i]) * x[i];
  for (size_t n = kSquareSumLanes / 2; n > 0; n /= 2) {
    for (size_t l = 0; l < n; ++l) lanes[l] = lanes[2 * l] + lanes[2 * l + 1];
  }
  return lanes[0];
}

}  // namespace

extern const OptimizerMath LONGWAVE_OPTIMIZER_MATH = {AdamW, Scale, Blend, SquareSum};

}  // namespace longwave::cpu
