#ifndef LONGWAVE_KERNELS_CUDA_QUANTIZE_CUH_
#define LONGWAVE_KERNELS_CUDA_QUANTIZE_CUH_

#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "kernels/cuda/select.cuh"

namespace longwave::cuda {

// QuantizeTile of common/wire/tile_codec.cc, block-wide and to the same bits: its sums are of
// integers in fixed point, and all else is per value. Changes there are changes here; the
// conformance suite compares whole payloads.

__device__ inline int64_t ToFixed(float value, double factor) {
  return static_cast<int64_t>(fabs(static_cast<double>(value)) * factor);
}

// The code of the scale that fits values[0 … k).
__device__ inline uint16_t FitScale(ValueCodec codec, const float* values, uint32_t k,
                                    uint16_t scale_code_max, TileShared& shared) {
  uint32_t largest_bits = 0;
  for (uint32_t i = threadIdx.x; i < k; i += kBlockThreads) {
    largest_bits = max(largest_bits, MagnitudeBits(values[i]));
  }
  largest_bits = BlockMax(largest_bits, shared.scratch);
  if (largest_bits == 0) return 0;
  const float largest = __uint_as_float(largest_bits);
  float scale = 0;
  if (codec == ValueCodec::kSign || codec == ValueCodec::kInt2) {
    const int exponent = 39 - ilogb(static_cast<double>(largest));
    const double factor = ldexp(1.0, exponent);
    int64_t part = 0;
    for (uint32_t i = threadIdx.x; i < k; i += kBlockThreads) part += ToFixed(values[i], factor);
    const double sum = static_cast<double>(BlockSum(part, shared.scratch));
    double fixed = sum / static_cast<double>(k);
    if (codec == ValueCodec::kInt2) {
      constexpr double kMiddle = 0.5 * (kInt2Small + kInt2Large);
      fixed = sum / (kMiddle * static_cast<double>(k));
      for (int step = 0; step < 3; ++step) {
        const double threshold = kMiddle * fixed;
        int64_t dot = 0, squares = 0;
        for (uint32_t i = threadIdx.x; i < k; i += kBlockThreads) {
          const int64_t magnitude = ToFixed(values[i], factor);
          const int64_t level =
              static_cast<double>(magnitude) > threshold ? kInt2Large : kInt2Small;
          dot += magnitude * level;
          squares += level * level;
        }
        dot = BlockSum(dot, shared.scratch);
        squares = BlockSum(squares, shared.scratch);
        fixed = static_cast<double>(dot) / static_cast<double>(squares);
      }
    }
    scale = static_cast<float>(ldexp(fixed, -exponent));
  } else {
    scale = largest / static_cast<float>((1 << ValueBits(codec)) - 1);
  }
  return min(EncodeScale16(scale), scale_code_max);
}

__device__ inline uint32_t NearestMagnitude(ValueCodec codec, double magnitude, double scale) {
  if (codec == ValueCodec::kSign) return 0;
  if (codec == ValueCodec::kInt2) {
    return 2 * magnitude > (kInt2Small + kInt2Large) * scale ? 1 : 0;
  }
  const double last = static_cast<double>((1u << (ValueBits(codec) - 1)) - 1);
  return static_cast<uint32_t>(fmin(fmax(ceil(magnitude / (2 * scale)) - 1, 0.0), last));
}

// The code of one value: a bit pattern for fp32 and bf16, a level's code otherwise.
__device__ inline uint32_t CodeOf(ValueCodec codec, float value, uint16_t scale_code) {
  const uint32_t bits = __float_as_uint(value);
  if (codec == ValueCodec::kFp32) return bits;
  if (codec == ValueCodec::kBf16) {
    const uint32_t rounded = ((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16) & 0xffffu;
    return (rounded & 0x7fffu) > 0x7f7fu ? (rounded & 0x8000u) | 0x7f7fu : rounded;
  }
  if (scale_code == 0) return 0;
  const uint32_t half = 1u << (ValueBits(codec) - 1);
  const uint32_t nearest = NearestMagnitude(codec, fabs(static_cast<double>(value)),
                                            static_cast<double>(DecodeScale16(scale_code)));
  return value < 0 ? half - 1 - nearest : half + nearest;
}

// What the receiver reads for a code.
__device__ inline float ValueOf(ValueCodec codec, uint32_t code, uint16_t scale_code) {
  if (codec == ValueCodec::kFp32) return __uint_as_float(code);
  if (codec == ValueCodec::kBf16) return __uint_as_float(code << 16);
  if (scale_code == 0) return 0;
  return static_cast<float>(LevelOf(codec, code)) * DecodeScale16(scale_code);
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_QUANTIZE_CUH_
