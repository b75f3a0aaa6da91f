// Any bytes as a file of gzip or zstd: content within the limit or an error, never a crash.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "worker/data/unpack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMax = uint64_t{1} << 20;
  const std::string input(reinterpret_cast<const char*>(data), size);
  // The forms begin otherwise; behind their first bytes everything is tried as both.
  for (const char* magic : {"", "\x1f\x8b\x08", "\x28\xb5\x2f\xfd"}) {
    const auto content = longwave::Unpacked(magic + input, kMax);
    if (!content.ok()) {
      LONGWAVE_CHECK(!content.status().message().empty());
    } else {
      LONGWAVE_CHECK(content->size() <= kMax + size + 4);
    }
  }
  return 0;
}
