/* html_table.h: a table inside a page. */
#ifndef CLI_HTML_TABLE_H
#define CLI_HTML_TABLE_H

#include "html.h"
#include "table.h"

/* As table_print has it; rows that were disturbed are of a class. `links`: the first cell of row i leads to #vI. Else a
   wide table shows the columns that people look at first, and the others are folded. */
void html_table_put(FILE *file, const json_t *rows, const column *columns, int links);

#endif
