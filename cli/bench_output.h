/* bench_output.h: where a benchmark's document goes. */
#ifndef CLI_BENCH_OUTPUT_H
#define CLI_BENCH_OUTPUT_H

#include "table.h"
#include "arguments.h"
#include <jansson.h>

/* Paths, NULL where not requested; "-" is standard output, which then has no tables. */
typedef struct bench_output {
    const char *json, *report;
} bench_output;

/* --json, --report: input is a bench_output. Files that cannot be opened are refused before anything is measured;
   two outputs on standard output are CLI_USAGE. */
extern const option_list bench_output_list;

/* ---- bench_tables.c: the document as tables ---- */

enum { BENCH_MOST_TABLES = 5 };

typedef struct bench_table {
    const char *title;
    const column *columns;
    json_t *rows; /* the document's */
} bench_table;

/* The tables that a document has rows for; returns their number. */
int bench_tables_of(const json_t *document, bench_table out[static BENCH_MOST_TABLES]);

/* Prints all of them on the terminal. */
int bench_tables_print(const json_t *document);

/* Writes the files, and prints tables on standard output unless a file goes there. */
int bench_output_write(const bench_output *o, json_t *document);

#endif
