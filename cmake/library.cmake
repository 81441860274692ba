# tachy_library(name [FOLDERS] SOURCES … LINKS …): one static library a folder; LINKS is its row of the dependency table
# (ARCHITECTURE.md); tools/check_layers proves that the includes keep to it.
add_library(tachy_flags INTERFACE)
target_include_directories(tachy_flags SYSTEM BEFORE INTERFACE ${json_copy})
# A header, and not definitions on each command: what does not include it is not compiled anew when TACHY_CUDA changes.
set(cuda_build "")
if(TACHY_CUDA OR TACHY_CUDA_APART)
  string(APPEND cuda_build "#define TACHY_CUDA_BUILT\n")
endif()
if(TACHY_CUDA_APART)
  string(APPEND cuda_build "#define TACHY_CUDA_APART\n")
endif()
file(CONFIGURE OUTPUT ${json_copy}/tachy_cuda_build.h CONTENT "// For cuda/built.h.\n${cuda_build}" @ONLY)
set(host_flags -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
target_compile_options(tachy_flags INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${host_flags}>")
# --expt-relaxed-constexpr: constexpr helpers of host headers are callable on the device.
target_compile_options(tachy_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-Wno-missing-field-initializers>")
if(TACHY_WERROR)
  target_compile_options(tachy_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(TACHY_SANITIZE)
  target_compile_options(tachy_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${TACHY_SANITIZE};-fno-omit-frame-pointer;-g>")
  target_link_options(tachy_flags INTERFACE -fsanitize=${TACHY_SANITIZE})
endif()
if(TACHY_FUZZ)  # what a fuzzer steers by; the first report ends the run
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(tachy_flags INTERFACE -fsanitize=fuzzer-no-link)
  else()
    target_compile_options(tachy_flags INTERFACE -fsanitize-coverage=trace-pc,trace-cmp)
  endif()
  target_compile_options(tachy_flags INTERFACE -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS)
endif()
# GCC looks for garbage whenever 128 MiB more are in use, which is as much as the precompiled header alone: 7 % of a unit's time. A unit takes
# 700 MiB at most without it, 530 with it.
target_compile_options(tachy_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
# Contraction to FMA is left to the code that asks for it, so that results do not depend on the compiler.
target_compile_options(tachy_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(intrinsics <immintrin.h>)  # 0.5 s of each of Highway's files
endif()

# What nearly every file includes, parsed once: more than a third of a build's time. A file includes what it needs all the
# same; a build with -DTACHY_PCH=OFF (the dev preset) shows whether it does.
option(TACHY_PCH "precompile the headers that most files include" ${TACHY_PCH_DEFAULT})
if(TACHY_PCH)
  file(WRITE ${PROJECT_BINARY_DIR}/pch.cpp "")
  add_library(tachy_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cpp)
  target_link_libraries(tachy_pch PRIVATE tachy_flags fmt::fmt OpenMP::OpenMP_CXX nlohmann_json::nlohmann_json)
  target_precompile_headers(tachy_pch PRIVATE <algorithm> <atomic> <chrono> <cmath> <filesystem> <functional> <map> <memory>
    <mutex> <optional> <span> <sstream> <string> <string_view> <thread> <unordered_map> <vector> <fmt/format.h>
    <nlohmann/json.hpp> ${intrinsics})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(tachy_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
  endif()
endif()
function(tachy_use_pch target)
  if(TACHY_PCH)
    target_precompile_headers(${target} REUSE_FROM tachy_pch)
  endif()
endfunction()

# The same for tests, with what they are compiled with: a header compiled with other options is of no use to them.
set(test_libraries tachy_flags fmt::fmt OpenMP::OpenMP_CXX nlohmann_json::nlohmann_json GTest::gtest_main GTest::gmock)
# GCC warns of the else in GoogleTest's macros where their header is precompiled, and at level 1 of overflows in std::string that
# are none.
set(test_warnings -Wno-dangling-else -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
set(test_options $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:${test_warnings}>")
function(tachy_test_pch)
  if(TARGET tachy_test_pch)
    return()
  endif()
  add_library(tachy_test_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cpp)
  target_link_libraries(tachy_test_pch PRIVATE ${test_libraries})
  target_compile_options(tachy_test_pch PRIVATE ${test_options} -fPIE)
  set_target_properties(tachy_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # as executables are, not as a library
  target_precompile_headers(tachy_test_pch PRIVATE <algorithm> <cmath> <filesystem> <functional> <map> <memory> <optional>
    <span> <string> <thread> <vector> <fmt/format.h> <nlohmann/json.hpp> <gmock/gmock.h> <gtest/gtest.h>)
endfunction()

# Small files of a library are compiled together, since most of a small file's time goes to its headers. So what a file has in its namespace
# without a name has a name of its own in the library; in the ops, which use the same few names, in its op's folder: with FOLDERS
# each folder is a unit. Left out are files that Highway compiles once for each instruction set. An edit compiles its neighbours,
# too; the dev preset compiles each file by itself.
option(TACHY_UNITY "compile small files together" ON)
set(TACHY_UNITY_FILES 18 CACHE STRING "how many files a unit has at most; 0: all of a library")
function(tachy_unity target folders)
  if(NOT TACHY_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TACHY_UNITY_FILES})
  if(folders)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  endif()
  tachy_highway_sources(${target} highway)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE file)
    if(NOT file MATCHES "\\.cpp$" OR NOT EXISTS ${file})
      continue()
    endif()
    cmake_path(GET file PARENT_PATH folder)
    if(source IN_LIST highway)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    elseif(folders)
      cmake_path(GET folder FILENAME group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

function(tachy_library name)
  cmake_parse_arguments(ARG "FOLDERS" "" "SOURCES;LINKS" ${ARGN})
  add_library(tachy_${name} STATIC ${ARG_SOURCES})
  set_property(GLOBAL APPEND PROPERTY TACHY_LIBRARIES tachy_${name})
  target_include_directories(tachy_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/tachyscope>)
  target_link_libraries(tachy_${name} PUBLIC ${ARG_LINKS} PRIVATE $<BUILD_INTERFACE:tachy_flags>)
  tachy_highway_sources(tachy_${name} highway)
  set_property(SOURCE ${highway} APPEND PROPERTY COMPILE_DEFINITIONS ${highway_definitions})
  tachy_use_pch(tachy_${name})
  tachy_unity(tachy_${name} ${ARG_FOLDERS})
endfunction()

# tachy_glue(name … [FAST file …]): libraries that wait for files, kernels or people. At level 1 they compile in two thirds of the
# time, to the same results. FAST are files that compute, which keep the level; those that Highway compiles do so without being named.
function(tachy_glue)
  cmake_parse_arguments(ARG "" "" "FAST" ${ARGN})
  foreach(name ${ARG_UNPARSED_ARGUMENTS})
    target_compile_options(tachy_${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
    tachy_highway_sources(tachy_${name} highway)
    get_target_property(sources tachy_${name} SOURCES)
    foreach(source ${sources})
      if(source IN_LIST highway OR source IN_LIST ARG_FAST)
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
      endif()
    endforeach()
  endforeach()
endfunction()

# tachy_test(name [COST seconds] SOURCES … LINKS …): one GoogleTest binary, one ctest entry; the dearest begin first, so that no
# processor waits for one of them in the end. Half of a build is compiling tests, which spend their
# time in the libraries: level 1, and GoogleTest's headers parsed once.
function(tachy_test name)
  cmake_parse_arguments(ARG "" "COST" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} ${test_libraries})
  target_compile_options(${name} PRIVATE ${test_options})
  target_compile_definitions(${name} PRIVATE TACHY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(TACHY_PCH)
    tachy_test_pch()
    target_precompile_headers(${name} REUSE_FROM tachy_test_pch)
  endif()
  if(TACHY_UNITY)  # as libraries: what a file names for itself has a name of its own in its test
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_COST)
    set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()
