# -DTACHY_HUB=ON: the operations alone, as Hugging Face's `kernels` wants them (tools/make_hub_kernel): no library is loaded but those of glibc and GCC
# and Highway, and nothing is asked of them that glibc 2.28 and GCC 8 do not have. Packages for a distribution do not need this, since they are made
# on the release that they are for.
#   oneDNN, OpenMP    are left out: they serve convolutions, which the operations in Python do not have; functions that refuse stand in for them
#   fmt, spdlog       are compiled in (python/hub/formatting.cpp)
#   glibc, libstdc++  python/hub/old_runtime.cpp calls the older version of each function that has a newer one too, and std::filesystem is linked
#                     from the static library
option(TACHY_HUB "only the operations, for old systems (tools/make_hub_kernel)" OFF)
if(TACHY_HUB AND NOT (CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
  message(FATAL_ERROR "TACHY_HUB is for GCC on x86-64")
endif()

# tachy_for_old_systems(target [FORMATTING]): links a shared library so, with FORMATTING if it was compiled for the system's fmt and spdlog.
function(tachy_for_old_systems target)
  if(NOT TACHY_HUB)
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/hub)
  set(archive ${folder}/libtachy_old_filesystem.a)
  if(NOT TARGET tachy_old_runtime)
    foreach(name old_runtime formatting)
      add_library(tachy_${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/python/hub/${name}.cpp)
      target_compile_options(tachy_${name} PRIVATE -fvisibility=hidden)
    endforeach()
    target_compile_definitions(tachy_formatting PRIVATE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE standard OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(files fs_dir.o fs_ops.o fs_path.o)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${archive} WORKING_DIRECTORY ${folder}
      COMMAND ${CMAKE_AR} x ${standard} ${files}
      COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
      COMMAND ${CMAKE_AR} rcs ${archive} ${files} VERBATIM)
    add_custom_target(tachy_old_filesystem DEPENDS ${archive})
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:tachy_old_runtime>)
  if("FORMATTING" IN_LIST ARGN)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:tachy_formatting>)
  endif()
  add_dependencies(${target} tachy_old_filesystem)
  target_link_libraries(${target} PRIVATE ${archive})
  target_link_options(${target} PRIVATE -Wl,--as-needed -Wl,--exclude-libs,libtachy_old_filesystem.a)
endfunction()
