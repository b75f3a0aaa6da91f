# longwave_library(NAME [SRCS …] [DEPS …] [PRIVATE_DEPS …] [PRECOMPILES header…]): one library of ours with the alias
# longwave::NAME. Its headers need DEPS; only its sources need PRIVATE_DEPS. All can go into liblongwave.so. Access to hidden
# symbols is as fast as without -fPIC.
#
# Precompiled headers save a quarter of the time that a source takes. A library uses those of base, or has those and
# PRECOMPILES compiled for itself. Each source of a library pays for all of PRECOMPILES: CLI11 there cost every source of the
# command 3 s, used or not. A source includes what it uses all the same: tools/tidy.sh reads the sources of a change without
# them.
set(LONGWAVE_PRECOMPILED <algorithm> <cstdint> <functional> <map> <memory> <mutex> <optional> <string> <utility> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/time/time.h>)
# GCC no longer knows the standard library's functions as a system's where their header is precompiled, and warns of
# std::string.
set(LONGWAVE_PRECOMPILED_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>")
function(longwave_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;PRIVATE_DEPS;PRECOMPILES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "longwave_library(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(ARG_SRCS)
    add_library(longwave_${name} STATIC ${ARG_SRCS})
    target_include_directories(longwave_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(longwave_${name} PUBLIC ${ARG_DEPS} PRIVATE longwave_flags ${ARG_PRIVATE_DEPS})
    longwave_shareable(longwave_${name})
    target_compile_options(longwave_${name} PRIVATE ${LONGWAVE_PRECOMPILED_OPTIONS})
    if(ARG_PRECOMPILES OR name STREQUAL "base")
      target_precompile_headers(longwave_${name} PRIVATE ${LONGWAVE_PRECOMPILED} ${ARG_PRECOMPILES})
    else()
      target_precompile_headers(longwave_${name} REUSE_FROM longwave_base)
    endif()
  else()
    add_library(longwave_${name} INTERFACE)
    target_include_directories(longwave_${name} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(longwave_${name} INTERFACE ${ARG_DEPS})
  endif()
  add_library(longwave::${name} ALIAS longwave_${name})
endfunction()

# longwave_shareable(TARGET): its objects can be linked into a shared library, which hides them.
function(longwave_shareable target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# longwave_binary(NAME SRCS … DEPS …): a program in build/bin, named NAME.
function(longwave_binary name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE longwave_flags ${ARG_DEPS})
endfunction()

# longwave_test(NAME [PURE] [CODEGEN] SRCS … DEPS … LABELS …): a GoogleTest program in build/tests, and the ctest test NAME, which
# runs the whole of it as one process (tests/run.sh counts its TESTs).
# PURE: it links neither gRPC nor ZeroMQ nor LibTorch, and the target `unit` builds and runs it.
# CODEGEN: what it tests depends on the optimizer (longwave_codegen_test).
# Test sources compile with -O1, a fifth faster than with -O2; what they test is optimised as it ships.
set(LONGWAVE_TEST_OPTIONS -O1 ${LONGWAVE_PRECOMPILED_OPTIONS})
function(longwave_test name)
  cmake_parse_arguments(ARG "PURE;CODEGEN" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE longwave_flags GTest::gtest_main GTest::gmock ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${LONGWAVE_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM longwave_test_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  longwave_add_gtest(${name} ${name} LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if(ARG_PURE)
    set_property(GLOBAL APPEND PROPERTY LONGWAVE_PURE_TESTS ${name})
  endif()
  if(ARG_CODEGEN)
    longwave_codegen_test(${name} ${name})
  endif()
endfunction()

# longwave_add_gtest(TEST PROGRAM [ARGS argument…] [LABELS …] [TIMEOUT s] [ENVIRONMENT variable=value…]): the ctest test TEST runs
# PROGRAM, whose results tests/run.sh reads.
function(longwave_add_gtest test program)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ARGS;LABELS;ENVIRONMENT" ${ARGN})
  add_test(NAME ${test} COMMAND ${program} ${ARG_ARGS})
  set_tests_properties(${test} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/tests/results/${test}.xml;${ARG_ENVIRONMENT}")
endfunction()

# longwave_codegen_test(PROGRAM TEST…): what PROGRAM tests depends on the optimizer's code, or takes an hour without it. A build that
# is not optimised leaves the program to one that is: the target `codegen` builds these programs, and the label is for ctest.
function(longwave_codegen_test program)
  set_property(GLOBAL APPEND PROPERTY LONGWAVE_CODEGEN_TESTS ${program})
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS codegen)
endfunction()
