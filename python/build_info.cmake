# Writes _build.py, which tells how the package was built. It runs at every build, since the commit may be another one,
# and touches the file only where something changed.
#   cmake -DFILE=… -DSOURCE=… -DVERSION=… -DCUDA=… -DARCHITECTURES=… -DAPART=… -P build_info.cmake
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")  # the sources of a package, without git
endif()
string(REPLACE "," "', '" architectures "${ARCHITECTURES}")
if(architectures)
  set(architectures "'${architectures}'")
endif()
set(apart False)
if(APART)
  set(apart True)
endif()
set(text "\"\"\"How this package was built. python/build_info.cmake writes this file.\"\"\"

VERSION = '${VERSION}'
COMMIT = '${commit}'
CUDA = '${CUDA}'
ARCHITECTURES = [${architectures}]
APART = ${apart}  # kernels for GPUs are those of tachyscope-cuda13, if it is installed
")
set(before "")
if(EXISTS ${FILE})
  file(READ ${FILE} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${FILE} "${text}")
endif()
