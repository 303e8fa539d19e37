/* html.h: text, data and tables inside an HTML page, and pages from templates. */
#ifndef CLI_HTML_H
#define CLI_HTML_H

#include <stdio.h>

#include "table.h"

/* Text between tags or in a quoted attribute. Bytes that are not UTF-8 become U+FFFD, control characters a space. */
void html_text(FILE *file, const char *text);

/* A JSON string, quotes included, that may stand inside <script>: no '<' survives, so nothing in it ends the script or
   opens a comment. */
void html_json_string(FILE *file, const char *text);

/* Like table_print; rows that were disturbed have a class of their own. `links`: the first cell of row i links to
   #vI. Else a wide table shows the columns that a reader needs first, and the others are folded. */
void html_table_put(FILE *file, const json_t *rows, const column *columns, int links);

/* A list of a row's columns, but for those that it has nothing of. */
void html_facts_put(FILE *file, const json_t *row, const column *columns);

/* What `put` writes, as a text for free(). */
int html_keep(void (*put)(FILE *file, const void *context), const void *context, char **text);

/* Copy a template; each {{name}} in it is replaced by its row's text, or by what that writes. The table ends with a
   NULL name; every mark must be in it. */
typedef struct html_mark {
    const char *name, *text;
    void (*write)(FILE *file, const void *context);
} html_mark;
void html_fill(FILE *file, const char *page, const html_mark *marks, const void *context);

#endif
