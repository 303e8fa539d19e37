# hga_lacks(TEXT WHAT DEBIAN FEDORA ARCH [MORE]): one line with the command that installs what is missing; the names are those of the distributions' packages.
function(hga_lacks text what debian fedora arch)
  set(command "Debian's package is ${debian}, Fedora's ${fedora}, Arch's ${arch}")
  set(apt-get "sudo apt-get install ${debian}")
  set(dnf "sudo dnf install ${fedora}")
  set(pacman "sudo pacman -S ${arch}")
  foreach(manager apt-get dnf pacman)
    find_program(HGA_INSTALLER_${manager} ${manager})
    mark_as_advanced(HGA_INSTALLER_${manager})
    if(HGA_INSTALLER_${manager})
      set(command "${${manager}}")
      break()
    endif()
  endforeach()
  set(${text} "${what} is missing: ${command}${ARGN}" PARENT_SCOPE)
endfunction()

# Stop with it.
function(hga_missing what debian fedora arch)
  hga_lacks(text "${what}" "${debian}" "${fedora}" "${arch}" "${ARGN}")
  # A line that begins with a blank is not broken by CMake.
  message(FATAL_ERROR " ${text}")
endfunction()
