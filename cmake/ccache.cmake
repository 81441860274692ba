# ccache where it is installed, unless a launcher is named or -DTACHY_CCACHE=OFF says no. It caches files that use a
# precompiled header (library.cmake) only when it is told that it may; with a launcher of the user's own, which may not be
# told, there is none unless -DTACHY_PCH=ON asks for it, nor with clang, where it was not tried.
find_program(TACHY_CCACHE ccache DOC "the compiler cache, or OFF")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(TACHY_PCH_DEFAULT ON)
else()
  set(TACHY_PCH_DEFAULT OFF)
endif()
if(TACHY_CCACHE)
  foreach(language C CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TACHY_CCACHE})
    endif()
  endforeach()
endif()
