# cmake -DOUT=file.cc -DSOURCE=folder -P link_commit.cmake
# Writes the commit of the source tree as a string, if it is another than before.
execute_process(
  COMMAND git --no-optional-locks -C "${SOURCE}" describe --always --dirty=+ --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "// Written by cli/bench/link_commit.cmake.
#include \"cli/bench/link_report.h\"

namespace longwave {

std::string_view BenchCommit() { return \"${commit}\"; }

}  // namespace longwave
")
