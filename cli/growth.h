/* growth.h: time against length: every variant on growing prefixes of a text, with dense attention beside it. */
#ifndef CLI_GROWTH_H
#define CLI_GROWTH_H

#include "progress.h"
#include "trial.h"

enum { MAX_LENGTHS = 6, GROWTH_SHORTEST = 256 };

/* What was read, and how it is run. */
typedef struct growth_text {
    scene_text text;
    hga_id words;
    hga_shape shape;
    hga_options options;
} growth_text;

/* The lengths, ascending: the text's and its halves; their number. */
int growth_lengths(hga_id words, hga_id length[static MAX_LENGTHS]);
/* How long a variant is repeated on each. */
bench_rules growth_rules(void);
/* A row of what was measured on so many words, for bench_overtakes and bench_chart_time; NULL: no memory. */
json_t *growth_row(const contender *c, const trial *t, hga_id words);
/* Rows of all shorter lengths. */
int growth_measure(const growth_text *t, const contenders *all, json_t *rows, progress *bar);

#endif
