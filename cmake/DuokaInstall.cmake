# SPDX-License-Identifier: Apache-2.0
# `cmake --install BUILD --prefix PREFIX`: the command, the static libraries, the public headers, and what
# find_package(duoka) needs. A program links duoka::duoka, or a layer alone (duoka::comm).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The layers of the library: all but cli, which is the command.
set(_layers core io comm data model tune parallel train)
list(TRANSFORM _layers PREPEND duoka_ OUTPUT_VARIABLE _libraries)
set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/duoka")

install(TARGETS duoka_all ${_libraries} EXPORT duokaTargets ARCHIVE)
install(TARGETS duoka)
foreach(_layer IN LISTS _layers)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/duoka/${_layer}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/duoka")
endforeach()

install(EXPORT duokaTargets NAMESPACE duoka:: DESTINATION "${_package}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/duokaConfig.cmake.in" "${PROJECT_BINARY_DIR}/duokaConfig.cmake"
  INSTALL_DESTINATION "${_package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/duokaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/duokaConfig.cmake" "${PROJECT_BINARY_DIR}/duokaConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/FindLibtorch.cmake" DESTINATION "${_package}")
