# The shared library: what HGA_API names, nothing else; the needs are nobody else's business.
get_target_property(HGA_OBJECTS hga SOURCES)
get_target_property(HGA_NEEDS hga LINK_LIBRARIES)
list(REMOVE_ITEM HGA_NEEDS hga_flags)

# While the major version is 0 a minor one may break the interface, and has a name of its own.
set(HGA_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(HGA_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()

add_library(hga_shared SHARED ${HGA_OBJECTS})
set_target_properties(hga_shared PROPERTIES OUTPUT_NAME hga EXPORT_NAME hga VERSION ${PROJECT_VERSION} SOVERSION ${HGA_SOVERSION} LINKER_LANGUAGE C)
# One version node for all symbols; a program linked to it says so to ldd. After the first release of 0.3 new names get nodes of their own.
target_link_options(hga_shared PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/hga.map)
set_property(TARGET hga_shared APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/hga.map)
target_link_libraries(hga_shared PRIVATE $<BUILD_INTERFACE:hga_flags>)
foreach(need ${HGA_NEEDS})
  target_link_libraries(hga_shared PRIVATE $<BUILD_INTERFACE:${need}>)
endforeach()
if(NOT HGA_SANITIZE)
  target_link_options(hga_shared PRIVATE -Wl,-z,defs)
endif()
foreach(folder ${HGA_HEADERS})
  target_include_directories(hga_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}>)
endforeach()

# A project that takes hga in builds the one that it links.
if(NOT HGA_INSTALL AND NOT HGA_TESTS)
  set_target_properties(hga_shared PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()

# What a program links, in this tree, in one that takes it in, and after find_package(hga).
if(BUILD_SHARED_LIBS)
  add_library(hga::hga ALIAS hga_shared)
else()
  add_library(hga::hga ALIAS hga)
endif()
