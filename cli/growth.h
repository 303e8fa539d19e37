/* growth.h: time against length: every variant on growing prefixes of a text, with dense attention beside it. */
#ifndef CLI_GROWTH_H
#define CLI_GROWTH_H

#include "contest.h"
#include "measure.h"
#include "progress.h"

enum { MAX_LENGTHS = 6, GROWTH_SHORTEST = 256 };

/* What was read, and how it is run. */
typedef struct growth_text {
    scene_text text;
    hga_id words;
    hga_shape shape;
    hga_options options;
} growth_text;

/* Seconds of an execution, of contender i on the first length[j] words in seconds[i * MAX_LENGTHS + j]; 0: not
   measured. */
typedef struct growth {
    int n_lengths, n_contenders;
    hga_id length[MAX_LENGTHS];
    double *seconds;
} growth;

/* The lengths, ascending: the text's and its halves. */
int growth_start(hga_id words, growth *out);
/* The last length is the run's own: what contender i took there. */
void growth_set_last(growth *g, size_t i, double seconds);
/* Measure all shorter lengths. */
int growth_measure(const growth_text *t, growth *g, progress *bar);
/* How long a variant is repeated on each. */
bench_rules growth_rules(void);
void growth_clear(growth *g);

/* From which length on contender i takes less time than dense attention of its kind: between two measured lengths by a
   straight line between logarithms; the shortest length when it is faster there already (*at_once), 0 when it is slower
   at the longest. */
double growth_crossover(const growth *g, size_t i, int *at_once);

/* Seconds of contender i on the first length[l] words. */
double *growth_time(const growth *g, size_t i, int l);
/* The contender that is dense attention with the same mask. */
size_t growth_dense(size_t i);

#endif
