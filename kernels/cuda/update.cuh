#ifndef LONGWAVE_KERNELS_CUDA_UPDATE_CUH_
#define LONGWAVE_KERNELS_CUDA_UPDATE_CUH_

#include "kernels/cuda/block.cuh"
#include "kernels/ops.h"

namespace longwave::cuda {

// The update rules of ops.h.

// The state of one element that a rule reads beside u, and writes. first: θ, or the gradient.
// second: the velocity, or the signal, which is only read.
struct ElementState {
  float first, second;
};

template <UpdateKind kRule>
__device__ __forceinline__ ElementState LoadState(const DecodeJob& job, uint64_t at) {
  ElementState state = {};
  if constexpr (kRule != UpdateKind::kInner) state.first = job.theta[at];
  if constexpr (kRule == UpdateKind::kNesterov) state.second = job.velocity[at];
  if constexpr (kRule == UpdateKind::kLocal) state.second = SignalAt(job.signal, at);
  return state;
}

template <UpdateKind kRule>
__device__ __forceinline__ ElementState Updated(const DecodeJob& job, float u, ElementState state) {
  if constexpr (kRule == UpdateKind::kInner) return {u, 0};
  float theta = state.first;
  if (job.keep != 1.0f) theta = __fmul_rn(theta, job.keep);
  if constexpr (kRule == UpdateKind::kSgd) theta = __fmaf_rn(-job.eta, u, theta);
  if constexpr (kRule == UpdateKind::kSign) {
    const float down = __fsub_rn(theta, job.eta), up = __fadd_rn(theta, job.eta);
    theta = u > 0 ? down : (u < 0 ? up : theta);
  }
  if constexpr (kRule == UpdateKind::kNesterov) {
    state.second = __fmaf_rn(job.mu, state.second, u);
    theta = __fmaf_rn(-job.eta, __fmaf_rn(job.mu, state.second, u), theta);
  }
  if constexpr (kRule == UpdateKind::kLocal) {
    theta = __fmaf_rn(-job.eta, __fmaf_rn(job.beta, u, state.second), theta);
  }
  return {theta, state.second};
}

template <UpdateKind kRule>
__device__ __forceinline__ void StoreState(const DecodeJob& job, uint64_t at, ElementState state) {
  if constexpr (kRule == UpdateKind::kInner) {
    job.gradient[at] = state.first;
  } else {
    job.theta[at] = state.first;
  }
  if constexpr (kRule == UpdateKind::kNesterov) job.velocity[at] = state.second;
}

template <UpdateKind kKind>
struct Rule {
  static constexpr UpdateKind kRule = kKind;
};

// Calls f(Rule<…>{}) with the call's rule, a compile-time constant for loops over elements.
template <typename F>
__device__ __forceinline__ void WithRule(uint8_t update, const F& f) {
  switch (static_cast<UpdateKind>(update)) {
    case UpdateKind::kSgd:
      return f(Rule<UpdateKind::kSgd>{});
    case UpdateKind::kSign:
      return f(Rule<UpdateKind::kSign>{});
    case UpdateKind::kNesterov:
      return f(Rule<UpdateKind::kNesterov>{});
    case UpdateKind::kInner:
      return f(Rule<UpdateKind::kInner>{});
    case UpdateKind::kLocal:
      return f(Rule<UpdateKind::kLocal>{});
  }
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_UPDATE_CUH_
