// Any text ends in a configuration or in one sentence, never in a crash; a configuration that was
// accepted reads back to itself. Text before the first NUL is the file, each piece after one is an
// override, as the command line would pass it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> pieces = absl::StrSplit(input, '\0');
  const std::string text = pieces.front();
  pieces.erase(pieces.begin());

  const absl::StatusOr<longwave::RunConfig> config =
      longwave::ParseConfig(text, "fuzz.yaml", pieces);
  if (!config.ok()) {
    const auto sentence = config.status().message();
    LONGWAVE_CHECK(!sentence.empty() && sentence.find('\n') == sentence.npos);
    return 0;
  }
  const std::string formatted = longwave::FormatConfig(*config);
  const absl::StatusOr<longwave::RunConfig> again =
      longwave::ParseConfig(formatted, "formatted.yaml");
  LONGWAVE_CHECK(again.ok());
  LONGWAVE_CHECK(*again == *config);
  LONGWAVE_CHECK(longwave::FormatConfig(*again) == formatted);
  return 0;
}
