# Metrics by prometheus-cpp: its core alone, by header and library, since its CMake config asks for a web server and
# libcurl.
find_path(PROMETHEUS_INCLUDE_DIR prometheus/registry.h)
find_library(PROMETHEUS_CORE_LIBRARY prometheus-cpp-core)
if(NOT PROMETHEUS_INCLUDE_DIR OR NOT PROMETHEUS_CORE_LIBRARY OR NOT TARGET tachy_queue)
  return()
endif()
tachy_library(metrics
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/metrics.cpp
  LINKS tachy_queue nlohmann_json::nlohmann_json ${PROMETHEUS_CORE_LIBRARY})
tachy_glue(metrics)
target_include_directories(tachy_metrics SYSTEM PRIVATE ${PROMETHEUS_INCLUDE_DIR})
