/* rank_call.h: gradients of a run that several ranks share. A rank goes back through the rows that it computes, its own
   and the shared ones, of which every rank has copies. The output's gradient enters once: of a shared row at the first
   rank. What a rank asks of rows that it has received goes home to the rank that sent them, and is added there in the
   order of the ranks; so gradients are sums of the same numbers as in one process, in another order.

   rank_call.c     tensors with places for all nodes, of which a rank fills those that it has
   rank_home.c     what goes home
   rank_sums.c     what every rank has a part of: tables, and shared rows of tensors */
#ifndef HGA_GRADIENT_RANK_CALL_H
#define HGA_GRADIENT_RANK_CALL_H

#include "gradient.h"
#include "ranks.h"

/* Numbers that are gathered at once. */
enum { GATHERED = 4096 };

typedef struct rank_call {
    hga_io io;             /* what the caller brings, rows at their nodes' places, received ones too */
    hga_grad_io grad;      /* gradients likewise, of float32, all that there are */
    float *lse;            /* the tape's, at the places of the output's rows */
    const char *halo;      /* what was received, see tape_received */
    char *sent, *received; /* gradients on their way */
    hga_packet *packet;
    double *mine, *all; /* [GATHERED], [n_ranks][GATHERED] */
} rank_call;

/* Does the call look at node v's row of a field? */
static inline int call_has_row(const gradient_call *c, hga_id field, hga_id v)
{
    return !c->plan->ranks || c->plan->ranks->has[v] >> field & 1u;
}

/* rank_call.c: memory, measured or handed out; then the call is given the whole tensors in place of the rank's own. */
void rank_lay_out(const hga_plan *plan, rank_call *r, carver *room);
/* What a call with such memory would bring and want, for its needs; the numbers' places are not known yet. */
void rank_describe(gradient_call *c, rank_call *r);
void rank_open(gradient_call *c, rank_call *r, const hga_io *io, const hga_grad_io *given);
/* What is asked of rows that others gave goes home; all that is asked of the rank's own to where it is wanted. */
hga_status rank_return_given(gradient_call *c);
void rank_store(const gradient_call *c, const hga_grad_io *wanted);

/* rank_sums.c: do ranks i and k want the same tables? Do all? Sums of all ranks, in their order. */
hga_status ranks_same_tables(const int64_t *entries_i, const int64_t *entries_k, hga_id i, hga_id k);
hga_status rank_agree(const gradient_call *c, const rank_call *r);
hga_status rank_sum_tables(const gradient_call *c, const rank_call *r);
hga_status rank_sum_shared(const gradient_call *c, const rank_call *r);

/* ---- rank_home.c ---- */

/* How numbers of a row lie in a message, as a way has them for the heads at hand: `floats` of a field; the gradient
   of node v's row goes to a parcel and is asked no more here, or is added from one. */
typedef struct row_mover {
    void *context;
    int64_t floats[HGA_FIELD_SLOTS];
    void (*take)(void *context, hga_id field, hga_id v, float *parcel);
    void (*add)(void *context, hga_id field, hga_id v, const float *parcel);
} row_mover;

/* What is due before rows of the stage (of a level, see rank_return) go back; stage -1: of the caller's rows. */
hga_status return_gradients(const gradient_call *c, hga_id stage, hga_id level, const row_mover *m);
/* Rows that were received: of the program's own; or of the callers', which ways find in the tensors. `put` gets all
   heads of each, of a state with the log-sum-exp behind each head's. */
typedef void (*row_visit)(void *context, hga_id field, hga_id v, const float *row);
void each_received(const gradient_call *c, void *context, row_visit put);
void each_received_given(const gradient_call *c, void *context, row_visit put);

#endif
