#ifndef LONGWAVE_KERNELS_CUDA_TRANSFORM_BLOCK_CUH_
#define LONGWAVE_KERNELS_CUDA_TRANSFORM_BLOCK_CUH_

#include "kernels/cuda/block.cuh"
#include "kernels/dct_codelet.h"

namespace longwave::cuda {

// The transform of dct_plan.h for full-size tiles, by 64 threads with 64 values each in registers;
// the values are in shared memory only between the two passes. In each shape
//   coefficient 64·v + t is value v of thread t
// so that the code after the transform is the same for all shapes, and momentum is read and
// written in whole lines. The first butterflies of a pass of 128 values cut it in two, for a warp
// each: the even half of the frequencies is a DCT-II of length 64, the odd half a DCT-IV.

inline constexpr uint32_t kBlockThreads = 64;
inline constexpr uint32_t kBlockValues = 64;
struct FloatArithmetic {
  using V = float;
  static LONGWAVE_CODELET V Add(V a, V b) { return __fadd_rn(a, b); }
  static LONGWAVE_CODELET V Sub(V a, V b) { return __fsub_rn(a, b); }
  static LONGWAVE_CODELET V Mul(float c, V a) { return __fmul_rn(c, a); }
  static LONGWAVE_CODELET V Fma(float c, V a, V b) { return __fmaf_rn(c, a, b); }
};

template <uint32_t kLength>
using Dct2 = dct::Dct2<FloatArithmetic, kLength>;
template <uint32_t kLength>
using Dct4 = dct::Dct4<FloatArithmetic, kLength>;

// A warp's half of a pass of 128 values.
__device__ __forceinline__ void HalfForward(float* x) {
  if (Warp() == 0) {
    Dct2<64>::Forward(x);
  } else {
    Dct4<64>::Forward(x);
  }
}

__device__ __forceinline__ void HalfInverse(float* x) {
  if (Warp() == 0) {
    Dct2<64>::Inverse(x);
  } else {
    Dct4<64>::Inverse(x);
  }
}

// A shape gives the position of this thread's value v in the tile before the forward transform and
// after the inverse one (v is a constant in unrolled loops), and transforms x in place between that
// order and the coefficients'. shared: kBlockSharedFloats, free again at the end.
//
// kEncoders: the encoder's blocks for each multiprocessor. 8 leave 128 registers to a thread and 6
// leave 168; with more blocks the compiler would spill.

inline constexpr uint32_t kBlockSharedFloats = 128 * 33;

inline constexpr float kBlockNorm = 1.0f / 64;  // DctNorm of 4096 elements

struct Block64x64 {
  static constexpr uint32_t kEncoders = 8;
  static constexpr uint32_t kRows = 64, kCols = 64;
  static constexpr float kNorm = kBlockNorm;
  static __device__ uint32_t Row(uint32_t v) { return v; }
  static __device__ uint32_t Col(uint32_t) { return threadIdx.x; }

  static __device__ __forceinline__ void Forward(float* x, float* shared) {
    const uint32_t t = threadIdx.x;
    Dct2<64>::Forward(x);
#pragma unroll
    for (uint32_t i = 0; i < 64; ++i) shared[i * 65 + t] = x[i];
    __syncthreads();
#pragma unroll
    for (uint32_t c = 0; c < 64; ++c) x[c] = shared[t * 65 + c];
    Dct2<64>::Forward(x);
    __syncthreads();
  }

  static __device__ __forceinline__ void Inverse(float* x, float* shared) {
    const uint32_t t = threadIdx.x;
    Dct2<64>::Inverse(x);
#pragma unroll
    for (uint32_t c = 0; c < 64; ++c) shared[t * 65 + c] = x[c];
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < 64; ++i) x[i] = shared[i * 65 + t];
    Dct2<64>::Inverse(x);
    __syncthreads();
  }
};

// Each thread has two columns, t and 127 − t, which the first butterflies of the rows combine.
struct Block32x128 {
  static constexpr uint32_t kEncoders = 6;
  static constexpr uint32_t kRows = 32, kCols = 128;
  static constexpr float kNorm = kBlockNorm;
  static __device__ uint32_t Row(uint32_t v) { return v % 32; }
  static __device__ uint32_t Col(uint32_t v) { return v < 32 ? threadIdx.x : 127 - threadIdx.x; }

