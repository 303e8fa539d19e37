# Manual pages, made of what the tool's own help and the public headers say, and the `docs` target: a site of the pages, the headers, the docstrings and a gallery.
find_program(GZIP gzip REQUIRED)
set(public_headers ${HGA_HEADERS} ${HGA_FILES_HEADERS})
set(HGA_MAN ${PROJECT_BINARY_DIR}/installed/man)
if(NOT CMAKE_CROSSCOMPILING)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/* ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/docs/howto-c.md)
  list(TRANSFORM public_headers REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/hga*.h" OUTPUT_VARIABLE headers)
  file(GLOB headers CONFIGURE_DEPENDS ${headers})
  add_custom_command(OUTPUT ${HGA_MAN}/stamp
    COMMAND sh ${PROJECT_SOURCE_DIR}/docs/man/make.sh $<TARGET_FILE:hga_tool> ${HGA_MAN} ${PROJECT_VERSION} ${headers}
    COMMAND ${CMAKE_COMMAND} -E touch ${HGA_MAN}/stamp
    DEPENDS hga_tool ${pages} ${headers} VERBATIM)
  add_custom_target(man ALL DEPENDS ${HGA_MAN}/stamp)
  install(DIRECTORY ${HGA_MAN}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool FILES_MATCHING PATTERN "*.1.gz")
  install(DIRECTORY ${HGA_MAN}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT development FILES_MATCHING PATTERN "*.3.gz")
  install(DIRECTORY ${HGA_MAN}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT tool FILES_MATCHING PATTERN "*.5.gz")
endif()

# The site takes the Python package's pages from its docstrings. docs/site/make.sh says what is missing.
if(HGA_PYTHON AND NOT CMAKE_CROSSCOMPILING AND NOT HGA_SANITIZE)
  add_custom_target(docs COMMAND sh ${PROJECT_SOURCE_DIR}/docs/site/make.sh $<TARGET_FILE:hga_tool> ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/python ${PROJECT_BINARY_DIR}/site
    COMMENT "The site: ${PROJECT_BINARY_DIR}/site/html/index.html" VERBATIM)
  add_dependencies(docs hga_tool hga_python)
else()
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "The site has pages of the Python package: configure a build of this machine with -DHGA_PYTHON=ON" COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()
