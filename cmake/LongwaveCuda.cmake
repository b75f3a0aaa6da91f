# Finds a CUDA compiler for LONGWAVE_CUDA=AUTO|ON|OFF and gives
#   LONGWAVE_CUDA_FOUND   whether the CUDA backend is built
#   longwave_cudart       the libraries and includes of a target with CUDA code
#   longwave_cuda_objects(VARIABLE SOURCE…)   compiles .cu files; VARIABLE lists the objects
#
# CMake calls nvcc by name, not through enable_language(CUDA), which must come before any target in the
# top folder. CMake 3.25's FindCUDAToolkit fails with CUDA 13, and our .cu files need neither device
# linking nor more than one set of flags.
set(LONGWAVE_CUDA_FOUND OFF)
if(LONGWAVE_CUDA STREQUAL "OFF")
  message(STATUS "CUDA backend: off")
  return()
elseif(NOT LONGWAVE_CUDA MATCHES "^(AUTO|ON)$")
  message(FATAL_ERROR "LONGWAVE_CUDA is \"${LONGWAVE_CUDA}\", wanted AUTO, ON or OFF")
endif()

if(DEFINED ENV{CUDACXX})
  set(LONGWAVE_NVCC "$ENV{CUDACXX}" CACHE FILEPATH "The CUDA compiler")
endif()
if(LONGWAVE_NVCC AND NOT EXISTS "${LONGWAVE_NVCC}")
  unset(LONGWAVE_NVCC CACHE)  # the toolkit of an earlier configuration is gone: look again
  unset(LONGWAVE_CUDA_INCLUDE CACHE)
  unset(LONGWAVE_CUDART CACHE)
endif()
find_program(LONGWAVE_NVCC nvcc
  HINTS /usr/local/cuda/bin "${PROJECT_SOURCE_DIR}/.cuda/toolkit/bin"
  DOC "The CUDA compiler")
if(NOT LONGWAVE_NVCC)
  if(LONGWAVE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LONGWAVE_CUDA is ON, but there is no nvcc: not in CUDACXX, PATH, "
      "/usr/local/cuda or .cuda/toolkit. tools/setup.sh --cuda brings one.")
  endif()
  message(STATUS "CUDA backend: off (no nvcc; tools/setup.sh --cuda brings one)")
  return()
endif()

get_filename_component(nvcc_real "${LONGWAVE_NVCC}" REALPATH)
get_filename_component(nvcc_folder "${nvcc_real}" DIRECTORY)
get_filename_component(toolkit "${nvcc_folder}" DIRECTORY)
find_path(LONGWAVE_CUDA_INCLUDE cuda_runtime_api.h
  HINTS "${toolkit}/include" "${toolkit}/targets/x86_64-linux/include" NO_DEFAULT_PATH)
find_library(LONGWAVE_CUDART libcudart_static.a
  HINTS "${toolkit}/lib64" "${toolkit}/lib" "${toolkit}/targets/x86_64-linux/lib" NO_DEFAULT_PATH)
if(NOT LONGWAVE_CUDA_INCLUDE OR NOT LONGWAVE_CUDART)
  if(LONGWAVE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LONGWAVE_CUDA is ON and nvcc is ${LONGWAVE_NVCC}, but ${toolkit} lacks "
      "cuda_runtime_api.h or libcudart_static.a")
  endif()
  message(STATUS "CUDA backend: off (${toolkit} lacks the runtime's header or library)")
  return()
endif()

# Machine code for the GPUs of data centres since Turing, as far as this nvcc knows them, and PTX of
# the newest of these, which the driver compiles for GPUs that came later.
execute_process(COMMAND "${LONGWAVE_NVCC}" --list-gpu-arch
  OUTPUT_VARIABLE nvcc_architectures RESULT_VARIABLE nvcc_result ERROR_VARIABLE nvcc_error)
if(NOT nvcc_result EQUAL 0)
  message(FATAL_ERROR "CUDA: ${LONGWAVE_NVCC} --list-gpu-arch fails: ${nvcc_error}")
endif()
set(LONGWAVE_CUDA_ARCHITECTURES "75;80;90" CACHE STRING "Compute capabilities to compile for")
set(nvcc_targets)
set(LONGWAVE_CUDA_OLDEST)  # of those that are compiled for
set(architectures ${LONGWAVE_CUDA_ARCHITECTURES})
list(SORT architectures COMPARE NATURAL)
foreach(architecture IN LISTS architectures)
  if(NOT nvcc_architectures MATCHES "compute_${architecture}\n")
    message(STATUS "CUDA: this nvcc does not know compute_${architecture}; left out")
    continue()
  endif()
  list(APPEND nvcc_targets "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  if(NOT LONGWAVE_CUDA_OLDEST)
    set(LONGWAVE_CUDA_OLDEST ${architecture})
  endif()
  set(nvcc_newest ${architecture})
endforeach()
if(NOT nvcc_targets)
  message(FATAL_ERROR "CUDA: nvcc knows none of LONGWAVE_CUDA_ARCHITECTURES "
    "(${LONGWAVE_CUDA_ARCHITECTURES})")
endif()
list(APPEND nvcc_targets "-gencode=arch=compute_${nvcc_newest},code=compute_${nvcc_newest}")

set(nvcc_host)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(nvcc_host "-ccbin=${CMAKE_CXX_COMPILER}")
endif()
set(nvcc_warnings -Xcompiler=-Wall,-Wextra)
if(LONGWAVE_WERROR)
  list(APPEND nvcc_warnings -Werror=all-warnings)
endif()
# -fmad=false: as -ffp-contract=off of the host's sources; fused operations are explicit.
# relaxed-constexpr: the wire's constexpr functions run on the device as they are.
set(LONGWAVE_NVCC_FLAGS -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr
  ${nvcc_targets} ${nvcc_host} ${nvcc_warnings} "-I${PROJECT_SOURCE_DIR}")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  list(APPEND LONGWAVE_NVCC_FLAGS -lineinfo)  # has the folder's path, which a release must not depend on
endif()

function(longwave_cuda_objects variable)
  set(objects)
  foreach(source IN LISTS ARGN)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${source}.o")
    get_filename_component(folder "${object}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(OUTPUT "${object}"
      COMMAND ${LONGWAVE_CCACHE} "${LONGWAVE_NVCC}" ${LONGWAVE_NVCC_FLAGS} -MD -MF "${object}.d"
        -MT "${object}" -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
      DEPFILE "${object}.d"
      COMMENT "Building CUDA object ${source}.o"
      VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()

add_library(longwave_cudart INTERFACE)
target_include_directories(longwave_cudart SYSTEM INTERFACE "${LONGWAVE_CUDA_INCLUDE}")
target_link_libraries(longwave_cudart INTERFACE "${LONGWAVE_CUDART}" Threads::Threads ${CMAKE_DL_LIBS} rt)
set(LONGWAVE_CUDA_FOUND ON)
file(STRINGS "${LONGWAVE_CUDA_INCLUDE}/cuda_runtime_api.h" runtime_version REGEX "^#define CUDART_VERSION +[0-9]+")
string(REGEX MATCH "[0-9]+" LONGWAVE_CUDART_VERSION "${runtime_version}")  # 13000 is 13.0
message(STATUS "CUDA backend: on (${LONGWAVE_NVCC}, compute ${LONGWAVE_CUDA_ARCHITECTURES})")
