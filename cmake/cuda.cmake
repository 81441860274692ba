# CUDA is optional: without it src/cuda and the kernels of src/ops are stub units. cuBLASLt and cuDNN are opened at
# run time; only their headers are needed here. A GPU is never needed to build.
if(TACHY_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(TACHY_CUDA ON)
  else()
    set(TACHY_CUDA OFF)
  endif()
endif()
if(TACHY_CUDA)
  # 80 runs on every later GPU through its PTX; 90a has Hopper's own instructions. The release preset adds 75
  # (Turing, FP16 only), 89 (Ada) and 120 (consumer Blackwell) as machine code.
  set(TACHY_CUDA_ARCHITECTURES "90a" CACHE STRING "what kernels are compiled for")
  set(CMAKE_CUDA_ARCHITECTURES ${TACHY_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
endif()
message(STATUS "CUDA kernels: ${TACHY_CUDA}")
