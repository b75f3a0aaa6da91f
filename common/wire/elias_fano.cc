#include "common/wire/elias_fano.h"

#include <bit>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/isa.h"
#include "common/wire/bytes.h"
#include "common/wire/codec.h"
#include "common/wire/elias_fano_avx512.h"
#include "common/wire/elias_fano_block.h"

namespace longwave {
namespace {

using Shape = EliasFanoShape;

#if LONGWAVE_HAS_AVX512
bool IsShort(const Shape& shape) {
  return shape.high_size <= 128 && shape.k <= 64 && shape.low_bits <= 7;
}
#endif

Shape ShapeOf(uint32_t n, uint32_t k) {
  LONGWAVE_CHECK(1 <= k && k <= n && n <= 65536);
  Shape shape{.n = n, .k = k};
  // The largest l with k · 2^l <= n, without a division, since every read of a tile calls this.
  shape.low_bits = static_cast<uint32_t>(std::bit_width(n) - std::bit_width(k));
  shape.low_bits -= uint64_t{k} << shape.low_bits > n;
  shape.high_size = k + ((n + (1u << shape.low_bits) - 1) >> shape.low_bits);
  shape.total_size = shape.high_size + k * shape.low_bits;
  return shape;
}

size_t BytesOf(const Shape& shape) { return (shape.total_size + 7) / 8; }

// Writes a bit stream, least significant bit first, by whole words except the last.
class BitWriter {
 public:
  explicit BitWriter(std::span<std::byte> out) : to_(out.data()), end_(out.data() + out.size()) {}

  // Appends the `width` lowest bits of `bits`, 0 … 64; those above are zero.
  void Put(uint64_t bits, uint32_t width) {
    word_ |= bits << filled_;
    filled_ += width;
    if (filled_ < 64) return;
    StoreLe(word_, to_);
    to_ += 8;
    filled_ -= 64;
    word_ = filled_ == 0 ? 0 : bits >> (width - filled_);
  }
  void End() {
    for (; to_ < end_; ++to_, word_ >>= 8) *to_ = static_cast<std::byte>(word_ & 0xff);
  }

 private:
  std::byte* to_;
  std::byte* const end_;
  uint64_t word_ = 0;
  uint32_t filled_ = 0;  // below 64
};

// Appends the low bits of every index.
void PutLowBits(std::span<const uint16_t> indices, uint32_t low_bits, BitWriter& writer) {
  if (low_bits == 0) return;
  const uint32_t mask = (uint32_t{1} << low_bits) - 1;
  for (const uint16_t index : indices) writer.Put(index & mask, low_bits);
}

// Decodes index after index, with a sentence for the first defect.
absl::Status DecodeSlowly(const Shape& shape, std::span<const std::byte> in,
                          std::span<uint16_t> indices) {
  const size_t k = shape.k, n = shape.n;
  if (in.size() != BytesOf(shape)) {
    return InvalidArgument("indices: got ", in.size(), " bytes, wanted ", BytesOf(shape), " for ",
                           k, " of ", n);
  }
  // 64 high bits at a time: the position of the i-th set bit, minus i, is the i-th index's high
  // part.
  size_t count = 0;
  size_t low_at = shape.high_size;
  uint32_t next_min = 0;
  for (size_t at = 0; at < shape.high_size; at += 64) {
    uint64_t word = LoadWordAt(in, at / 8);
    const size_t left = shape.high_size - at;
    if (left < 64) word &= (uint64_t{1} << left) - 1;
    for (; word != 0; word &= word - 1, ++count, low_at += shape.low_bits) {
      if (count == k) {
        return InvalidArgument("indices: got more than ", k,
                               " high bits, wanted exactly that many");
      }
      const size_t high = at + static_cast<size_t>(std::countr_zero(word)) - count;
      const uint32_t index =
          static_cast<uint32_t>(high << shape.low_bits) | LoadBits(in, low_at, shape.low_bits);
      if (index >= n) {
        return InvalidArgument("indices: number ", count, ": got ", index, ", wanted less than ",
                               n);
      }
      if (index < next_min) {
        return InvalidArgument("indices: number ", count, ": got ", index, " after ", next_min - 1,
                               ", wanted an increasing order");
      }
      next_min = index + 1;
      indices[count] = static_cast<uint16_t>(index);
    }
  }
  if (count != k) return InvalidArgument("indices: got ", count, " high bits, wanted ", k);
  if (shape.total_size % 8 != 0 &&
      (std::to_integer<uint32_t>(in.back()) >> (shape.total_size % 8)) != 0) {
    return InvalidArgument("indices: got padding bits that are set, wanted zeros");
  }
  return absl::OkStatus();
}

bool DecodeFast(const Shape& shape, const std::byte* in, uint16_t* indices) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(in);
#if defined(__x86_64__)
  if (ChosenIsa() != Isa::kGeneric) return DecodeBlockAvx2(shape, bytes, indices);
#endif
  return DecodeBlockGeneric(shape, bytes, indices);
}

}  // namespace

