# Options of the build, and the flags of all our targets.
set(LONGWAVE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if a toolkit is found), ON, OFF")
set_property(CACHE LONGWAVE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LONGWAVE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize: address,undefined or thread")
option(LONGWAVE_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(LONGWAVE_WERROR "Treat warnings in our code as errors" OFF)
option(LONGWAVE_KERNELS_ONLY "Build the kernels and what stands below them, nothing else" OFF)
option(LONGWAVE_TESTS "Build the tests" ON)
option(LONGWAVE_TORCH "Build the worker, which needs LibTorch" ON)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(LONGWAVE_CCACHE ccache)
if(LONGWAVE_CCACHE)
  # Checkouts in different folders share the cache.
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    CCACHE_NOHASHDIR=true CCACHE_SLOPPINESS=pch_defines,time_macros "${LONGWAVE_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)

# -ffp-contract=off: the decode is defined down to each rounding; a compiler that fuses a multiply
# and an add where the source has none would make replicas differ between machines.
add_library(longwave_flags INTERFACE)
target_compile_options(longwave_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror=unused-result -Wno-missing-field-initializers
    -ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LONGWAVE_WERROR}>>:-Werror>)
if(LONGWAVE_SANITIZE)
  target_compile_options(longwave_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LONGWAVE_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all>)
  # With hidden symbols GCC cannot link the switch of a check that is off by default into a shared library.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(longwave_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=asan-use-after-return=0>)
  endif()
  target_link_options(longwave_flags INTERFACE -fsanitize=${LONGWAVE_SANITIZE})
endif()
