/* explain_ranks.h: what a run on several machines would cost: hga explain VARIANT --tokens N --ranks P[,P..]. */
#ifndef CLI_EXPLAIN_RANKS_H
#define CLI_EXPLAIN_RANKS_H

#include "variant.h"

enum { MAX_RANK_COUNTS = 32, MAX_RANKS = 65536 };

/* The options, and the network that a message crosses. */
typedef struct rank_question {
    hga_id ranks[MAX_RANK_COUNTS];
    int n;
    double latency_us, gbits; /* of a message; of a rank's link */
    hga_id threads;           /* of a rank */
    const char *picture;      /* NULL: none */
} rank_question;

/* --ranks, --latency, --gbits, -o: input is a rank_question, zeroed. */
extern const option_list ranks_list;

/* Prints the table, or JSON; and writes the picture. */
int explain_ranks(const typed_variant *typed, const hga_shape *shape, const hga_options *options,
                  const rank_question *question, int json);

#endif
