/* bench_html.h: a benchmark's document as a page: plots of time against length and of the share of peak, the tables,
   the machine. One file, readable without JavaScript, on a phone, in the dark. */
#ifndef CLI_BENCH_HTML_H
#define CLI_BENCH_HTML_H

#include <jansson.h>
#include <stdio.h>

int bench_html_put(FILE *file, const json_t *document);

#endif
