# cmake -DOUT=file.cc -DSCRIPT=file.py -P embed_script.cmake
# Writes the script of the PyTorch baseline as a string literal.
file(READ "${SCRIPT}" text)
file(WRITE "${OUT}" "// Written by cli/bench/embed_script.cmake from python/ddp_baseline.py.
#include \"cli/bench/link_torch.h\"

namespace longwave {

std::string_view DdpBaselineScript() {
  return R\"python(${text})python\";
}

}  // namespace longwave
")
