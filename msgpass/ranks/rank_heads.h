/* rank_heads.h: gradients of a run whose ranks share the heads. Nothing of a gradient passes from one key/value head
   to another. So each rank is sent all rows of its heads, runs them backward as one process does, with any solver,
   and sends rows of gradients to the ranks that own them. The order of sums is found for all heads, whichever rank
   has them: gradients have the bits of one process. Where there are more ranks than key/value heads some have none,
   and only send and receive.

   rank_heads.c    what all ranks have and require; tensors with all rows of the heads here; sums of tables
   rank_swap.c     rows of all heads become all rows of some heads, and back */
#ifndef HGA_GRADIENT_RANK_HEADS_H
#define HGA_GRADIENT_RANK_HEADS_H

#include "gradient.h"
#include "plan.h"
#include "ranks.h"

/* Numbers that are gathered at once. */
enum { GATHERED = 4096 };

/* What a rank brings and wants, or all of them together: of tensors that have no rows nothing is known. */
enum { TYPE_UNKNOWN = 0xff };
typedef struct head_wish {
    int64_t entries[HGA_N_TABLES];
    int64_t accumulate;
    uint32_t grads, d_lse;                                  /* requested: bit f, the gradient of field f */
    uint8_t type[HGA_FIELD_SLOTS], d_type[HGA_FIELD_SLOTS]; /* hga_dtype */
} head_wish;

typedef struct head_call {
    sharing shared;       /* first */
    const hga_plan *plan; /* the rank's */
    head_wish all;
    hga_io io;        /* all rows of the heads here; after lay_out_tensors their memory */
    hga_grad_io grad; /* likewise */
    float *lse;       /* the tape's, [rows of out][heads here] */
    void *buffer;     /* the rank's rows of an array, of the other heads */
    hga_packet *send, *receive;
    double *mine, *gathered; /* of tables */
} head_call;

/* The rank has key/value heads [*first, end); returns end. */
hga_id heads_of_rank(const hga_plan *plan, hga_id rank, hga_id *first);

/* ---- rank_swap.c ---- */

/* Rows of a field, with so many columns: the rank's own, of all heads, and all rows, of the heads here. `mine` without
   data is zeros, or is not requested. */
typedef struct head_swap {
    const head_call *of;
    hga_id field, heads, columns;
    const hga_tensor *mine, *here;
} head_swap;

/* The capacity of `send` and of `receive`: runs of owned nodes + ranks * those of them that are here. */
int64_t swap_packets(const hga_plan *plan);
/* Bytes of the rank's rows of a field in other ranks' heads: input_n * (heads - heads here) * columns * number. */
int64_t swap_bytes(const hga_plan *plan, hga_id field, hga_id heads, hga_id columns, size_t number);
/* Sends the rank's own rows to the ranks that have their heads; receives all rows of the heads here. */
hga_status swap_to_heads(const head_swap *s);
/* Sends all rows of the heads here to the ranks that own them; receives the rank's own rows of all heads. */
hga_status swap_to_rows(const head_swap *s);

#endif
