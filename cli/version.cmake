# Writes version.h at every build, and touches it only when something in it changed. Run with -DSOURCE -DTEMPLATE -DHEADER and the versions.
find_program(GIT git)
set(BUILD_COMMIT "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --tags --abbrev=12
    OUTPUT_VARIABLE described RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND NOT described STREQUAL "")
    set(BUILD_COMMIT "${described}")
  endif()
endif()
configure_file(${TEMPLATE} ${HEADER} @ONLY)
