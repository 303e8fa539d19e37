/* inspect_look.h: what hga inspect shows of a whole graph. */
#ifndef CLI_INSPECT_LOOK_H
#define CLI_INSPECT_LOOK_H

#include <jansson.h>

#include "graph_file.h"

/* As typed. */
typedef struct look_wish {
    const char *path; /* what messages call the graph */
    hga_shape shape;
    hga_options options;
    int causal, all_layers;
} look_wish;

/* Makes the members of the document that --json shows; prints it on standard output. */
int look_document(const look_wish *a, const graph_file *f, json_t *document);
int look_print(const json_t *document);

#endif
