# longwave_torch: the libraries and includes of a target that uses LibTorch.
#
# LibTorch is the distribution's package, or the one whose TorchConfig.cmake is in Torch_DIR, CUDA
# included. LibTorch's own configuration is not used: for a LibTorch with CUDA it needs a CUDA toolkit
# and cuDNN, and links libtorch_cuda.so, so that no program would start on a machine without a driver.
# Ours links only the CPU's libraries; worker/models/device.cc loads the CUDA part for a GPU.
set(torch_hints)
if(Torch_DIR)
  # PREFIX/share/cmake/Torch, or PREFIX/lib/MACHINE/cmake/Torch where a distribution has it.
  foreach(above IN ITEMS ../.. ../../.. ../../../..)
    get_filename_component(folder "${Torch_DIR}/${above}" ABSOLUTE)
    list(APPEND torch_hints "${folder}")
  endforeach()
  list(APPEND torch_hints NO_DEFAULT_PATH)
endif()
if(NOT "${Torch_DIR}" STREQUAL "${LONGWAVE_TORCH_DIR_BEFORE}")
  unset(LONGWAVE_TORCH_INCLUDE CACHE)
  unset(LONGWAVE_TORCH_CPU CACHE)
  unset(LONGWAVE_TORCH_C10 CACHE)
endif()
set(LONGWAVE_TORCH_DIR_BEFORE "${Torch_DIR}" CACHE INTERNAL "Torch_DIR of the last configuration")

find_path(LONGWAVE_TORCH_INCLUDE ATen/ATen.h PATH_SUFFIXES include HINTS ${torch_hints})
find_library(LONGWAVE_TORCH_CPU torch_cpu PATH_SUFFIXES lib HINTS ${torch_hints})
find_library(LONGWAVE_TORCH_C10 c10 PATH_SUFFIXES lib HINTS ${torch_hints})
if(NOT LONGWAVE_TORCH_INCLUDE OR NOT LONGWAVE_TORCH_CPU OR NOT LONGWAVE_TORCH_C10)
  message(FATAL_ERROR "LibTorch: got Torch_DIR \"${Torch_DIR}\", wanted the folder share/cmake/Torch of "
    "a LibTorch (ATen/ATen.h, libtorch_cpu.so, libc10.so), or none and the distribution's libtorch-dev")
endif()
# PyPI's torch before 2.6 has another std::string, and would not link.
if(Torch_DIR AND EXISTS "${Torch_DIR}/TorchConfig.cmake")
  file(STRINGS "${Torch_DIR}/TorchConfig.cmake" torch_old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(torch_old_abi)
    message(FATAL_ERROR "LibTorch: ${LONGWAVE_TORCH_CPU} has the C++ ABI from before 2011; wanted one "
      "built with _GLIBCXX_USE_CXX11_ABI=1")
  endif()
endif()

add_library(longwave_torch INTERFACE)
# As system headers: they warn.
target_include_directories(longwave_torch SYSTEM INTERFACE "${LONGWAVE_TORCH_INCLUDE}")
target_link_libraries(longwave_torch INTERFACE "${LONGWAVE_TORCH_CPU}" "${LONGWAVE_TORCH_C10}"
  ${CMAKE_DL_LIBS})
get_filename_component(torch_folder "${LONGWAVE_TORCH_CPU}" DIRECTORY)
if(EXISTS "${torch_folder}/libtorch_cuda.so")
  message(STATUS "LibTorch: ${LONGWAVE_TORCH_CPU}, with CUDA beside it")
else()
  message(STATUS "LibTorch: ${LONGWAVE_TORCH_CPU}, without CUDA")
endif()