  static __device__ __forceinline__ void Forward(float* x, float* shared) {
    const uint32_t t = threadIdx.x, lane = Lane(), half = 64 * Warp();
    Dct2<32>::Forward(x);
    Dct2<32>::Forward(x + 32);
#pragma unroll
    for (uint32_t i = 0; i < 32; ++i) {
      shared[i * 129 + t] = __fadd_rn(x[i], x[32 + i]);
      shared[i * 129 + 64 + t] = __fsub_rn(x[i], x[32 + i]);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t p = 0; p < 64; ++p) x[p] = shared[lane * 129 + half + p];
    HalfForward(x);
    __syncthreads();
  }

  static __device__ __forceinline__ void Inverse(float* x, float* shared) {
    const uint32_t t = threadIdx.x, lane = Lane(), half = 64 * Warp();
    HalfInverse(x);
#pragma unroll
    for (uint32_t p = 0; p < 64; ++p) shared[lane * 129 + half + p] = x[p];
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < 32; ++i) {
      const float even = shared[i * 129 + t], odd = shared[i * 129 + 64 + t];
      x[i] = __fadd_rn(even, odd);
      x[32 + i] = __fsub_rn(even, odd);
    }
    Dct2<32>::Inverse(x);
    Dct2<32>::Inverse(x + 32);
    __syncthreads();
  }
};

// Each thread has the rows 32·w + e and 127 − (32·w + e) of one column, which the first butterflies
// of the columns combine; later two whole rows, t and 64 + t.
struct Block128x32 {
  static constexpr uint32_t kEncoders = 8;
  static constexpr uint32_t kRows = 128, kCols = 32;
  static constexpr float kNorm = kBlockNorm;
  static __device__ uint32_t Row(uint32_t v) {
    return v < 32 ? 32 * Warp() + v : 127 - (32 * Warp() + v - 32);
  }
  static __device__ uint32_t Col(uint32_t) { return Lane(); }

  static __device__ __forceinline__ void Forward(float* x, float* shared) {
    const uint32_t t = threadIdx.x, lane = Lane(), w = Warp();
#pragma unroll
    for (uint32_t e = 0; e < 32; ++e) {
      shared[(32 * w + e) * 33 + lane] = __fadd_rn(x[e], x[32 + e]);
      shared[(64 + 32 * w + e) * 33 + lane] = __fsub_rn(x[e], x[32 + e]);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t p = 0; p < 64; ++p) x[p] = shared[(64 * w + p) * 33 + lane];
    HalfForward(x);
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < 64; ++k) shared[(2 * k + w) * 33 + lane] = x[k];
    __syncthreads();
    float y[2][32];
#pragma unroll
    for (uint32_t c = 0; c < 32; ++c) {
      y[0][c] = shared[t * 33 + c];
      y[1][c] = shared[(64 + t) * 33 + c];
    }
    Dct2<32>::Forward(y[0]);
    Dct2<32>::Forward(y[1]);
#pragma unroll
    for (uint32_t j = 0; j < 32; ++j) {
      x[2 * j] = y[0][j];
      x[2 * j + 1] = y[1][j];
    }
    __syncthreads();
  }

  static __device__ __forceinline__ void Inverse(float* x, float* shared) {
    const uint32_t t = threadIdx.x, lane = Lane(), w = Warp();
    float y[2][32];
#pragma unroll
    for (uint32_t j = 0; j < 32; ++j) {
      y[0][j] = x[2 * j];
      y[1][j] = x[2 * j + 1];
    }
    Dct2<32>::Inverse(y[0]);
    Dct2<32>::Inverse(y[1]);
#pragma unroll
    for (uint32_t c = 0; c < 32; ++c) {
      shared[t * 33 + c] = y[0][c];
      shared[(64 + t) * 33 + c] = y[1][c];
    }
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < 64; ++k) x[k] = shared[(2 * k + w) * 33 + lane];
    HalfInverse(x);
    __syncthreads();
#pragma unroll
    for (uint32_t p = 0; p < 64; ++p) shared[(64 * w + p) * 33 + lane] = x[p];
    __syncthreads();
#pragma unroll
    for (uint32_t e = 0; e < 32; ++e) {
      const float even = shared[(32 * w + e) * 33 + lane];
      const float odd = shared[(64 + 32 * w + e) * 33 + lane];
      x[e] = __fadd_rn(even, odd);
      x[32 + e] = __fsub_rn(even, odd);
    }
    __syncthreads();
  }
};

