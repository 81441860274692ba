if(TARGET tachy_metrics)
  tachy_test(metrics_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/metrics_test.cpp
    LINKS tachy_metrics tachy_base nlohmann_json::nlohmann_json)
endif()
