#ifndef LONGWAVE_COMMON_CONFIG_PRESETS_H_
#define LONGWAVE_COMMON_CONFIG_PRESETS_H_

#include <span>
#include <string_view>

namespace longwave {

// A method's file of configs/ as of this program's build. common/config/CMakeLists.txt has the
// list; embed_presets.cmake writes the source.
struct Preset {
  const char* name;
  const char* file;  // "configs/ddp.yaml", for errors
  std::string_view text;
};

std::span<const Preset> Presets();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_PRESETS_H_
