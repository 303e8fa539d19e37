# The shared libraries: what HGA_API names, nothing else; the needs are nobody else's business.

# While the major version is 0 a minor one may break the interface, and has a name of its own.
set(HGA_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(HGA_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()

# hga_shared_library(TARGET NAME MAP OBJECTS.. NEEDS ..): objects as libNAME.so.
function(hga_shared_library target name map)
  cmake_parse_arguments(PARSE_ARGV 3 of "" "" NEEDS)
  add_library(${target} SHARED ${of_UNPARSED_ARGUMENTS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${HGA_SOVERSION} LINKER_LANGUAGE C)
  # One version node for all symbols; a program linked to it says so to ldd. After the first release of 0.6 new names get nodes of their own.
  target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${map})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${map})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:hga_flags>)
  foreach(need ${of_NEEDS})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${need}>)
  endforeach()
  if(NOT HGA_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

# hga_share(LIBRARY NAME MAP OBJECTS..): the static target LIBRARY as libNAME.so, target LIBRARY_shared. HGA_OBJECTS_LIBRARY and HGA_NEEDS_LIBRARY are what it is made of and linked with.
function(hga_share library name map)
  get_target_property(objects ${library} SOURCES)
  get_target_property(needs ${library} LINK_LIBRARIES)
  list(APPEND objects ${ARGN})
  list(REMOVE_ITEM needs hga_flags hga)
  set(HGA_OBJECTS_${library} ${objects} PARENT_SCOPE)
  set(HGA_NEEDS_${library} ${needs} PARENT_SCOPE)
  hga_shared_library(${library}_shared ${name} ${map} ${objects} NEEDS ${needs})
  # A project that takes hga in builds the one that it links.
  if(NOT HGA_INSTALL AND NOT HGA_TESTS)
    set_target_properties(${library}_shared PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()

hga_share(hga hga hga.map)
set_target_properties(hga_shared PROPERTIES EXPORT_NAME hga)
foreach(folder ${HGA_HEADERS})
  target_include_directories(hga_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}>)
endforeach()
target_include_directories(hga_shared INTERFACE $<BUILD_INTERFACE:${HGA_HEADER_LINKS}>)

if(HGA_FILES)
  hga_share(hga_files hga-files hga-files.map $<TARGET_OBJECTS:hga_base>)
  set_target_properties(hga_files_shared PROPERTIES EXPORT_NAME files)
  target_link_libraries(hga_files_shared PUBLIC hga_shared)
  foreach(folder ${HGA_FILES_HEADERS} ${HGA_FILES_BASE})
    target_include_directories(hga_files_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}>)
  endforeach()
endif()

# What a program links, in this tree, in one that takes it in, and after find_package(hga).
set(kind "")
if(BUILD_SHARED_LIBS)
  set(kind _shared)
endif()
add_library(hga::hga ALIAS hga${kind})
if(HGA_FILES)
  add_library(hga::files ALIAS hga_files${kind})
endif()
