#ifndef LONGWAVE_COMMON_CONFIG_PRESETS_H_
#define LONGWAVE_COMMON_CONFIG_PRESETS_H_

#include <span>
#include <string_view>

namespace longwave {

// A method's file of configs/presets as of this program's build; embed_presets.cmake writes the
// source.
struct Preset {
  const char* name;  // the file's, without its .yaml
  const char* file;  // "configs/presets/ddp.yaml", for errors
  std::string_view text;
};

std::span<const Preset> Presets();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_PRESETS_H_
