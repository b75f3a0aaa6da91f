#ifndef LONGWAVE_KERNELS_CUDA_PACK_CUH_
#define LONGWAVE_KERNELS_CUDA_PACK_CUH_

#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/select.cuh"

namespace longwave::cuda {

// A tile's parts of a payload, block-wide, in the formats of common/wire/payload.h. Tiles do not
// share bytes: a part that begins and ends on a word is written in whole words.

// The parts of tile `tile` of n coefficients.
struct TilePayload {
  unsigned char* scale;
  unsigned char* indices;
  unsigned char* values;
  uint32_t count;  // of the coefficients sent
};

__device__ inline TilePayload PayloadOf(const PayloadJob& job, uint32_t tile, uint32_t n) {
  TilePayload payload;
  payload.scale = job.bytes + kPayloadHeadBytes + sizeof(uint16_t) * tile;
  if (job.places != nullptr) {
    payload.indices = job.bytes + job.places[tile].indices;
    payload.values = job.bytes + job.places[tile].values;
  } else {
    payload.indices =
        job.bytes + job.indices_begin + static_cast<size_t>(tile) * job.indices_stride;
    payload.values = job.bytes + job.values_begin + static_cast<size_t>(tile) * job.values_stride;
  }
  payload.count = static_cast<Selection>(job.selection) == Selection::kAll ? n : min(n, job.k);
  return payload;
}

// Writes the head and the gaps as BeginPayload does, by all threads of one block.
template <uint32_t kThreads>
__device__ void WriteHead(const PayloadJob& job) {
  const uint32_t i = threadIdx.x;
  const bool all = static_cast<Selection>(job.selection) == Selection::kAll;
  const uint32_t k = all ? 0 : job.k;
  if (i == 0) {
    reinterpret_cast<uint4*>(job.bytes)[0] = make_uint4(
        1u | static_cast<uint32_t>(job.selection) << 8 | static_cast<uint32_t>(job.codec) << 16, k,
        job.tile_count, 0);
  }
  uint32_t scales_end = kPayloadHeadBytes;
  if (HasScale(static_cast<ValueCodec>(job.codec))) scales_end += 2 * job.tile_count;
  if (scales_end + i < (scales_end + 7) / 8 * 8) job.bytes[scales_end + i] = 0;
  if (job.indices_end + i < (job.indices_end + 7) / 8 * 8) job.bytes[job.indices_end + i] = 0;
}

// Stores word `at` of a tile's `bytes` bytes.
__device__ inline void StoreWord(unsigned char* to, uint32_t at, uint32_t bytes, uint32_t word) {
  if ((reinterpret_cast<uintptr_t>(to) & 3) == 0 && 4 * at + 4 <= bytes) {
    reinterpret_cast<uint32_t*>(to)[at] = word;
    return;
  }
  for (uint32_t b = 4 * at; b < min(4 * at + 4, bytes); ++b, word >>= 8) {
    to[b] = static_cast<unsigned char>(word);
  }
}

__device__ inline uint32_t LoadWord(const unsigned char* from, uint32_t at, uint32_t bytes) {
  if ((reinterpret_cast<uintptr_t>(from) & 3) == 0 && 4 * at + 4 <= bytes) {
    return reinterpret_cast<const uint32_t*>(from)[at];
  }
  uint32_t word = 0;
  for (uint32_t b = 4 * at; b < min(4 * at + 4, bytes); ++b) {
    word |= static_cast<uint32_t>(from[b]) << (8 * (b % 4));
  }
  return word;
}

struct EliasFanoShape {
  uint32_t low_bits, high_size, total_size;
  __device__ uint32_t bytes() const { return (total_size + 7) / 8; }
};

__device__ inline EliasFanoShape ShapeOf(uint32_t n, uint32_t k) {
  EliasFanoShape shape;
  shape.low_bits = 31 - static_cast<uint32_t>(__clz(static_cast<int>(n / k)));
  shape.high_size = k + ((n + (1u << shape.low_bits) - 1) >> shape.low_bits);
  shape.total_size = shape.high_size + k * shape.low_bits;
  return shape;
}

// Writes scratch.indices[0 … k), which a barrier has completed.
template <typename Scratch>
__device__ void WriteIndices(uint32_t n, uint32_t k, unsigned char* out, Scratch& scratch) {
  constexpr uint32_t kThreads = Scratch::kThreads;
  const EliasFanoShape shape = ShapeOf(n, k);
  const uint32_t words = (shape.total_size + 31) / 32;
  for (uint32_t w = threadIdx.x; w < words; w += kThreads) scratch.words[w] = 0;
  __syncthreads();
  // The positions of the high bits increase with the indices, so that those of one word are
  // neighbours: the first lane of each such run writes for all of it.
  for (uint32_t base = 0; base < k; base += kThreads) {
    const uint32_t i = base + threadIdx.x;
    uint32_t word = ~0u, bits = 0;
    if (i < k) {
      const uint32_t place = (scratch.indices[i] >> shape.low_bits) + i;
      word = place / 32;
      bits = 1u << (place % 32);
    }
    for (uint32_t step = 1; step < kWarpThreads; step *= 2) {
      const uint32_t other_word = __shfl_down_sync(kAllLanes, word, step);
      const uint32_t other_bits = __shfl_down_sync(kAllLanes, bits, step);
      if (Lane() + step < kWarpThreads && other_word == word) bits |= other_bits;
    }
    const uint32_t word_before = __shfl_up_sync(kAllLanes, word, 1);
    if (i < k && (Lane() == 0 || word_before != word)) atomicOr(&scratch.words[word], bits);
  }
  // The low fields: each word gathers those that overlap it.
  if (shape.low_bits > 0) {
    const uint32_t mask = (1u << shape.low_bits) - 1;
    for (uint32_t w = shape.high_size / 32 + threadIdx.x; w < words; w += kThreads) {
      const int32_t begin = static_cast<int32_t>(32 * w) - static_cast<int32_t>(shape.high_size);
      uint32_t i = begin <= 0 ? 0 : static_cast<uint32_t>(begin) / shape.low_bits;
      uint32_t bits = 0;
      for (; i < k; ++i) {
        const int32_t at = static_cast<int32_t>(i * shape.low_bits) - begin;
        if (at >= 32) break;
        const uint32_t field = scratch.indices[i] & mask;
        bits |= at >= 0 ? field << at : field >> -at;
      }
      atomicOr(&scratch.words[w], bits);
    }
  }
  __syncthreads();
  for (uint32_t w = threadIdx.x; w < words; w += kThreads) {
    StoreWord(out, w, shape.bytes(), scratch.words[w]);
  }
}

// Calls f(i, index) for each of the k received indices of a tile of n, each from one thread, in no
// order. The payload was validated.
template <typename Scratch, typename F>
__device__ void ForEachIndex(uint32_t n, uint32_t k, const unsigned char* in, Scratch& scratch,
                             const F& f) {
  constexpr uint32_t kThreads = Scratch::kThreads;
  const EliasFanoShape shape = ShapeOf(n, k);
  const uint32_t high_words = (shape.high_size + 31) / 32;
  uint32_t* const words = scratch.words;
  // The high part's last word is masked; the low fields are read from the payload.
  for (uint32_t w = threadIdx.x; w < high_words; w += kThreads) {
    uint32_t word = LoadWord(in, w, shape.bytes());
    if (32 * w + 32 > shape.high_size) word &= (1u << (shape.high_size % 32)) - 1;
    words[w] = word;
  }
  __syncthreads();
  ForEachSetBit(high_words, scratch, [&](uint32_t i, uint32_t position) {
    uint32_t low = 0;
    if (shape.low_bits > 0) {
      const uint32_t at = shape.high_size + i * shape.low_bits;
      const uint32_t first = LoadWord(in, at / 32, shape.bytes());
      const uint32_t second = LoadWord(in, at / 32 + 1, shape.bytes());
      low = __funnelshift_r(first, second, at % 32) & ((1u << shape.low_bits) - 1);
    }
    f(i, (position - i) << shape.low_bits | low);
  });
}

__device__ inline uint16_t ReadScale(ValueCodec codec, const TilePayload& payload) {
  if (!HasScale(codec)) return 0;
  return *reinterpret_cast<const uint16_t*>(payload.scale);
}

// The code of value i. Values of two and of four bytes begin at multiples of their size.
__device__ inline uint32_t CodeAt(ValueCodec codec, const unsigned char* values, uint32_t i) {
  if (codec == ValueCodec::kFp32) return reinterpret_cast<const uint32_t*>(values)[i];
  if (codec == ValueCodec::kBf16) return reinterpret_cast<const uint16_t*>(values)[i];
  const uint32_t bits = ValueBits(codec);
  return values[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

// Calls f(index, value) for each coefficient that this block's tile, which has n, sends, each from
// one thread, in no order. No barrier at the end.
template <typename Scratch, typename F>
__device__ void ForEachSent(const TilesJob& job, uint32_t n, Scratch& scratch, const F& f) {
  const TileRun& run = RunOf(job);
  const uint32_t number = NumberOf(job);
  const TilePayload payload = PayloadOf(run.payload, number, n);
  const ValueCodec codec = static_cast<ValueCodec>(run.payload.codec);
  const Quantizer quantizer(codec, ReadScale(codec, payload));
  const auto take = [&](uint32_t i, uint32_t index) {
    f(index, quantizer.ValueOf(CodeAt(codec, payload.values, i)));
  };
  const Selection selection = static_cast<Selection>(run.payload.selection);
  const uint64_t draw = DrawOf(run.payload, uint64_t{run.segment_begin} + number);
  const uint32_t k = payload.count;
  switch (selection) {
    case Selection::kTopK:
      ForEachIndex(n, k, payload.indices, scratch, take);
      return;
    case Selection::kRandom:
      DrawBitmap(n, k, draw, scratch);
      ForEachSetBit(kBitmapWords, scratch, take);
      return;
    case Selection::kAll:
    case Selection::kStride: {
      const Stride stride = selection == Selection::kAll ? Stride{0, 1} : StrideOf(n, k, draw);
      for (uint32_t i = threadIdx.x; i < k; i += Scratch::kThreads)
        take(i, stride.start + i * stride.stride);
      return;
    }
  }
}

// Writes the codes of x[Padded(index(i))], i < k, and subtracts α times the sent values from x.
// Returns the sum of this thread's sent values squared.
template <uint32_t kThreads, typename Index>
__device__ double WriteValues(ValueCodec codec, uint32_t k, uint16_t scale_code, float alpha,
                              const Index& index, float* x, unsigned char* out) {
  const Quantizer quantizer(codec, scale_code);
  const uint32_t bits = ValueBits(codec), per_word = 32 / bits;
  const uint32_t bytes = (k * bits + 7) / 8;
  double sent = 0;
  for (uint32_t base = 0; base < k; base += kThreads) {
    const uint32_t i = base + threadIdx.x;
    uint32_t word = 0;
    if (i < k) {
      float& m = x[Padded(index(i))];
      const uint32_t code = quantizer.CodeOf(m);
      const float value = quantizer.ValueOf(code);
      m = __fmaf_rn(-alpha, value, m);
      sent += Square(value);
      word = code << (i % per_word * bits);
    }
    // The lanes of one word pass it to the first of them.
    for (uint32_t step = 1; step < per_word; step *= 2) {
      word |= __shfl_xor_sync(kAllLanes, word, static_cast<int>(step));
    }
    if (i < k && i % per_word == 0) StoreWord(out, i / per_word, bytes, word);
  }
  return sent;
}

// Quantizes the m̂ of this block's tile in x[Padded(0 … n)], which a barrier has completed, into its
// parts of the payload, and leaves its residual in x. select() writes the indices of the largest of
// x to scratch.indices. Returns this thread's part of the sum of squares of the sent values. A
// barrier is needed before x is read.
template <typename Scratch, typename Select>
__device__ double QuantizeTile(const EncodeJob& job, uint32_t n, float* x, Scratch& scratch,
                               const Select& select) {
  constexpr uint32_t kThreads = Scratch::kThreads;
  const PayloadJob& payload_job = RunOf(job.tiles).payload;
  const uint32_t tile = NumberOf(job.tiles);
  const TilePayload payload = PayloadOf(payload_job, tile, n);
  const Selection selection = static_cast<Selection>(payload_job.selection);
  const ValueCodec codec = static_cast<ValueCodec>(payload_job.codec);
  const uint64_t draw = DrawOf(payload_job, uint64_t{RunOf(job.tiles).segment_begin} + tile);
  const uint32_t k = payload.count;
  const auto quantize = [&](const auto& index) {
    uint16_t scale_code = 0;
    if (HasScale(codec)) {
      scale_code = FitScale<kThreads>(
          codec, k, payload_job.scale_code_max, [&](uint32_t i) { return x[Padded(index(i))]; },
          scratch.exchange);
      if (threadIdx.x == 0) *reinterpret_cast<uint16_t*>(payload.scale) = scale_code;
    }
    return WriteValues<kThreads>(codec, k, scale_code, job.alpha, index, x, payload.values);
  };
  if (selection == Selection::kAll) return quantize([](uint32_t i) { return i; });
  if (selection == Selection::kStride) {
    const Stride stride = StrideOf(n, k, draw);
    return quantize([=](uint32_t i) { return stride.start + i * stride.stride; });
  }
  if (selection == Selection::kTopK) {
    select(k);
    WriteIndices(n, k, payload.indices, scratch);
  } else {
    DrawBitmap(n, k, draw, scratch);
    ForEachSetBit(kBitmapWords, scratch, [&](uint32_t i, uint32_t position) {
      scratch.indices[i] = static_cast<uint16_t>(position);
    });
    __syncthreads();
  }
  return quantize([&](uint32_t i) -> uint32_t { return scratch.indices[i]; });
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_PACK_CUH_
