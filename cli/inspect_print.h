/* inspect_print.h: hga inspect's look at a whole graph, as text. */
#ifndef CLI_INSPECT_PRINT_H
#define CLI_INSPECT_PRINT_H

#include <jansson.h>

/* The document that --json shows, on standard output. */
int look_print(const json_t *document);

#endif
