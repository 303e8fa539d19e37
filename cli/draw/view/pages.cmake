# The pages: what each is made of, in order. This list is the only one; the tool has the pages as strings, the Python package has the viewer as a file,
# and both are made by page.cmake, which puts styles and scripts into the template.
set(HGA_PAGE_view view.html view.css view_graph.js view_names.js view_matrix.js view_force.js view_links.js view_weights.js view_play.js view_svg.js view_page.js)
set(HGA_PAGE_beside beside.html beside.css beside.js)
set(HGA_PAGE_run report.html run.html report.css report.js run.js)
set(HGA_PAGE_bench report.html bench.html report.css report.js)
set(HGA_PAGES_FOLDER ${CMAKE_CURRENT_LIST_DIR})

# A page as a file: made_page(NAME OUTPUT), where a header OUTPUT (.h) has it as the string NAME_page.
function(made_page name output)
  set(files ${HGA_PAGE_${name}})
  list(TRANSFORM files PREPEND ${HGA_PAGES_FOLDER}/)
  list(JOIN files "|" list)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DOUTPUT=${output} "-DINPUTS=${list}" -P ${HGA_PAGES_FOLDER}/page.cmake
    DEPENDS ${files} ${HGA_PAGES_FOLDER}/page.cmake ${HGA_PAGES_FOLDER}/pages.cmake VERBATIM)
endfunction()
