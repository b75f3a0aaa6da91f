// Frame headers: the decoder must not read out of bounds, and a decoded header encodes to the same
// bytes. A fuzzer does not guess checksums, so every input is also tried with correct magic,
// version and CRC.

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/frame.h"

namespace longwave {
namespace {

void DecodeAndCompare(std::span<const std::byte> header_bytes, std::span<const std::byte> payload) {
  const auto header = DecodeFrameHeader(header_bytes);
  if (!header.ok()) {
    LONGWAVE_CHECK(!header.status().message().empty());
    return;
  }
  std::array<std::byte, kFrameHeaderBytes> again;
  EncodeFrameHeader(*header, again);
  LONGWAVE_CHECK(std::equal(again.begin(), again.end(), header_bytes.begin(), header_bytes.end()));
  LONGWAVE_CHECK(Name(header->kind()) != "unknown");
  if (VerifyPayload(*header, payload).ok()) {
    FrameHeader sealed = *header;
    LONGWAVE_CHECK(SetPayload(payload, sealed).ok() && sealed == *header);
  }
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  const auto input = std::as_bytes(std::span(data, size));
  DecodeAndCompare(input, {});
  if (size < kFrameHeaderBytes) return 0;
  const auto payload = input.subspan(kFrameHeaderBytes);
  DecodeAndCompare(input.first(kFrameHeaderBytes), payload);

  std::array<std::byte, kFrameHeaderBytes> header;
  std::copy_n(input.begin(), header.size(), header.begin());
  StoreLe<uint32_t>(kFrameMagic, header.data());
  StoreLe<uint16_t>(kFrameVersion, header.data() + 4);
  StoreLe<uint32_t>(Crc32c(std::span<const std::byte>(header).first(60)), header.data() + 60);
  DecodeAndCompare(header, payload);
  return 0;
}
