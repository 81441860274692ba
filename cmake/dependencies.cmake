# Everything comes from the distribution; nothing is vendored. tools/install_deps lists each package's reason.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)   # only to pin oneDNN's team size to one thread
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
# oneDNN by header and library: Debian's CMake config of it insists on OpenCL, which nothing here uses.
if(NOT TARGET DNNL::dnnl)
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(LIBAV REQUIRED IMPORTED_TARGET libavcodec libavformat libavutil libswscale)
find_package(ZLIB REQUIRED)
if(TACHY_TESTS)
  find_package(GTest REQUIRED)
endif()
