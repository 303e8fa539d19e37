# What an installed hga is made of: a shared library, a static one whose internal names are hidden, headers, CMake and pkg-config files, the tool with its man pages
# and completion. cpack makes Debian packages of the same parts. The tests use the plain static target `hga`, whose internals they may see.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(HGA_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/hga)
target_include_directories(hga_shared INTERFACE $<INSTALL_INTERFACE:${HGA_INCLUDE}>)

# ---- the static library: one object in which everything but HGA_API is local, so that no name of ours meets one of the user's.
# After the shared library, of the same objects: make knows those only as that target's ----

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/installed)
# Instrumented objects need their instrument: they are installed as the shared library alone.
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  set(HGA_ARCHIVE ${PROJECT_BINARY_DIR}/installed/libhga.a)
  add_custom_command(OUTPUT ${HGA_ARCHIVE}
    COMMAND ${CMAKE_LINKER} -r -o hga.o ${HGA_OBJECTS}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --strip-debug --remove-section=.comment hga.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${HGA_ARCHIVE}
    COMMAND ${CMAKE_AR} qcs ${HGA_ARCHIVE} hga.o
    DEPENDS hga_shared WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/installed COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(hga_archive ALL DEPENDS ${HGA_ARCHIVE})
  install(FILES ${HGA_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()

# ---- what a static hga needs, from the target itself. Plain -l of every package: Requires.private would bring what only a static hwloc needs (libudev) ----

set(HGA_PC_MODULES "")
set(HGA_PC_LIBRARIES "")
foreach(need ${HGA_NEEDS})
  if(need MATCHES "^PkgConfig::(.*)$")
    list(APPEND HGA_PC_MODULES ${${CMAKE_MATCH_1}_MODULE_NAME})
    list(TRANSFORM ${CMAKE_MATCH_1}_LIBRARIES PREPEND -l OUTPUT_VARIABLE names)
    list(APPEND HGA_PC_LIBRARIES ${names})
  elseif(need MATCHES "^OpenMP::")
    list(APPEND HGA_PC_LIBRARIES -lgomp -lpthread)
  else()
    get_filename_component(name ${need} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
    list(APPEND HGA_PC_LIBRARIES -l${name})
  endif()
endforeach()
list(REMOVE_DUPLICATES HGA_PC_MODULES)
list(REMOVE_DUPLICATES HGA_PC_LIBRARIES)
list(JOIN HGA_PC_LIBRARIES " " HGA_PC_LIBS)

# Both files find their prefix from where they lie, so that a tree may be installed, or moved, anywhere.
set(HGA_PC_FOLDER ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH HGA_PC_UP /prefix/${HGA_PC_FOLDER} /prefix)
string(REGEX REPLACE "/$" "" HGA_PC_UP ${HGA_PC_UP})
configure_file(${CMAKE_CURRENT_LIST_DIR}/hga.pc.in ${PROJECT_BINARY_DIR}/installed/hga.pc @ONLY)
set(HGA_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/hga)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hgaConfig.cmake.in ${PROJECT_BINARY_DIR}/installed/hgaConfig.cmake
  INSTALL_DESTINATION ${HGA_CMAKE_FOLDER} PATH_VARS HGA_INCLUDE CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/installed/hgaConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# ---- install: `runtime` is the shared library, `development` what compiling against it takes, `tool` the command ----

install(TARGETS hga_shared EXPORT hgaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${HGA_INCLUDE})
install(EXPORT hgaTargets NAMESPACE hga:: DESTINATION ${HGA_CMAKE_FOLDER} COMPONENT development)
foreach(folder ${HGA_HEADERS})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${HGA_INCLUDE} COMPONENT development
    FILES_MATCHING PATTERN "hga*.h")
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/installed/hga.pc DESTINATION ${HGA_PC_FOLDER} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/installed/hgaConfig.cmake ${PROJECT_BINARY_DIR}/installed/hgaConfigVersion.cmake
  DESTINATION ${HGA_CMAKE_FOLDER} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN man EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/examples/custom_hierarchy.c ${PROJECT_SOURCE_DIR}/examples/quickstart.c ${PROJECT_SOURCE_DIR}/examples/tutorial.c
  ${PROJECT_SOURCE_DIR}/examples/two_levels.c ${PROJECT_SOURCE_DIR}/examples/user_message.c ${PROJECT_SOURCE_DIR}/examples/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/completions/hga.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME hga COMPONENT tool)

# The tool's own rules name no component. Outside of /usr it looks for a shared library beside itself.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME tool)
if(BUILD_SHARED_LIBS AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set(CMAKE_INSTALL_RPATH "$ORIGIN/${up}")
endif()

if(HGA_TOOL)
  include(${CMAKE_CURRENT_LIST_DIR}/docs.cmake)
  if(PROJECT_IS_TOP_LEVEL)
    include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
  endif()
endif()
