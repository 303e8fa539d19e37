/* bench_report.h: a benchmark's rows as JSON in Google Benchmark's schema, and where each variant overtakes dense. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "measured.h"

/* One case and what was measured. */
typedef struct bench_row {
    const char *variant, *parameters, *isa, *precision;
    hga_id tokens, nodes;
    int relative; /* keys */
    hga_shape shape;
    double graph_seconds;
    double over_forward; /* of a gradient: its time over that of the execution beside it; else 0 */
    double estimated_seconds, estimated_case_seconds; /* of a dry run: of one execution, and of all of it; 0: unknown */
    int64_t tensor_bytes, peak_rss_bytes;
    bench_measurement m;
    hga_peaks peaks;
} bench_row;

/* The members of a row that Google's tools read: its name, whose reference is taken over, and seconds. */
json_t *bench_google_json(json_t *name, hga_id threads, int iterations, double wall, double processor);
/* "hsa:branching=4/tokens:64/heads:8/.." */
json_t *bench_row_name(const char *before, const bench_row *r);
/* A row in the schema that Google Benchmark's compare tool reads, with our columns beside; times in milliseconds. */
json_t *bench_row_json(const bench_row *r);
/* The same before anything ran: what is known of work and memory, estimates, times 0. */
json_t *bench_dry_row_json(const bench_row *r);
/* The machine, the date and the program. */
json_t *bench_context_json(const char *program, json_t *peaks);
/* For each row on several threads, if there is one of the same case on a single thread: the speedup, the processor
   time over wall time of both, and a verdict, refused where one of the two was disturbed. */
json_t *bench_scaling(const json_t *rows);
/* For each variant and setting of the rows, the length from which on it is faster than dense. Rows that have their
   mask are compared with dense attention with the same. */
json_t *bench_overtakes(const json_t *rows);

#endif
