/* measured.h: a measurement as members of a table's row, the same in every command that measures. */
#ifndef CLI_MEASURED_H
#define CLI_MEASURED_H

#include "arguments.h"

#include "measure.h"
#include "peaks.h"
#include "table.h"

/* plan_seconds, seconds (median), seconds_min, seconds_q1, seconds_q3, seconds_spread, repeats, threads, cpu_over_wall
   (processor time over wall time per thread), disturbed, and mark ("!" where disturbed, else ""). */
json_t *measured_json(const bench_measurement *m);
/* A share of what the machine allows; null of more than all, as then the limit was disturbed, and not the time. */
json_t *measured_share(double share);
/* Given the greatest share in the row: if it is above 1, sets limit_disturbed, and mark "!". */
json_t *measured_within(json_t *row, double greatest);
/* The rows of a document that was written before, treated the same: shares above 1 become null. */
void measured_hold(json_t *rows);
/* A row of them for the peaks of an instruction set. */
json_t *measured_peaks_json(const char *isa, const bench_peaks *p);

/* Seconds of executions that are repeated until stable, within a budget, where one takes `once`. */
double measured_expected(const bench_rules *rules, double once);

/* The columns of trust, the same in every table. */
#define MEASURED_COLUMNS \
    {"cpu_over_wall", "cpu/wall", "%.2f", 0}, { "mark", "", NULL, 0 }
/* Prints below a table what "!" means, and how many of its rows have it; nothing if none has. */
void measured_explain(FILE *file, const json_t *rows);

/* --seconds, --min-time, --repetitions, --warmup: input is a bench_rules. */
extern const option_list rules_list;

/* Adds all members of `more` to `row`; takes over both references, and returns NULL when memory ran out. */
json_t *json_joined(json_t *row, json_t *more);

#endif
