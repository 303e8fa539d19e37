# hga_emulated(TARGET): where programs run under an emulator, a script in the program's place starts it there, for tests that are scripts.
function(hga_emulated target)
  if(NOT CMAKE_CROSSCOMPILING_EMULATOR OR NOT HGA_TESTS)
    return()
  endif()
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/emulated/${target})
  file(GENERATE OUTPUT ${script} CONTENT "#!/bin/sh\nexec ${emulator} -0 \"$0\" $<TARGET_FILE:${target}>.emulated \"$@\"\n"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E rename $<TARGET_FILE:${target}> $<TARGET_FILE:${target}>.emulated
    COMMAND ${CMAKE_COMMAND} -E copy ${script} $<TARGET_FILE:${target}> VERBATIM)
endfunction()
