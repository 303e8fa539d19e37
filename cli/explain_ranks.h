/* explain_ranks.h: what a run on several machines would cost: hga explain VARIANT --tokens N --ranks P[,P..]. */
#ifndef CLI_EXPLAIN_RANKS_H
#define CLI_EXPLAIN_RANKS_H

#include "variant.h"

enum { MAX_RANK_COUNTS = 32, MAX_RANKS = 65536 };

/* What was asked, and the network that a message meets. */
typedef struct rank_question {
    hga_id ranks[MAX_RANK_COUNTS];
    int n;
    double latency_us, gbits; /* of a message; of a rank's link */
    hga_id threads;           /* of a rank */
    const char *picture;      /* NULL: none */
} rank_question;

/* What the busiest rank does in one execution: edges; rows, messages and bytes that it receives or sends, whichever are
   more. */
typedef struct rank_work {
    double edges, rows, messages, bytes;
} rank_work;

/* By hga_halo, of as many ranks as the tool makes. */
int ranks_count(const model *m, const hga_shape *shape, hga_id ranks, rank_work *out);
/* Seconds of an edge of all heads on one thread, all stages taken together, measured here and now. */
int ranks_rate(const model *m, const hga_shape *shape, const hga_options *options, double *edge_seconds);

/* --ranks, --latency, --gbits, -o: input is a rank_question, zeroed. */
extern const option_list ranks_list;

/* Prints the table, or JSON; and writes the picture. */
int explain_ranks(const typed_variant *typed, const hga_shape *shape, const hga_options *options,
                  const rank_question *question, int json);

#endif
