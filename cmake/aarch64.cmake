# A toolchain file: hga for 64-bit ARM on another Debian 12, its tests run by qemu-user. Debian's gcc-aarch64-linux-gnu and qemu-user, and the libraries that
# cmake/aarch64-sysroot.sh unpacks into HGA_AARCH64_SYSROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

get_filename_component(folder ${CMAKE_CURRENT_LIST_DIR}/../build-aarch64-sysroot ABSOLUTE)
set(HGA_AARCH64_SYSROOT ${folder} CACHE PATH "Where cmake/aarch64-sysroot.sh unpacked Debian's arm64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HGA_AARCH64_SYSROOT)
set(CMAKE_SYSROOT ${HGA_AARCH64_SYSROOT})
if(NOT EXISTS ${CMAKE_SYSROOT}/usr/include)
  message(FATAL_ERROR "no libraries in ${CMAKE_SYSROOT}: run cmake/aarch64-sysroot.sh ${CMAKE_SYSROOT}, or name another folder by -DHGA_AARCH64_SYSROOT=")
endif()

# Debian's libraries lie in folders by architecture.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})

# Python for that machine, which runs the package that is built: its headers, and what starts it.
file(GLOB Python_INCLUDE_DIR ${CMAKE_SYSROOT}/usr/include/python3.*)
set(HGA_TARGET_PYTHON ${CMAKE_SYSROOT}/emulated/python3)
