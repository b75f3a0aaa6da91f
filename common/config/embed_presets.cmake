# cmake -DOUT=presets.cc -DCONFIGS=folder -DPRESETS=name:file.yaml,… -P embed_presets.cmake
# Writes the presets' files as string literals.
set(source "// Written by common/config/embed_presets.cmake from configs/.\n")
string(APPEND source "#include \"common/config/presets.h\"\n\nnamespace longwave {\n\n")
string(APPEND source "std::span<const Preset> Presets() {\n  static constexpr Preset kPresets[] = {\n")
string(REPLACE "," ";" presets "${PRESETS}")
foreach(preset IN LISTS presets)
  string(REPLACE ":" ";" pair "${preset}")
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ "${CONFIGS}/${file}" text)
  string(APPEND source
    "      {\"${name}\", \"configs/${file}\", R\"yaml(${text})yaml\"},\n")
endforeach()
string(APPEND source "  };\n  return kPresets;\n}\n\n}  // namespace longwave\n")
file(WRITE "${OUT}" "${source}")
