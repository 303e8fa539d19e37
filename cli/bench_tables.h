/* bench_tables.h: what a benchmark's document says, as tables: for the terminal, as Markdown, as CSV. A document is
   what `hga bench --json` writes: context, benchmarks, and what follows from them. */
#ifndef CLI_BENCH_TABLES_H
#define CLI_BENCH_TABLES_H

#include "table.h"

enum { BENCH_MOST_TABLES = 5 };

typedef struct bench_table {
    const char *title;
    const column *columns;
    json_t *rows; /* the document's */
} bench_table;

/* The tables that a document has rows for; their number. */
int bench_tables_of(const json_t *document, bench_table out[static BENCH_MOST_TABLES]);

int bench_text_put(FILE *file, const json_t *document);
int bench_markdown_put(FILE *file, const json_t *document);
/* The benchmarks, a line each, a column for every member that any of them has; texts by RFC 4180. */
int bench_csv_put(FILE *file, const json_t *document);

#endif
