# Installs the binary and the shipped models (component runtime: what packages hold), the headers of the public interface
# and the libraries behind it (component development; tools/check_install shows that the headers need no others), with a package config: find_package(tachyscope) gives
# tachyscope::tachyscope.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(tachyscope_interface INTERFACE)
set_target_properties(tachyscope_interface PROPERTIES EXPORT_NAME tachyscope)
target_link_libraries(tachyscope_interface INTERFACE tachy_jobs tachy_report tachy_api)
add_library(tachyscope::tachyscope ALIAS tachyscope_interface)

# A relocatable package keeps its libraries there. DT_RPATH, not DT_RUNPATH: it counts for the libraries' libraries too.
set_target_properties(tachyscope PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/tachyscope")
target_link_options(tachyscope PRIVATE -Wl,--disable-new-dtags)
install(TARGETS tachyscope RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
if(TARGET tachyscope-serve)  # `tachyscope serve` looks for it there; it is left out where nobody built it
  set_target_properties(tachyscope-serve PROPERTIES INSTALL_RPATH "$ORIGIN/../../lib/tachyscope")
  target_link_options(tachyscope-serve PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS tachyscope-serve RUNTIME DESTINATION libexec/tachyscope COMPONENT runtime OPTIONAL)
endif()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(TARGETS tachyscope_interface tachy_jobs tachy_api tachy_report tachy_worlds tachy_estimate tachy_engine tachy_stages tachy_denoise tachy_session tachy_resolve tachy_convert tachy_catalog tachy_request tachy_clip_vision tachy_umt5 tachy_wan tachy_wan_vae tachy_wav2vec2
  tachy_samplers tachy_runtime tachy_nn tachy_adapters tachy_weights tachy_text tachy_media tachy_ops tachy_cuda tachy_cpu tachy_tensor tachy_base
  EXPORT tachyscope ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/tachyscope)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tachyscope)
install(EXPORT tachyscope NAMESPACE tachyscope:: DESTINATION ${cmake_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tachyscope-config.cmake.in
  ${PROJECT_BINARY_DIR}/tachyscope-config.cmake INSTALL_DESTINATION ${cmake_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tachyscope-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tachyscope-config.cmake ${PROJECT_BINARY_DIR}/tachyscope-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake DESTINATION ${cmake_folder})

# The facade, what is said of files, jobs; then the values that these take and give.
foreach(header api/convert.h api/exit_code.h api/fields.h api/predict.h api/presets.h api/profile.h api/tachyscope.h api/tachyscope_c.h api/tachyscope_c_v2.h api/vae.h api/world.h
    report/info.h report/lora_report.h
    jobs/job_control.h jobs/job_runner.h jobs/job_sink.h jobs/job_spec.h jobs/job_store.h jobs/open_engine.h jobs/settings.h jobs/settings_encoding.h
    base/environment.h base/error.h base/field.h base/profile_range.h base/profiler.h base/run_profiler.h base/stop_flags.h catalog/part_paths.h ops/pick_record.h
    request/control_plan.h request/device_frames.h request/inputs.h request/parallel.h request/request.h request/request_fields.h request/talk_windows.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tachyscope/${folder})
endforeach()
if(EXISTS ${PROJECT_SOURCE_DIR}/models/sprites/model_index.json)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/sprites ${PROJECT_SOURCE_DIR}/models/sprites-fast ${PROJECT_SOURCE_DIR}/models/sprites-edit
          ${PROJECT_SOURCE_DIR}/models/talker
          DESTINATION ${CMAKE_INSTALL_DATADIR}/tachyscope/models COMPONENT runtime) # sprites-fast and sprites-edit link to their neighbour
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/models/world/config.json)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/world DESTINATION ${CMAKE_INSTALL_DATADIR}/tachyscope/models COMPONENT runtime)
endif()
