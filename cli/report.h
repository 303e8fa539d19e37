/* report.h: report.html of `hga run`: the table, each variant's pattern and plan, time against length, the machine.
   One file, readable without JavaScript, which only sorts its tables and shows tooltips. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "trial.h"
#include "picture.h"
#include "table.h"

/* What the report says of one contender. */
typedef struct report_case {
    picture whole, start; /* the pattern on the whole text and on its first words, counted into cells */
    char *plan;           /* what hga_plan_explain says; hga_text_free */
    char *view;           /* the graph for the viewer, without the words' names; for free() */
} report_case;

/* The input is borrowed; what is made here is the report's own. */
typedef struct report {
    hga_id threads, kl_words;
    const contenders *all;
    const json_t *rows; /* of the table */
    const column *columns;
    const json_t *levels; /* what the text is made of: kind -> number */
    const typed_call *call;
    const hga_peaks *peaks;
    const scene_text *source;
    const scene *all_words;
    scene first_words;
    json_t *growth;     /* growth_row: of the whole text, then of its prefixes */
    report_case *cases; /* one a contender */
} report;

/* "2048 words in 5 chapters, 93 sentences; 8 heads x 64", whose kinds `put` escapes. */
void report_summary(FILE *file, const scene_text *source, const json_t *levels, void (*put)(FILE *, const char *));

/* Allocates the contenders. */
int report_start(const scene_text *source, const contenders *all, report *out);
/* trial_setup.look, its context a report: the contender's pattern on the whole text and on the first words, its
   plan. */
int report_case_fill(void *report, const contender *c, const hga_graph *g, const hga_program *p, const hga_plan *plan);
/* Write what was collected, once the prefixes are measured. */
int report_write(const report *r, const char *path);
void report_clear(report *r);

/* ---- report_findings.c: the results of a run in a few sentences ---- */

/* Of a report: which variant is fastest, which is nearest to dense attention, and which rows were disturbed. */
void findings_put(FILE *file, const void *report);
/* The length from which on variants are faster than dense attention (bench_overtakes): one sentence, and the
   exceptions. */
void findings_put_crossovers(FILE *file, const json_t *overtakes, hga_id shortest, hga_id longest);

#endif
