#ifndef LONGWAVE_COMMON_WIRE_BYTE_STREAM_H_
#define LONGWAVE_COMMON_WIRE_BYTE_STREAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/wire/bytes.h"

namespace longwave {

// A part of variable length is padded to a multiple of this many bytes.
inline constexpr size_t kFileAlignment = 8;
constexpr uint64_t AlignedUp(uint64_t bytes) {
  return (bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
}

// Zeros that bring a part of this length to a multiple.
inline constexpr std::array<std::byte, kFileAlignment> kFilePadding = {};
inline std::span<const std::byte> PaddingOf(uint64_t bytes) {
  return std::span(kFilePadding).first(AlignedUp(bytes) - bytes);
}

// Little-endian fields, one after the other.
class ByteWriter {
 public:
  template <typename T>
  void Put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    StoreLe<T>(value, bytes_.data() + at);
  }
  void PutBytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void PutText(std::string_view text) { PutBytes(std::as_bytes(std::span(text))); }
  void PutSizedText(std::string_view text) {  // after its length
    Put<uint64_t>(text.size());
    PutText(text);
  }
  void PutZeros(size_t count) { bytes_.resize(bytes_.size() + count); }
  void Align() { bytes_.resize(AlignedUp(bytes_.size())); }
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> Take() { return std::move(bytes_); }
  // All bytes written, whose number is `kBytes`.
  template <size_t kBytes>
  std::array<std::byte, kBytes> TakeArray() const {
    LONGWAVE_CHECK(bytes_.size() == kBytes);
    std::array<std::byte, kBytes> array;
    std::ranges::copy(bytes_, array.begin());
    return array;
  }

 private:
  std::vector<std::byte> bytes_;
};

// Reads the output of ByteWriter. Reads past the end yield zeros and empty spans, and ok() is false
// from then on. A caller may read a group of fields and check ok() once before it uses any of them.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    const std::span<const std::byte> from = GetBytes(sizeof(T));
    return from.size() == sizeof(T) ? LoadLe<T>(from.data()) : T{};
  }
  std::span<const std::byte> GetBytes(uint64_t count) {
    if (!ok_ || count > left()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  std::string_view GetText(uint64_t count) {
    const auto bytes = GetBytes(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string GetSizedText() { return std::string(GetText(Get<uint64_t>())); }
  // Skips the zeros of ByteWriter::Align; other bytes make ok() false.
  void Align() { ok_ &= std::ranges::all_of(GetBytes(AlignedUp(at_) - at_), IsZero); }

  uint64_t left() const { return bytes_.size() - at_; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && left() == 0; }

  static bool IsZero(std::byte byte) { return byte == std::byte{0}; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_BYTE_STREAM_H_
