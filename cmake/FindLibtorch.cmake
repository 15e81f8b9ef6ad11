# SPDX-License-Identifier: Apache-2.0
# FindLibtorch: locate libtorch without running TorchConfig.cmake.
#
# Sources, in order: LIBTORCH_ROOT (cache or environment; an unpacked libtorch
# archive or a site-packages/torch folder), then the `torch` wheel of the
# Python interpreter (Python3_EXECUTABLE, else the active venv's). The wheel is
# only located, never imported, so `pip install --no-deps torch` is enough.
#
# Components: CUDA (libtorch_cuda + c10_cuda + CUDA headers), NCCL (headers+lib).
# Targets:    Libtorch::c10  Libtorch::cpu  [Libtorch::cuda]  [Libtorch::nccl]
# Variables:  Libtorch_ROOT_DIR Libtorch_VERSION Libtorch_NVIDIA_DIR
include(FindPackageHandleStandardArgs)

set(LIBTORCH_ROOT "$ENV{LIBTORCH_ROOT}" CACHE PATH "libtorch archive or site-packages/torch")
set(_lt_root "${LIBTORCH_ROOT}")
if(NOT _lt_root)
  if(NOT Python3_EXECUTABLE)
    set(Python3_FIND_VIRTUALENV FIRST)
    find_package(Python3 QUIET COMPONENTS Interpreter)
  endif()
  if(Python3_EXECUTABLE)
    execute_process(
      COMMAND "${Python3_EXECUTABLE}" -c
        "import importlib.util as u; s=u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
      OUTPUT_VARIABLE _lt_root ERROR_QUIET)
  endif()
endif()

find_path(Libtorch_INCLUDE_DIR ATen/ATen.h HINTS "${_lt_root}/include" NO_DEFAULT_PATH)
find_library(Libtorch_C10_LIBRARY c10 HINTS "${_lt_root}/lib" NO_DEFAULT_PATH)
find_library(Libtorch_CPU_LIBRARY torch_cpu HINTS "${_lt_root}/lib" NO_DEFAULT_PATH)
mark_as_advanced(Libtorch_INCLUDE_DIR Libtorch_C10_LIBRARY Libtorch_CPU_LIBRARY)

if(Libtorch_INCLUDE_DIR)
  get_filename_component(Libtorch_ROOT_DIR "${Libtorch_INCLUDE_DIR}" DIRECTORY)
  file(STRINGS "${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h" _lt_v
       REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _lt_v "${_lt_v}")
  list(JOIN _lt_v "." Libtorch_VERSION)
  # The wheels put the CUDA libraries beside torch/: nvidia/<cuXX|nccl|cudnn|...>/lib
  get_filename_component(Libtorch_NVIDIA_DIR "${Libtorch_ROOT_DIR}/../nvidia" ABSOLUTE)
  file(GLOB _lt_nv_libs LIST_DIRECTORIES true "${Libtorch_NVIDIA_DIR}/*/lib")
  file(GLOB _lt_nv_inc  LIST_DIRECTORIES true "${Libtorch_NVIDIA_DIR}/cu[0-9]*/include")
endif()

