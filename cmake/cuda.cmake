# CUDA is optional: without it src/cuda and the kernels of src/ops are stub units. cuBLASLt and cuDNN are opened at
# run time; only their headers are needed here. A GPU is never needed to build.

# What nvidia-smi says when it is asked with these words, "" where there is none or it sees no GPU.
function(ask_nvidia_smi answer)
  set(${answer} "" PARENT_SCOPE)
  find_program(TACHY_NVIDIA_SMI nvidia-smi HINTS /usr/lib/wsl/lib)
  mark_as_advanced(TACHY_NVIDIA_SMI)
  if(TACHY_NVIDIA_SMI)
    execute_process(COMMAND ${TACHY_NVIDIA_SMI} ${ARGN} TIMEOUT 30
      OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(${answer} "${said}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# APART: the program is one for CPUs that opens a library of kernels where it finds one (apart.cmake). No nvcc is needed.
set(TACHY_CUDA_APART OFF)
if(TACHY_CUDA STREQUAL "APART")
  set(TACHY_CUDA_APART ON)
  set(TACHY_CUDA OFF)
  set(why_off ": they are opened at run time from the libraries of tachyscope-cuda13")
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
# AUTO: where kernels can be compiled and somebody will run them, which is where a GPU is seen or architectures are named.
if(TACHY_CUDA STREQUAL "AUTO")
  file(GLOB nodes /dev/nvidia[0-9]*)  # of the driver; a container may have them and no nvidia-smi
  ask_nvidia_smi(gpus -L)
  set(TACHY_CUDA OFF)
  if(nodes OR gpus MATCHES "GPU [0-9]+:" OR TACHY_CUDA_ARCHITECTURES OR CMAKE_CUDA_ARCHITECTURES)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      get_filename_component(cuda_bin ${CMAKE_CUDA_COMPILER} REALPATH)
      get_filename_component(cuda_bin ${cuda_bin} DIRECTORY)
      find_path(TACHY_CUDNN_INCLUDE cudnn_backend.h HINTS ${cuda_bin}/../include)
      find_path(TACHY_CUBLAS_INCLUDE cublasLt.h HINTS ${cuda_bin}/../include)
    endif()
    if(NOT CMAKE_CUDA_COMPILER)
      set(why_off ": a GPU was seen, nvcc was not (CUDA 13's toolkit has it; CUDACXX=/path/to/nvcc names one)")
    elseif(NOT TACHY_CUDNN_INCLUDE OR NOT TACHY_CUBLAS_INCLUDE)
      set(why_off ": nvcc is there, the headers of cuBLASLt and cuDNN 9 are not both")
    else()
      set(TACHY_CUDA ON)
    endif()
  else()
    set(why_off ": no GPU was seen; where nvcc is, make build CMAKE_FLAGS=-DTACHY_CUDA=ON builds them all the same")
    find_program(TACHY_NVCC nvcc)
    mark_as_advanced(TACHY_NVCC)
    if(TACHY_NVCC OR CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})  # as when an image is built
      message(WARNING "NO GPU KERNELS ARE BUILT, though nvcc is here: no GPU was seen. -DTACHY_CUDA=ON builds them all the "
        "same (CMAKE_ARGS=-DTACHY_CUDA=ON pip install .), -DTACHY_CUDA=OFF ends this warning.")
    endif()
  endif()
endif()
if(TACHY_CUDA)
  # What kernels are compiled for: 75 (Turing: f16, no bf16), 80, 86 (Ampere), 89 (Ada), 90a (Hopper with its own
  # instructions), 120 (Blackwell). A GPU runs the code of its own architecture, or compiles that of an earlier one when the
  # program starts. Default: this machine's GPU; without one 90a. The release preset has all.
  set(default 90a)
  ask_nvidia_smi(capability --query-gpu=compute_cap --format=csv,noheader)
  if(capability MATCHES "^([0-9]+)\\.([0-9])")
    set(default ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    string(REGEX REPLACE "^90$" 90a default ${default})
  endif()
  set(TACHY_CUDA_ARCHITECTURES "${default}" CACHE STRING "what kernels are compiled for, e.g. 75;80;89;90a;120")
  if(CMAKE_CUDA_ARCHITECTURES)  # CMake's own name for it works, too
    set(TACHY_CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${TACHY_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
endif()
if(TACHY_CUDA)
  message(STATUS "CUDA kernels are built for ${TACHY_CUDA_ARCHITECTURES}")
  file(WRITE ${PROJECT_BINARY_DIR}/kernels.txt "${TACHY_CUDA_ARCHITECTURES}\n")  # for tools/package to say
else()
  message(STATUS "CUDA kernels are left out${why_off}")
  file(WRITE ${PROJECT_BINARY_DIR}/kernels.txt "none${why_off}\n")
endif()

# Kernels of Hopper's own instructions (wgmma, bulk copies) are compiled for 90a whatever the rest is compiled for, and
# for nothing else; the table that offers them asks for a Hopper GPU.
function(tachy_hopper_sources name)
  add_library(tachy_${name}_hopper OBJECT ${ARGN})
  set_target_properties(tachy_${name}_hopper PROPERTIES CUDA_ARCHITECTURES 90a)
  target_include_directories(tachy_${name}_hopper PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tachy_${name}_hopper PRIVATE tachy_flags tachy_base)
  target_sources(tachy_${name} PRIVATE $<TARGET_OBJECTS:tachy_${name}_hopper>)
endfunction()

# tachy_cuda_unit(list name file …): small CUDA files that are compiled as one unit, since 4 seconds of each are headers. `list` is
# the name of the list in which the unit takes their places. The files share a namespace without a name, so what a file has there has
# a name of its own among them. The kernels are those that each file has by itself.
option(TACHY_CUDA_UNITY "compile small CUDA files together" ON)
function(tachy_cuda_unit list_name name)
  set(includes "")
  if(NOT TACHY_CUDA_UNITY)
    return()
  endif()
  foreach(file ${ARGN})
    if(NOT file IN_LIST ${list_name})
      message(FATAL_ERROR "the unit ${name} of CUDA files: there is no ${file}")
    endif()
    string(APPEND includes "#include \"${file}\"\n")
  endforeach()
  list(REMOVE_ITEM ${list_name} ${ARGN})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/units/${name}.cu)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${includes}" @ONLY)
  set(${list_name} ${${list_name}} ${unit} PARENT_SCOPE)
endfunction()
