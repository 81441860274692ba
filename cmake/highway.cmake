# The instruction sets for which the kernels of a CPU are compiled. Highway compiles the same source for several instruction sets, and the program takes the best
# that it finds when it starts. With TACHY_CPU_TARGETS=native they are compiled for the best of this machine alone, which is the code that
# it would run anyway, in less than half the time. On a lesser CPU such a program says that it cannot run. `make demo` asks for it in a
# fresh folder; tests and packages are made of all of them.
set(TACHY_CPU_TARGETS all CACHE STRING "CPU kernels for all instruction sets, or native: for this machine's best alone")
set_property(CACHE TACHY_CPU_TARGETS PROPERTY STRINGS all native)
if(NOT TACHY_CPU_TARGETS MATCHES "^(all|native)$")
  message(FATAL_ERROR "TACHY_CPU_TARGETS: expected all or native, got '${TACHY_CPU_TARGETS}'")
endif()

# Our kernels keep vectors in arrays, which SVE's vectors of unknown size cannot be in: Arm runs NEON. SSSE3 is left out since it is a
# fifth of what Highway's files take to compile, and no processor since 2008 has it without SSE4; an older one runs plain loops.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(highway_definitions "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
else()
  set(highway_definitions HWY_DISABLED_TARGETS=HWY_SSSE3)
endif()

# Highway's name of the best target of this machine that would be compiled, if a kernel can be compiled for it alone; otherwise "".
function(find_native_target result)
  if(NOT DEFINED CACHE{TACHY_NATIVE_TARGET})
    set(TACHY_NATIVE_TARGET "" CACHE INTERNAL "Highway's best target of this machine")
    try_run(code compiled SOURCE_FROM_CONTENT best_target.cpp [=[
#include <hwy/targets.h>

#include <cstdio>
int main() {
  const int64_t here = hwy::SupportedTargets() & HWY_TARGETS;  // a better one is a lower bit
  std::printf("%s", hwy::TargetName(here & -here));
}
]=] COMPILE_DEFINITIONS -D${highway_definitions} LINK_LIBRARIES PkgConfig::HWY RUN_OUTPUT_VARIABLE best)
    if(compiled AND code EQUAL 0 AND best MATCHES "^(SSE|AVX)")
      try_run(code compiled SOURCE_FROM_CONTENT one_target.cpp [=[
#include <hwy/highway.h>
HWY_BEFORE_NAMESPACE();
namespace HWY_NAMESPACE {
float sum(float x) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  return hwy::HWY_NAMESPACE::GetLane(hwy::HWY_NAMESPACE::SumOfLanes(d, hwy::HWY_NAMESPACE::Set(d, x)));
}
}  // namespace HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
HWY_EXPORT(sum);
int main() { return HWY_DYNAMIC_DISPATCH(sum)(1.0f) >= 2 ? 0 : 1; }
]=] COMPILE_DEFINITIONS -DHWY_BASELINE_TARGETS=HWY_${best} "-DHWY_DISABLED_TARGETS=(~HWY_${best})" LINK_LIBRARIES PkgConfig::HWY)
      if(compiled AND code EQUAL 0)
        set(TACHY_NATIVE_TARGET ${best} CACHE INTERNAL "")
      endif()
    endif()
  endif()
  set(${result} "${TACHY_NATIVE_TARGET}" PARENT_SCOPE)
endfunction()

set(tachy_one_target "")
if(TACHY_CPU_TARGETS STREQUAL native AND NOT CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  find_native_target(tachy_one_target)
endif()
if(tachy_one_target)
  set(highway_definitions HWY_BASELINE_TARGETS=HWY_${tachy_one_target} "HWY_DISABLED_TARGETS=(~HWY_${tachy_one_target})")
  message(STATUS "CPU kernels are built for ${tachy_one_target} alone (TACHY_CPU_TARGETS=native)")
endif()

# The files of a target that Highway compiles. No others are told what for, so that a change of it compiles nothing else anew.
function(tachy_highway_sources target result)
  set(found)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE file)
    if(file MATCHES "\\.cpp$" AND EXISTS ${file})
      file(STRINGS ${file} highway REGEX "HWY_|hwy/" LIMIT_COUNT 1)
      if(highway)
        list(APPEND found ${source})
      endif()
    endif()
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
