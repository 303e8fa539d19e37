/* inspect_row.h: what one token attends to, and how much. */
#ifndef CLI_INSPECT_ROW_H
#define CLI_INSPECT_ROW_H

#include <jansson.h>

#include "graph_file.h"
#include "row_weights.h"

typedef struct row_wish {
    const char *path; /* of the graph, for complaints */
    const char *name; /* of the token; NULL: by its number */
    hga_id token;
    weighing by; /* without a query there are no weights */
    int sort;    /* heaviest first */
} row_wish;

/* The token that `text` is the number or the name of; a name is looked up when the graph is there. */
int row_wish_read(const char *text, row_wish *wish);
int row_document(const graph_file *f, const row_wish *wish, json_t **out);
int row_print(const json_t *row);

#endif
