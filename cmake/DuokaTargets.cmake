# SPDX-License-Identifier: Apache-2.0
# One function a kind of target, so that a layer's CMakeLists.txt is only its list of files.

add_library(duoka_options INTERFACE)
target_compile_options(duoka_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual
  -Wimplicit-fallthrough
  # GCC 12 reports these two falsely on std::string's concatenation (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<BOOL:${DUOKA_WERROR}>:-Werror>)
if(DUOKA_SANITIZE)
  add_compile_options(-fsanitize=${DUOKA_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DUOKA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Falsely reported on std::optional of a std::variant and inside <regex> in such builds; the other builds
    # have the warning.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()

# The precompiled ATen header, made once and shared by every target that asks for TORCH.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/pch.cpp" CONTENT "// Only carries the precompiled header.\n")
add_library(duoka_pch OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/pch.cpp")
target_link_libraries(duoka_pch PRIVATE Libtorch::cpu duoka_options)
target_precompile_headers(duoka_pch PRIVATE <ATen/ATen.h>)

# duoka_layer(name [TORCH] SOURCES a.cpp … [PUBLIC targets …] [PRIVATE targets …])
# The static library duoka_<name>, alias duoka::<name>. TORCH: links libtorch and uses the shared
# precompiled header.
function(duoka_layer name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(duoka_${name} STATIC ${arg_SOURCES})
  add_library(duoka::${name} ALIAS duoka_${name})
  set_target_properties(duoka_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(duoka_${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>")
  target_include_directories(duoka_${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(duoka_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE}
    "$<BUILD_INTERFACE:duoka_options>")
  if(arg_TORCH)
    target_link_libraries(duoka_${name} PUBLIC Libtorch::cpu)
    target_precompile_headers(duoka_${name} REUSE_FROM duoka_pch)
  endif()
endfunction()

# duoka_vector_sources(a.cpp …)
# Sources of loops the compiler is to vectorise, see src/core/vector_loop.h. Floating-point results are those
# of the source: nothing is reordered. GCC's jump threading would give what lies beyond a limit a path of its own,
# with constants in it, and vectors take every path: SwiGLU's had x times 1 / (1 + e^87.3), a subnormal number,
# which takes dozens of cycles whether it is used or not.
function(duoka_vector_sources)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math;$<$<CXX_COMPILER_ID:GNU>:-fno-thread-jumps>")
endfunction()

# duoka_card_sources(layer a.cu …)
# Kernels of a layer, for a build with CUDA. Only they see CUDA: a layer's .cpp files pass on a stream and share
# the one precompiled header. constexpr functions (core/philox.h) run on the card as they are.
function(duoka_card_sources layer)
  if(NOT DUOKA_CUDA)
    return()
  endif()
  add_library(duoka_${layer}_card OBJECT ${ARGN})
  set_target_properties(duoka_${layer}_card PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(duoka_${layer}_card PRIVATE --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra
    $<$<BOOL:${DUOKA_WERROR}>:-Werror=all-warnings>)
  target_include_directories(duoka_${layer}_card PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_include_directories(duoka_${layer}_card SYSTEM PRIVATE "${Libtorch_INCLUDE_DIR}")
  target_sources(duoka_${layer} PRIVATE $<TARGET_OBJECTS:duoka_${layer}_card>)
  target_link_libraries(duoka_${layer} PRIVATE $<LINK_ONLY:Libtorch::cuda>)
endfunction()

# duoka_test(file.cpp LABEL unit [TORCH] [TIMEOUT seconds] LINK targets …)
# One test program a file, named <layer>_<file>, run by CTest with its label and a time-out. CTest calls it skipped when
# a case in it was and none failed, see tests/support/main.cpp.
function(duoka_test file)
  cmake_parse_arguments(arg "TORCH" "LABEL;TIMEOUT" "LINK" ${ARGN})
  get_filename_component(layer "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  get_filename_component(stem "${file}" NAME_WE)
  set(target "${layer}_${stem}")
  add_executable(${target} "${file}")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE ${arg_LINK} GTest::gmock duoka_test_main duoka_options)
  if(arg_TORCH)
    target_link_libraries(${target} PRIVATE Libtorch::cpu)
    target_precompile_headers(${target} REUSE_FROM duoka_pch)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # for a hang only: a busy machine may take many times as long as an idle one
  endif()
  add_test(NAME ${target} COMMAND ${target})
  # Test data is found through the environment, so that no path of a machine is compiled in and
  # the precompiled header fits every test. One thread: tensors of a test are small, and where other
  # programs run, OpenMP's threads wait for each other longer than they compute (7 s instead of 0.5 s).
  set_tests_properties(${target} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "OMP_NUM_THREADS=1;DUOKA_FIXTURES=${PROJECT_SOURCE_DIR}/tests/fixtures;DUOKA_BINARY=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/duoka;DUOKA_ASSETS=${PROJECT_SOURCE_DIR}/.assets")
endfunction()
