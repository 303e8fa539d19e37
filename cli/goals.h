/* goals.h: the project's performance goals, of bench/goals.json, measured in one run. */
#ifndef CLI_GOALS_H
#define CLI_GOALS_H

#include "bench_run.h"

#include <math.h>

/* One run of the table. */
typedef struct goals_run {
    /* what all cases share: options, peaks, seconds, dry_run; options.threads is what a case has that does not say */
    bench_place place;
    hga_id most_tokens; /* lengths are cut to it; 0: as the goals say */
    const char *only;   /* cases whose name has it; NULL: all */
    json_t *rows;       /* every measurement, peers included, in the schema of bench_report.h */
    /* a row each: case, goal, at_least, unit, reached, reached_in_passes, differs, met, peer, peer_value, note, .. */
    json_t *goals;
    /* while it runs: the pass, its measurements, and those that no table shows */
    int pass;
    json_t *pass_rows, *hidden;
    int failed; /* peers whose results were wrong */
} goals_run;

/* Measure all cases and fill both arrays. A name that no case has is CLI_USAGE. */
int goals_measure(goals_run *r);
/* Such rows as the table shows them, numbers with their units; and the table's columns, without and with
   --dry-run. */
json_t *goals_as_text(const json_t *measured);
extern const column goals_columns[], goals_dry_columns[];

/* ---- members of a row: NULL, NaN where there is none ---- */

static inline const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static inline double number_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

#endif
