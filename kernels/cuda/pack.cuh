#ifndef LONGWAVE_KERNELS_CUDA_PACK_CUH_
#define LONGWAVE_KERNELS_CUDA_PACK_CUH_

#include "kernels/cuda/quantize.cuh"

namespace longwave::cuda {

// A tile's parts of a payload, block-wide; the formats are those of common/wire/payload.h.

struct EliasFanoShape {
  uint32_t low_bits, high_size, bytes;
};

__device__ inline EliasFanoShape ShapeOf(uint32_t n, uint32_t k) {
  EliasFanoShape shape;
  shape.low_bits = 31 - __clz(static_cast<int>(n / k));
  shape.high_size = k + ((n + (1u << shape.low_bits) - 1) >> shape.low_bits);
  shape.bytes = (shape.high_size + k * shape.low_bits + 7) / 8;
  return shape;
}

__device__ inline void WriteIndices(uint32_t n, uint32_t k, unsigned char* out,
                                    TileShared& shared) {
  const EliasFanoShape shape = ShapeOf(n, k);
  for (uint32_t w = threadIdx.x; w < kIndexWordsMax + 2; w += kBlockThreads) shared.words[w] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < k; i += kBlockThreads) {
    const uint32_t index = shared.indices[i];
    const uint32_t high_at = (index >> shape.low_bits) + i;
    atomicOr(&shared.words[high_at / 32], 1u << (high_at % 32));
    const uint32_t low_at = shape.high_size + i * shape.low_bits;
    const uint64_t low = static_cast<uint64_t>(index & ((1u << shape.low_bits) - 1))
                         << (low_at % 32);
    atomicOr(&shared.words[low_at / 32], static_cast<uint32_t>(low));
    atomicOr(&shared.words[low_at / 32 + 1], static_cast<uint32_t>(low >> 32));
  }
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < shape.bytes; b += kBlockThreads) {
    out[b] = static_cast<unsigned char>(shared.words[b / 4] >> (8 * (b % 4)));
  }
  __syncthreads();
}

// Reads into shared.indices. The payload was validated.
__device__ inline void ReadIndices(uint32_t n, uint32_t k, const unsigned char* in,
                                   TileShared& shared) {
  const EliasFanoShape shape = ShapeOf(n, k);
  for (uint32_t w = threadIdx.x; w < kIndexWordsMax + 2; w += kBlockThreads) {
    uint32_t word = 0;
    for (uint32_t b = 0; b < 4; ++b) {
      if (4 * w + b < shape.bytes) word |= static_cast<uint32_t>(in[4 * w + b]) << (8 * b);
    }
    shared.words[w] = word;
  }
  __syncthreads();
  static_assert(kIndexWordsMax <= kBlockThreads, "one thread a word of high bits");
  const uint32_t first_bit = 32 * threadIdx.x;
  uint32_t word = first_bit < shape.high_size ? shared.words[threadIdx.x] : 0;
  if (first_bit < shape.high_size && shape.high_size - first_bit < 32) {
    word &= (1u << (shape.high_size - first_bit)) - 1;
  }
  uint32_t i = BlockExclusiveSum(__popc(word), shared.scratch);
  for (; word != 0 && i < k; word &= word - 1, ++i) {
    const uint32_t high = first_bit + __ffs(static_cast<int>(word)) - 1 - i;
    const uint32_t low_at = shape.high_size + i * shape.low_bits;
    const uint64_t pair =
        shared.words[low_at / 32] | static_cast<uint64_t>(shared.words[low_at / 32 + 1]) << 32;
    const uint32_t low =
        static_cast<uint32_t>(pair >> (low_at % 32)) & ((1u << shape.low_bits) - 1);
    shared.indices[i] = static_cast<uint16_t>(high << shape.low_bits | low);
  }
  __syncthreads();
}

// Quantizes values[0 … k), writes their codes, and replaces them by what the receiver reads.
__device__ inline void WriteValues(ValueCodec codec, uint32_t k, uint16_t scale_code, float* values,
                                   unsigned char* out) {
  const uint32_t bits = ValueBits(codec);
  if (bits >= 8) {
    for (uint32_t i = threadIdx.x; i < k; i += kBlockThreads) {
      const uint32_t code = CodeOf(codec, values[i], scale_code);
      for (uint32_t b = 0; b < bits / 8; ++b) {
        out[i * (bits / 8) + b] = static_cast<unsigned char>(code >> (8 * b));
      }
      values[i] = ValueOf(codec, code, scale_code);
    }
  } else {
    const uint32_t per_byte = 8 / bits;
    for (uint32_t b = threadIdx.x; b * per_byte < k; b += kBlockThreads) {
      uint32_t byte = 0;
      for (uint32_t i = b * per_byte; i < min(k, (b + 1) * per_byte); ++i) {
        const uint32_t code = CodeOf(codec, values[i], scale_code);
        byte |= code << ((i % per_byte) * bits);
        values[i] = ValueOf(codec, code, scale_code);
      }
      out[b] = static_cast<unsigned char>(byte);
    }
  }
  __syncthreads();
}

__device__ inline float ReadValue(ValueCodec codec, uint32_t i, uint16_t scale_code,
                                  const unsigned char* in) {
  const uint32_t bits = ValueBits(codec);
  uint32_t code = 0;
  if (bits >= 8) {
    for (uint32_t b = 0; b < bits / 8; ++b) {
      code |= static_cast<uint32_t>(in[i * (bits / 8) + b]) << (8 * b);
    }
  } else {
    code = in[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
  }
  return ValueOf(codec, code, scale_code);
}

__device__ inline uint16_t ReadScale(ValueCodec codec, const TileJob& job,
                                     const unsigned char* payload) {
  if (!HasScale(codec)) return 0;
  return static_cast<uint16_t>(payload[job.scale_at] | payload[job.scale_at + 1] << 8);
}

// Which coefficients a received tile has: into shared.indices.
__device__ inline void ReadSelection(Selection selection, const TileJob& job,
                                     const unsigned char* payload, TileShared& shared) {
  const uint32_t n = job.rows * job.cols;
  if (selection == Selection::kTopK) {
    ReadIndices(n, job.count, payload + job.indices_at, shared);
  } else {
    SelectUnsent(selection, n, job.count, job.draw, shared);
  }
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_PACK_CUH_