size_t EliasFanoBytes(uint32_t n, uint32_t k) { return BytesOf(ShapeOf(n, k)); }

void EliasFanoEncode(uint32_t n, std::span<const uint16_t> indices, std::span<std::byte> out) {
  const Shape shape = ShapeOf(n, static_cast<uint32_t>(indices.size()));
  LONGWAVE_CHECK(out.size() == BytesOf(shape));
#if LONGWAVE_HAS_AVX512
  if (n <= kTileSizeMax && shape.low_bits <= 7 && ChosenIsa() == Isa::kAvx512) {
    return avx512::EliasFanoEncode(shape, indices, out);
  }
#endif
  // A stream of words for both arrays: high bits accumulate in a word until the next index lies
  // beyond it; the low bits follow.
  BitWriter writer(out);
  size_t word_begin = 0;
  uint64_t word = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t high_at = (indices[i] >> shape.low_bits) + i;
    while (high_at - word_begin >= 64) {
      writer.Put(word, 64);
      word = 0;
      word_begin += 64;
    }
    word |= uint64_t{1} << (high_at - word_begin);
  }
  for (; shape.high_size - word_begin > 64; word_begin += 64, word = 0) writer.Put(word, 64);
  writer.Put(word, static_cast<uint32_t>(shape.high_size - word_begin));
  PutLowBits(indices, shape.low_bits, writer);
  writer.End();
}

absl::Status EliasFanoDecode(uint32_t n, std::span<const std::byte> in,
                             std::span<uint16_t> indices) {
  const Shape shape = ShapeOf(n, static_cast<uint32_t>(indices.size()));
#if LONGWAVE_HAS_AVX512
  if (n <= kTileSizeMax && ChosenIsa() == Isa::kAvx512 && in.size() == BytesOf(shape)) {
    const std::byte* const block = in.data();
    const bool right = IsShort(shape)
                           ? avx512::EliasFanoDecodeShort(shape, {&block, 1}, indices.data())
                           : avx512::EliasFanoDecode(shape, in, indices);
    if (right) return absl::OkStatus();
  }
#endif
  if (in.size() == BytesOf(shape) && n <= kTileSizeMax &&
      DecodeFast(shape, in.data(), indices.data())) {
    return absl::OkStatus();
  }
  // The slow decoder reports the defect and its place.
  return DecodeSlowly(shape, in, indices);
}

bool EliasFanoDecodeAll(uint32_t n, uint32_t k, std::span<const std::byte* const> blocks,
                        uint16_t* indices) {
  const Shape shape = ShapeOf(n, k);
#if LONGWAVE_HAS_AVX512
  if (IsShort(shape) && n <= kTileSizeMax && ChosenIsa() == Isa::kAvx512) {
    return avx512::EliasFanoDecodeShort(shape, blocks, indices);
  }
#endif
  for (const std::byte* const block : blocks) {
    const std::span in(block, BytesOf(shape));
    if (!EliasFanoDecode(n, in, std::span(indices, k)).ok()) return false;
    indices += k;
  }
  return true;
}

}  // namespace longwave