// Without a transform the order is the coefficients'.
struct BlockFlat {
  static constexpr uint32_t kEncoders = 6;
  static constexpr float kNorm = 1.0f;
  static __device__ __forceinline__ void Forward(float*, float*) {}
  static __device__ __forceinline__ void Inverse(float*, float*) {}
};

// The positions of this thread's values in the flat arrays.
template <typename Shape>
class BlockElements {
 public:
  explicit __device__ BlockElements(const Tile& tile)
      : offset_(tile.offset),
        row_stride_(tile.row_stride),
        rows_valid_(tile.rows_valid),
        cols_valid_(tile.cols_valid) {}
  __device__ bool IsValid(uint32_t v) const {
    return Shape::Row(v) < rows_valid_ && Shape::Col(v) < cols_valid_;
  }
  __device__ uint64_t At(uint32_t v) const {
    return offset_ + static_cast<uint64_t>(Shape::Row(v)) * row_stride_ + Shape::Col(v);
  }
  // Prefetches this thread's share of the tile's lines.
  __device__ void PrefetchFrom(const float* array) const {
#pragma unroll
    for (uint32_t e = 0; e < 64; e += 32) {
      const uint32_t place = 64 * threadIdx.x + e;
      const uint32_t row = place / Shape::kCols, col = place % Shape::kCols;
      if (row < rows_valid_ && col < cols_valid_) {
        Prefetch(array + offset_ + static_cast<uint64_t>(row) * row_stride_ + col);
      }
    }
  }

 private:
  uint64_t offset_;
  uint32_t row_stride_, rows_valid_, cols_valid_;
};

// Element 64·v + t of a run, or of a block of 32, 64 or 128 columns. A thread's elements of even v
// are at equal distances, and so are those of odd v.
template <>
class BlockElements<BlockFlat> {
 public:
  explicit __device__ BlockElements(const Tile& tile) {
    const uint32_t t = threadIdx.x, rows_valid = tile.rows_valid, cols_valid = tile.cols_valid;
    const uint64_t stride = tile.row_stride;
    if (tile.rows == 1) {
      at_ = tile.offset + t;
      pair_ = 128;
      odd_ = 64;
      even_end_ = odd_end_ = (cols_valid + 63 - t) / 64;
    } else if (tile.cols == 128) {
      at_ = tile.offset + t;
      pair_ = stride;
      odd_ = 64;
      even_end_ = t < cols_valid ? 2 * rows_valid : 0;
      odd_end_ = 64 + t < cols_valid ? 2 * rows_valid : 0;
    } else if (tile.cols == 64) {
      at_ = tile.offset + t;
      pair_ = 2 * stride;
      odd_ = stride;
      even_end_ = odd_end_ = t < cols_valid ? rows_valid : 0;
    } else {
      at_ = tile.offset + Warp() * stride + Lane();
      pair_ = 4 * stride;
      odd_ = 2 * stride;
      even_end_ = odd_end_ = Lane() < cols_valid ? (rows_valid + 1 - Warp()) / 2 : 0;
    }
  }
  __device__ bool IsValid(uint32_t v) const { return v < (v % 2 == 0 ? even_end_ : odd_end_); }
  __device__ uint64_t At(uint32_t v) const { return at_ + v / 2 * pair_ + v % 2 * odd_; }
  // Prefetches the tile's lines, each by the first lane of the warp that reads it.
  __device__ void PrefetchFrom(const float* array) const {
    if (Lane() != 0) return;
#pragma unroll
    for (uint32_t v = 0; v < kBlockValues; ++v) {
      if (IsValid(v)) Prefetch(array + At(v));
    }
  }

 private:
  uint64_t at_, pair_, odd_;
  uint32_t even_end_, odd_end_;
};

template <typename Shape>
struct ShapeTag {
  using Type = Shape;
};

// Calls f(ShapeTag of the kernel's shape), for any kernel but the general one.
template <typename F>
cudaError_t WithShape(TileKernel kernel, const F& f) {
  switch (kernel) {
    case TileKernel::kFlat:
      return f(ShapeTag<BlockFlat>{});
    case TileKernel::k64x64:
      return f(ShapeTag<Block64x64>{});
    case TileKernel::k32x128:
      return f(ShapeTag<Block32x128>{});
    case TileKernel::k128x32:
      return f(ShapeTag<Block128x32>{});
    case TileKernel::kGeneral:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_TRANSFORM_BLOCK_CUH_
