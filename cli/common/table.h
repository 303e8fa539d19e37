/* table.h: tables. Rows are JSON objects, so that the text and --json show the same numbers. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <jansson.h>
#include <stdio.h>

#include "complain.h"

enum { TABLE_SCHEMA = 1 };

/* A column shows the member `key`. `format` is printf's for a real such as "%.2f", or NULL for whole numbers, texts and
   truths; `scale` multiplies reals before they are shown (0: 1). */
typedef struct column {
    const char *key, *heading, *format;
    double scale;
} column;

/* What a cell shows, and whether a column of these rows is left aligned, as texts are. */
enum { TABLE_CELL = 96 };
void table_cell(const json_t *row, const column *c, char text[static TABLE_CELL]);
int table_stands_left(const json_t *rows, const column *c);

/* Columns end with a NULL key. A member that is null or missing shows as "-". */
int table_print(FILE *file, const json_t *rows, const column *columns);

/* Prints a document on `file`, with "schema" first. Takes over the reference; NULL means that memory ran out. The
   caller that opened a file other than standard output reports why it could not be written. */
int json_print(FILE *file, json_t *document);

/* A member of a row: "" without a text, 0 without a number. */
const char *row_text(const json_t *row, const char *key);
double row_number(const json_t *row, const char *key);
long long row_whole(const json_t *row, const char *key);
int row_is(const json_t *row, const char *key);
/* The number of rows where it is true. */
size_t rows_that_are(const json_t *rows, const char *key);
/* Do two rows have the same in all members, whose names have blanks between them? */
int rows_agree(const json_t *a, const json_t *b, const char *keys);
/* Does no row before row `at` agree with it? */
int row_is_first(const json_t *rows, size_t at, const char *keys);

/* Appends a row, whose reference it takes over; NULL means that memory ran out. */
int row_append(json_t *rows, json_t *row);

/* A real, or null where it is NaN or infinite. */
json_t *json_number(double value);
/* Words with blanks between them, as an array. */
json_t *json_words(const char *words);

#endif
