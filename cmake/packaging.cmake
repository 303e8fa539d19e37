# What an installed hga is made of: two shared libraries, static ones whose internal names are hidden, headers, CMake and pkg-config files, the tool with its man pages
# and completion. cpack makes Debian packages of the same parts. The tests use the plain static targets, whose internals they may see.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(HGA_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/hga)
set(libraries hga)
# <hga.h> and <hga/hga.h>
target_include_directories(hga_shared INTERFACE $<INSTALL_INTERFACE:${HGA_INCLUDE}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(HGA_FILES)
  list(APPEND libraries hga_files)
endif()

# ---- the static libraries: one object in which everything but HGA_API is local, so that no name of ours meets one of the user's.
# After the shared library, of the same objects: make knows those only as that target's ----

# hga_archive(LIBRARY NAME COMPONENT): libNAME.a of the static target LIBRARY's objects.
function(hga_archive library name component)
  set(archive ${PROJECT_BINARY_DIR}/installed/lib${name}.a)
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_LINKER} -r -o ${name}.o ${HGA_OBJECTS_${library}}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --strip-debug --remove-section=.comment ${name}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} qcs ${archive} ${name}.o
    DEPENDS ${library}_shared WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/installed COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${library}_archive ALL DEPENDS ${archive})
  install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
endfunction()

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/installed)
# Instrumented objects need their instrument: they are installed as shared libraries alone.
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  hga_archive(hga hga development)
  if(HGA_FILES)
    hga_archive(hga_files hga-files files_development)
  endif()
endif()

# ---- what a static library needs, from the target itself. Plain -l of every package: Requires.private would bring what only a static hwloc needs (libudev) ----

# hga_needs(LIBRARY): the modules of pkg-config, HGA_PC_MODULES_LIBRARY; HGA_NAMES_LIBRARY and the folders that linkers do not look in by themselves, HGA_FOLDERS_LIBRARY, for CMake; HGA_PC_LIBS_LIBRARY for pkg-config.
function(hga_needs library)
  set(modules "")
  set(names "")
  set(folders "")
  foreach(need ${HGA_NEEDS_${library}})
    if(need MATCHES "^PkgConfig::(.*)$")
      list(APPEND modules ${${CMAKE_MATCH_1}_MODULE_NAME})
      list(APPEND names ${${CMAKE_MATCH_1}_LIBRARIES})
      list(APPEND folders ${${CMAKE_MATCH_1}_LIBRARY_DIRS})
      continue()
    elseif(TARGET ${need})
      get_target_property(need ${need} INTERFACE_LINK_LIBRARIES)
    endif()
    foreach(path ${need})
      get_filename_component(name ${path} NAME_WE)
      string(REGEX REPLACE "^lib" "" name ${name})
      list(APPEND names ${name})
      if(IS_ABSOLUTE ${path})
        get_filename_component(folder ${path} DIRECTORY)
        list(APPEND folders ${folder})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES modules)
  list(REMOVE_DUPLICATES names)
  list(REMOVE_DUPLICATES folders)
  if(folders)
    list(REMOVE_ITEM folders ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
  endif()
  set(HGA_PC_MODULES_${library} ${modules} PARENT_SCOPE)
  set(HGA_NAMES_${library} ${names} PARENT_SCOPE)
  set(HGA_FOLDERS_${library} ${folders} PARENT_SCOPE)
  list(TRANSFORM folders PREPEND -L)
  list(TRANSFORM names PREPEND -l)
  list(JOIN folders " " folders)
  list(JOIN names " " names)
  string(STRIP "${folders} ${names}" words)
  set(HGA_PC_LIBS_${library} ${words} PARENT_SCOPE)
endfunction()

foreach(library ${libraries})
  hga_needs(${library})
endforeach()

# All files find their prefix from where they lie, so that a tree may be installed, or moved, anywhere.
set(HGA_PC_FOLDER ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH HGA_PC_UP /prefix/${HGA_PC_FOLDER} /prefix)
string(REGEX REPLACE "/$" "" HGA_PC_UP ${HGA_PC_UP})
set(HGA_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/hga)
configure_file(${CMAKE_CURRENT_LIST_DIR}/hga.pc.in ${PROJECT_BINARY_DIR}/installed/hga.pc @ONLY)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hgaConfig.cmake.in ${PROJECT_BINARY_DIR}/installed/hgaConfig.cmake
  INSTALL_DESTINATION ${HGA_CMAKE_FOLDER} PATH_VARS HGA_INCLUDE CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/installed/hgaConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# ---- install: `runtime` is the shared library, `development` what compiling against it takes, `tool` the command; `files` and `files_development` are libhga-files', `mpi` and `mpi_development` libhga-mpi's ----

# hga_install(LIBRARY EXPORT RUNTIME DEVELOPMENT HEADER_FOLDERS..)
function(hga_install library export runtime development)
  install(TARGETS ${library}_shared EXPORT ${export}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${runtime} NAMELINK_COMPONENT ${development}
    INCLUDES DESTINATION ${HGA_INCLUDE})
  install(EXPORT ${export} NAMESPACE hga:: DESTINATION ${HGA_CMAKE_FOLDER} COMPONENT ${development})
  foreach(folder ${ARGN})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${HGA_INCLUDE} COMPONENT ${development} FILES_MATCHING PATTERN "hga*.h")
  endforeach()
endfunction()

hga_install(hga hgaTargets runtime development ${HGA_HEADERS})
install(FILES ${PROJECT_BINARY_DIR}/installed/hga.pc DESTINATION ${HGA_PC_FOLDER} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/installed/hgaConfig.cmake ${PROJECT_BINARY_DIR}/installed/hgaConfigVersion.cmake
  DESTINATION ${HGA_CMAKE_FOLDER} COMPONENT development)
if(HGA_FILES)
  hga_install(hga_files hgaFilesTargets files files_development ${HGA_FILES_HEADERS})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/hga-files.pc.in ${PROJECT_BINARY_DIR}/installed/hga-files.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/installed/hga-files.pc DESTINATION ${HGA_PC_FOLDER} COMPONENT files_development)
endif()
if(HGA_WITH_MPI)
  hga_install(hga_mpi hgaMpiTargets mpi mpi_development dist/mpi)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/hga-mpi.pc.in ${PROJECT_BINARY_DIR}/installed/hga-mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/installed/hga-mpi.pc DESTINATION ${HGA_PC_FOLDER} COMPONENT mpi_development)
endif()
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
