# Writes the commit of the sources into a C++ file, which is touched only when it changes, so that a build of the same commit links nothing anew.
#   cmake -DFILE=… -DSOURCE=… -P commit.cmake
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")  # the sources of a package, without git
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT "namespace tachy::cli {\nextern const char* const kCommit;\nconst char* const kCommit = \"${commit}\";\n}  // namespace tachy::cli\n")
