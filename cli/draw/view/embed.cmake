# Turns files into C strings: cmake -DOUTPUT=FILE.h "-DINPUTS=view.html|view.css|view.js" -P embed.cmake.
# view.js becomes `static const char view_js[]`.
set(text "/* made by embed.cmake */\n")
string(REPLACE "|" ";" inputs "${INPUTS}")
foreach(input IN LISTS inputs)
  get_filename_component(name "${input}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" name)
  file(READ "${input}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  string(APPEND text "static const char ${name}[] = {\n${bytes}0x00};\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