foreach(_c IN LISTS Libtorch_FIND_COMPONENTS)
  if(_c STREQUAL "CUDA")
    find_library(Libtorch_CUDA_LIBRARY torch_cuda HINTS "${_lt_root}/lib" NO_DEFAULT_PATH)
    find_library(Libtorch_C10_CUDA_LIBRARY c10_cuda HINTS "${_lt_root}/lib" NO_DEFAULT_PATH)
    # A toolkit's headers when nvcc will be used (CUDAToolkit found by the caller), else the wheels'.
    find_path(Libtorch_CUDA_INCLUDE_DIR cuda_runtime_api.h
      HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_lt_nv_inc} NO_DEFAULT_PATH)
    find_file(Libtorch_CUDART_LIBRARY NAMES libcudart.so.13 libcudart.so.12 libcudart.so
      HINTS ${_lt_nv_libs} ${CUDAToolkit_LIBRARY_DIR} NO_DEFAULT_PATH)
    if(Libtorch_CUDA_LIBRARY AND Libtorch_C10_CUDA_LIBRARY AND Libtorch_CUDA_INCLUDE_DIR
       AND Libtorch_CUDART_LIBRARY)
      set(Libtorch_CUDA_FOUND TRUE)
    endif()
  elseif(_c STREQUAL "NCCL")
    find_path(Libtorch_NCCL_INCLUDE_DIR nccl.h
      HINTS "${Libtorch_NVIDIA_DIR}/nccl/include" ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    # Wheels carry libnccl.so.2 without the .so symlink, so find_library cannot see it.
    find_file(Libtorch_NCCL_LIBRARY NAMES libnccl.so.2 libnccl.so
      HINTS "${Libtorch_NVIDIA_DIR}/nccl/lib" NO_DEFAULT_PATH)
    if(Libtorch_NCCL_INCLUDE_DIR AND Libtorch_NCCL_LIBRARY)
      set(Libtorch_NCCL_FOUND TRUE)
    endif()
  endif()
endforeach()

find_package_handle_standard_args(Libtorch
  REQUIRED_VARS Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY Libtorch_INCLUDE_DIR
  VERSION_VAR Libtorch_VERSION HANDLE_COMPONENTS)

if(Libtorch_FOUND AND NOT TARGET Libtorch::cpu)
  # at::parallel_for is a template: without OpenMP here its loops run on one thread, whatever libtorch has. Only
  # the flags are taken: the library is the one that libtorch brings.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_library(Libtorch::c10 SHARED IMPORTED)
  set_target_properties(Libtorch::c10 PROPERTIES
    IMPORTED_LOCATION "${Libtorch_C10_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libtorch_INCLUDE_DIR};${Libtorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
  add_library(Libtorch::cpu SHARED IMPORTED)
  set_target_properties(Libtorch::cpu PROPERTIES
    IMPORTED_LOCATION "${Libtorch_CPU_LIBRARY}"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>"
    INTERFACE_LINK_OPTIONS "${OpenMP_CXX_FLAGS}"
    INTERFACE_LINK_LIBRARIES Libtorch::c10)
  # The wheels' own copies must win over any CUDA/NCCL the system has.
  foreach(_d IN LISTS _lt_nv_libs)
    set_property(TARGET Libtorch::cpu APPEND PROPERTY INTERFACE_LINK_OPTIONS "LINKER:-rpath-link,${_d}")
  endforeach()
endif()
if(Libtorch_CUDA_FOUND AND NOT TARGET Libtorch::cuda)
  add_library(Libtorch::c10_cuda SHARED IMPORTED)
  set_target_properties(Libtorch::c10_cuda PROPERTIES
    IMPORTED_LOCATION "${Libtorch_C10_CUDA_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libtorch_CUDA_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "Libtorch::c10;${Libtorch_CUDART_LIBRARY}")
  add_library(Libtorch::cuda SHARED IMPORTED)
  # torch_cuda registers the CUDA kernels from static initialisers: keep it NEEDED
  # even where no symbol of it is named.
  set_target_properties(Libtorch::cuda PROPERTIES
    IMPORTED_LOCATION "${Libtorch_CUDA_LIBRARY}"
    INTERFACE_COMPILE_DEFINITIONS USE_CUDA
    INTERFACE_LINK_OPTIONS "LINKER:--no-as-needed"
    INTERFACE_LINK_LIBRARIES "Libtorch::c10_cuda;Libtorch::cpu")
endif()
if(Libtorch_NCCL_FOUND AND NOT TARGET Libtorch::nccl)
  add_library(Libtorch::nccl SHARED IMPORTED)
  set_target_properties(Libtorch::nccl PROPERTIES
    IMPORTED_LOCATION "${Libtorch_NCCL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libtorch_NCCL_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS USE_C10D_NCCL)
endif()
