#ifndef LONGWAVE_KERNELS_CUDA_QUANTIZE_CUH_
#define LONGWAVE_KERNELS_CUDA_QUANTIZE_CUH_

#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "kernels/cuda/block.cuh"

namespace longwave::cuda {

// QuantizeTile of tests/support/reference, block-wide and to the same bits: sums are of integers
// in fixed point, and the rest is done value by value. Changes there need changes here; the
// conformance suite compares whole payloads.

__device__ inline int64_t ToFixed(float value, double factor) {
  return static_cast<int64_t>(fabs(static_cast<double>(value)) * factor);
}

// The code of the scale that fits value(0 … k).
template <uint32_t kThreads, typename Value>
__device__ uint16_t FitScale(ValueCodec codec, uint32_t k, uint16_t scale_code_max,
                             const Value& value, Exchange<kThreads>& exchange) {
  uint32_t largest_bits = 0;
  for (uint32_t i = threadIdx.x; i < k; i += kThreads) {
    largest_bits = max(largest_bits, MagnitudeBits(value(i)));
  }
  largest_bits = BlockMax<kThreads>(largest_bits, exchange);
  if (largest_bits == 0) return 0;
  const float largest = __uint_as_float(largest_bits);
  float scale = 0;
  if (codec == ValueCodec::kSign || codec == ValueCodec::kInt2) {
    const int exponent = 39 - ilogb(static_cast<double>(largest));
    const double factor = ldexp(1.0, exponent);
    int64_t part = 0;
    for (uint32_t i = threadIdx.x; i < k; i += kThreads) part += ToFixed(value(i), factor);
    const double sum = static_cast<double>(BlockSum<kThreads>(part, exchange));
    double fixed = sum / static_cast<double>(k);
    if (codec == ValueCodec::kInt2) {
      constexpr double kMiddle = 0.5 * (kInt2Small + kInt2Large);
      fixed = sum / (kMiddle * static_cast<double>(k));
      for (int step = 0; step < 3; ++step) {
        const double threshold = kMiddle * fixed;
        int64_t dot = 0, squares = 0;
        for (uint32_t i = threadIdx.x; i < k; i += kThreads) {
          const int64_t magnitude = ToFixed(value(i), factor);
          const int64_t level =
              static_cast<double>(magnitude) > threshold ? kInt2Large : kInt2Small;
          dot += magnitude * level;
          squares += level * level;
        }
        BlockSum<kThreads>(dot, squares, exchange);
        fixed = static_cast<double>(dot) / static_cast<double>(squares);
      }
    }
    scale = static_cast<float>(ldexp(fixed, -exponent));
  } else {
    scale = __fdiv_rn(largest, static_cast<float>((1 << ValueBits(codec)) - 1));
  }
  return min(EncodeScale16(scale), scale_code_max);
}

// The constants of a tile's codes.
class Quantizer {
 public:
  __device__ Quantizer(ValueCodec codec, uint16_t scale_code)
      : codec_(codec),
        bits_(ValueBits(codec)),
        scale_(scale_code == 0 ? 0.0f : DecodeScale16(scale_code)),
        step_(2 * static_cast<double>(scale_)),
        per_step_(scale_code == 0 ? 0.0 : 1 / step_) {}

  // The code of a value: a bit pattern for fp32 and bf16, a level's code otherwise.
  __device__ uint32_t CodeOf(float value) const {
    const uint32_t bits = __float_as_uint(value);
    if (codec_ == ValueCodec::kFp32) return bits;
    if (codec_ == ValueCodec::kBf16) {
      const uint32_t rounded = ((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16) & 0xffffu;
      return (rounded & 0x7fffu) > 0x7f7fu ? (rounded & 0x8000u) | 0x7f7fu : rounded;
    }
    if (scale_ == 0) return 0;
    const uint32_t half = 1u << (bits_ - 1);
    const uint32_t nearest = NearestMagnitude(fabs(static_cast<double>(value)));
    return value < 0 ? half - 1 - nearest : half + nearest;
  }

  // The receiver's value for a code.
  __device__ float ValueOf(uint32_t code) const {
    if (codec_ == ValueCodec::kFp32) return __uint_as_float(code);
    if (codec_ == ValueCodec::kBf16) return __uint_as_float(code << 16);
    if (scale_ == 0) return 0;  // not −1 · 0, which is −0
    return __fmul_rn(static_cast<float>(LevelOf(codec_, code)), scale_);
  }

 private:
  __device__ uint32_t NearestMagnitude(double magnitude) const {
    if (codec_ == ValueCodec::kSign) return 0;
    if (codec_ == ValueCodec::kInt2) {
      return 2 * magnitude > (kInt2Small + kInt2Large) * static_cast<double>(scale_) ? 1 : 0;
    }
    // The j with 2j·scale < magnitude <= 2(j + 1)·scale: a product estimates j, and the exact
    // products on both sides correct it. A division would cost more than all the rest.
    double j = ceil(magnitude * per_step_) - 1;
    if (magnitude <= j * step_) {
      j -= 1;
    } else if (magnitude > (j + 1) * step_) {
      j += 1;
    }
    const double last = static_cast<double>((1u << (bits_ - 1)) - 1);
    return static_cast<uint32_t>(fmin(fmax(j, 0.0), last));
  }

  ValueCodec codec_;
  uint32_t bits_;
  float scale_;
  double step_, per_step_;
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_QUANTIZE_CUH_
