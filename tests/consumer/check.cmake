# SPDX-License-Identifier: Apache-2.0
# Installs duoka into a fresh folder, builds the program beside this file against it as a user would, and runs
# it. cmake -DBUILD=… -DFOLDER=… -P check.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(code)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${code}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${FOLDER}/made")
# What is installed may be moved.
file(RENAME "${FOLDER}/made" "${FOLDER}/prefix")
run(${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${FOLDER}/build" -G Ninja "-DCMAKE_PREFIX_PATH=${FOLDER}/prefix")
run(${CMAKE_COMMAND} --build "${FOLDER}/build")
foreach(ranks 1 2)
  run("${FOLDER}/build/consumer" --cards ${ranks})
  if(NOT out STREQUAL "${ranks} ranks, weight 0.50\n")
    message(FATAL_ERROR "consumer --cards ${ranks}: wanted weight 0.50, found: ${out}")
  endif()
endforeach()
run("${FOLDER}/prefix/bin/duoka" --version)
if(NOT out MATCHES "0\\.1\\.0")
  message(FATAL_ERROR "duoka --version: ${out}")
endif()
file(REMOVE_RECURSE "${FOLDER}")
