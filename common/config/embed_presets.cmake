# cmake -DOUT=presets.cc -DSOURCE=folder -DPRESETS=name,… -P embed_presets.cmake
# Writes the presets' files as string literals.
set(source "// Written by common/config/embed_presets.cmake from configs/presets.\n")
string(APPEND source "#include \"common/config/presets.h\"\n\nnamespace longwave {\n\n")
string(APPEND source "std::span<const Preset> Presets() {\n  static constexpr Preset kPresets[] = {\n")
string(REPLACE "," ";" presets "${PRESETS}")
foreach(name IN LISTS presets)
  set(file "configs/presets/${name}.yaml")
  file(READ "${SOURCE}/${file}" text)
  string(APPEND source "      {\"${name}\", \"${file}\", R\"yaml(${text})yaml\"},\n")
endforeach()
string(APPEND source "  };\n  return kPresets;\n}\n\n}  // namespace longwave\n")
file(WRITE "${OUT}" "${source}")
