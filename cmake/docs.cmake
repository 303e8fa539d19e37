# Manual pages, made of what the tool's own help says, and the `docs` target: Doxygen's pages of the public headers.
find_program(GZIP gzip REQUIRED)
set(HGA_MAN ${PROJECT_BINARY_DIR}/installed/man)
if(NOT CMAKE_CROSSCOMPILING)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*)
  add_custom_command(OUTPUT ${HGA_MAN}/stamp
    COMMAND sh ${PROJECT_SOURCE_DIR}/docs/man/make.sh $<TARGET_FILE:hga_tool> ${HGA_MAN} ${PROJECT_VERSION}
    COMMAND ${CMAKE_COMMAND} -E touch ${HGA_MAN}/stamp
    DEPENDS hga_tool ${pages} VERBATIM)
  add_custom_target(man ALL DEPENDS ${HGA_MAN}/stamp)
  install(DIRECTORY ${HGA_MAN}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool FILES_MATCHING PATTERN "*.1.gz")
  install(DIRECTORY ${HGA_MAN}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT tool FILES_MATCHING PATTERN "*.5.gz")
endif()

find_program(DOXYGEN doxygen)
if(DOXYGEN)
  set(HGA_DOXYGEN ${PROJECT_BINARY_DIR}/doxygen)
  list(TRANSFORM HGA_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE HGA_HEADER_FOLDERS)
  list(JOIN HGA_HEADER_FOLDERS " " HGA_HEADER_FOLDERS)
  configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${HGA_DOXYGEN}/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${DOXYGEN} -q ${HGA_DOXYGEN}/Doxyfile COMMENT "Doxygen: ${HGA_DOXYGEN}/html/index.html" VERBATIM)
endif()
