#include "common/wire/elias_fano.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/wire/bytes.h"

namespace longwave {
namespace {

struct Shape {
  uint32_t low_bits;  // of one index
  size_t high_size;   // bits of the high array
  size_t total_size;  // bits of both, before padding
};

Shape ShapeOf(uint32_t n, uint32_t k) {
  LONGWAVE_CHECK(1 <= k && k <= n && n <= 65536);
  Shape shape;
  shape.low_bits = static_cast<uint32_t>(std::bit_width(n / k)) - 1;
  shape.high_size = k + ((n + (size_t{1} << shape.low_bits) - 1) >> shape.low_bits);
  shape.total_size = shape.high_size + size_t{k} * shape.low_bits;
  return shape;
}

}  // namespace

uint32_t EliasFanoLowBits(uint32_t n, uint32_t k) { return ShapeOf(n, k).low_bits; }

size_t EliasFanoBytes(uint32_t n, uint32_t k) { return (ShapeOf(n, k).total_size + 7) / 8; }

void EliasFanoEncode(uint32_t n, std::span<const uint16_t> indices, std::span<std::byte> out) {
  const Shape shape = ShapeOf(n, static_cast<uint32_t>(indices.size()));
  LONGWAVE_CHECK(out.size() == (shape.total_size + 7) / 8);
  std::fill(out.begin(), out.end(), std::byte{0});
  const uint32_t low_mask = (uint32_t{1} << shape.low_bits) - 1;
  size_t low_at = shape.high_size;
  for (size_t i = 0; i < indices.size(); ++i, low_at += shape.low_bits) {
    const uint32_t index = indices[i];
    const size_t high_at = (index >> shape.low_bits) + i;
    out[high_at / 8] |= static_cast<std::byte>(1u << (high_at % 8));
    OrBits(index & low_mask, low_at, out);
  }
}

absl::Status EliasFanoDecode(uint32_t n, std::span<const std::byte> in,
                             std::span<uint16_t> indices) {
  const size_t k = indices.size();
  const Shape shape = ShapeOf(n, static_cast<uint32_t>(k));
  if (in.size() != (shape.total_size + 7) / 8) {
    return absl::InvalidArgumentError(absl::StrCat("indices: got ", in.size(), " bytes, wanted ",
                                                   (shape.total_size + 7) / 8, " for ", k, " of ",
                                                   n));
  }
  // 64 high bits at a time: the position of the i-th set bit, less i, is the i-th index's high
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
        return absl::InvalidArgumentError(
            absl::StrCat("indices: got more than ", k, " high bits, wanted exactly that many"));
      }
      const size_t high = at + static_cast<size_t>(std::countr_zero(word)) - count;
      const uint32_t index =
          static_cast<uint32_t>(high << shape.low_bits) | LoadBits(in, low_at, shape.low_bits);
      if (index >= n) {
        return absl::InvalidArgumentError(
            absl::StrCat("indices: number ", count, ": got ", index, ", wanted less than ", n));
      }
      if (index < next_min) {
        return absl::InvalidArgumentError(absl::StrCat("indices: number ", count, ": got ", index,
                                                       " after ", next_min - 1,
                                                       ", wanted an increasing order"));
      }
      next_min = index + 1;
      indices[count] = static_cast<uint16_t>(index);
    }
  }
  if (count != k) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices: got ", count, " high bits, wanted ", k));
  }
  if (shape.total_size % 8 != 0 &&
      (std::to_integer<uint32_t>(in.back()) >> (shape.total_size % 8)) != 0) {
    return absl::InvalidArgumentError("indices: got padding bits that are set, wanted zeros");
  }
  return absl::OkStatus();
}

}  // namespace longwave
