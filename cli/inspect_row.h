/* inspect_row.h: what one token attends to, and how much. */
#ifndef CLI_INSPECT_ROW_H
#define CLI_INSPECT_ROW_H

#include <jansson.h>

#include "attend_io.h"
#include "graph_file.h"

typedef struct row_wish {
    const char *path; /* of the graph, for complaints */
    hga_id token;
    attend_paths tensors; /* query and key, or neither; the others only with them */
    double scale;         /* 0: the program's */
    int sort;             /* heaviest first */
} row_wish;

int row_document(const graph_file *f, const row_wish *wish, json_t **out);
int row_print(const json_t *row);

#endif
