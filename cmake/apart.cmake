# Kernels in libraries of their own, which a program opens at run time (src/cuda/apart). Two kinds of build belong to it:
#   -DTACHY_CUDA=APART                        programs and the Python package, without nvcc; tachy_write_seam() writes their side
#   -DTACHY_CUDA=ON, target tachyscope_kernels   the library for TACHY_CUDA_ARCHITECTURES, from the same sources; nothing else of such a
#                                             build is needed, nor built
# tools/build_kernels makes all libraries of the package tachyscope-cuda13.
set(seam_folder ${PROJECT_BINARY_DIR}/seam)
set(host_functions ${PROJECT_SOURCE_DIR}/src/cuda/apart/host_functions.txt)
file(GLOB stamped CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.h ${PROJECT_SOURCE_DIR}/src/tensor/*.h ${PROJECT_SOURCE_DIR}/src/cuda/*.h
  ${PROJECT_SOURCE_DIR}/src/cuda/*/*.h ${PROJECT_SOURCE_DIR}/src/ops/*.h ${PROJECT_SOURCE_DIR}/src/ops/*/*.h)

if(TACHY_CUDA_APART)
  # As a library, which may be named twice when a program is linked.
  add_library(tachy_seam STATIC IMPORTED GLOBAL)
  set_target_properties(tachy_seam PROPERTIES IMPORTED_LOCATION ${seam_folder}/libtachy_seam.a
    INTERFACE_LINK_LIBRARIES "tachy_cuda;tachy_tensor;tachy_base")
endif()

# tachy_seam_library(out side LIST file FILES … DEPENDS … [PREFIX name] [STAMP file …]): assembles one side of the seam into a static library.
function(tachy_seam_library out side)
  cmake_parse_arguments(ARG "" "LIST;PREFIX" "FILES;DEPENDS;STAMP" ${ARGN})
  if(NOT ARG_PREFIX)
    set(ARG_PREFIX tachy_seam)
  endif()
  get_filename_component(folder ${out} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${out}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/kernel_seam ${side} --out ${out}.S --prefix ${ARG_PREFIX} --nm ${CMAKE_NM} --list ${ARG_LIST} --stamp ${stamped} ${ARG_STAMP} --files ${ARG_FILES}
    COMMAND ${CMAKE_CXX_COMPILER} -c ${out}.S -o ${out}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${out}
    COMMAND ${CMAKE_AR} rcs ${out} ${out}.o
    DEPENDS ${PROJECT_SOURCE_DIR}/tools/kernel_seam ${ARG_LIST} ${stamped} ${ARG_DEPENDS}
    COMMAND_EXPAND_LISTS VERBATIM)
endfunction()

# The side of all programs: what any of the libraries calls.
function(tachy_write_seam)
  if(NOT TACHY_CUDA_APART)
    return()
  endif()
  # Folders above `inspect` do not know src/cuda (ARCHITECTURE.md), and a wheel is built without a server.
  set(above jobs workflows http serve postgres queue metrics workers web_api web_page cli)
  list(TRANSFORM above PREPEND tachy_)
  get_property(libraries GLOBAL PROPERTY TACHY_LIBRARIES)
  list(REMOVE_ITEM libraries ${above})
  if(TACHY_HUB)  # which has the operations alone
    set(libraries tachy_ops tachy_cuda tachy_cpu tachy_tensor tachy_base)
  endif()
  foreach(library ${libraries})
    list(APPEND archives $<TARGET_FILE:${library}>)
  endforeach()
  tachy_seam_library(${seam_folder}/libtachy_seam.a program LIST ${host_functions} FILES ${archives} DEPENDS ${archives})
  add_custom_target(tachy_seam_made DEPENDS ${seam_folder}/libtachy_seam.a)
endfunction()

# tachy_kernel_sources(KERNELS file … HOPPER file …): files of this folder that belong into a library of kernels. HOPPER are those of 90a alone.
function(tachy_kernel_sources)
  cmake_parse_arguments(ARG "" "" "KERNELS;HOPPER" ${ARGN})
  if(NOT TARGET tachyscope_kernels)
    string(JOIN " " architectures ${TACHY_CUDA_ARCHITECTURES})
    # 90a-real: sm90a; 80: sm80_ptx, since CMake's 80 means code and PTX.
    string(REGEX MATCH "^([0-9]+[af]?)(-real)?$" one "${TACHY_CUDA_ARCHITECTURES}")
    set(number 0)  # the library of several architectures has no name that a program looks for
    if(one)
      set(number ${CMAKE_MATCH_1})
    endif()
    set(name tachyscope_cuda13_sm${number})
    if(one MATCHES "^[0-9]+$")
      string(APPEND name _ptx)
    endif()
    set(entry ${PROJECT_SOURCE_DIR}/src/cuda/apart/kernel_library.cpp)
    add_library(tachyscope_kernels SHARED EXCLUDE_FROM_ALL ${entry})
    add_library(tachyscope_kernel_objects OBJECT EXCLUDE_FROM_ALL)
    set(objects tachyscope_kernel_objects)
    if(TACHY_CUDA_ARCHITECTURES MATCHES "90a")
      add_library(tachyscope_kernel_hopper OBJECT EXCLUDE_FROM_ALL)
      set_target_properties(tachyscope_kernel_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real)
      list(APPEND objects tachyscope_kernel_hopper)
    endif()
    set(object_files ${objects})
    list(TRANSFORM object_files REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    # For this file alone, so that ccache has the other host files for all architectures.
    set_source_files_properties(${entry} PROPERTIES COMPILE_DEFINITIONS
      "TACHY_CUDA_ARCHITECTURES=\"${architectures}\";TACHY_CUDA_VERSION=\"${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}\"")
    foreach(target tachyscope_kernels ${objects})
      target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
      # fmt inside: the package holds nothing but these libraries.
      target_link_libraries(${target} PRIVATE tachy_flags fmt::fmt-header-only CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS})
    endforeach()
    set(list ${PROJECT_SOURCE_DIR}/src/cuda/apart/kernels.map)
    set(seam ${seam_folder}/libtachy_kernel_seam.a)
    target_link_options(tachyscope_kernels PRIVATE -Wl,--version-script=${list} -Wl,--no-undefined -Wl,--as-needed)
    target_link_libraries(tachyscope_kernels PRIVATE ${seam})
    set_target_properties(tachyscope_kernels PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/kernels LINK_DEPENDS ${list})
    target_sources(tachyscope_kernels PRIVATE ${object_files})
    tachy_for_old_systems(tachyscope_kernels)
    tachy_seam_library(${seam} library LIST ${host_functions} FILES ${object_files}
      DEPENDS ${objects} ${object_files})
    add_custom_target(tachy_kernel_seam_made DEPENDS ${seam})
    add_dependencies(tachyscope_kernels tachy_kernel_seam_made)
  endif()
  if(TACHY_CUDA_ARCHITECTURES MATCHES "90a")
    foreach(file ${ARG_HOPPER})
      cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      target_sources(tachyscope_kernel_hopper PRIVATE ${file})
    endforeach()
  endif()
  foreach(file ${ARG_KERNELS})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    target_sources(tachyscope_kernel_objects PRIVATE ${file})
    if(TACHY_CUDA_UNITY AND file MATCHES "/src/cuda/.*\\.cpp$")  # one unit, as in tachy_cuda
      set_source_files_properties(${file} PROPERTIES UNITY_GROUP kernels)
    endif()
  endforeach()
  set_target_properties(tachyscope_kernel_objects PROPERTIES UNITY_BUILD ${TACHY_CUDA_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()
