/* bench_output.h: where a benchmark's document goes. */
#ifndef CLI_BENCH_OUTPUT_H
#define CLI_BENCH_OUTPUT_H

#include "arguments.h"
#include <jansson.h>

/* Paths, NULL where nobody asked; "-" is standard output, which then has no tables. */
typedef struct bench_output {
    const char *json, *csv, *markdown, *report;
} bench_output;

/* --json, --csv, --markdown, --report: input is a bench_output. Nobody should wait for minutes to hear that a file has
   no place; two outputs on standard output are CLI_USAGE. */
extern const option_list bench_output_list;

/* Tables on standard output unless a file goes there, and the files. */
int bench_output_write(const bench_output *o, const json_t *document);

#endif
