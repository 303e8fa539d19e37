/* hga_exchange.h: ranks, which are processes that share a run, and how they communicate. The engine knows ranks,
   channels and messages, not what carries them: an hga_exchange is one rank's end of a transport, which hga_dist.h or
   you provide.

   All ranks make the same plan, of the whole graph, with the same cuts (hga_ranks, which hga_options.ranks points at):
   rank r owns tokens [cuts[r], cuts[r + 1]) and the nodes above them, as hga_halo says. hga_plan_create, _update,
   _execute and _gradient, and batches of these two, are then calls that all ranks make, in the same order: each
   computes its rows and sends what others need.

   Tensors hold the rank's rows alone: those of the nodes that it owns and of those that are shared, which every rank
   passes and gets, in the order of the nodes (hga_plan_rank_rows). Tables that are not rows (biases, embeddings) are
   whole on every rank. Rows have the bits that they have in one process, wherever cuts are, on machines that have the
   same instruction set (hga_options.isa names one for all). Plans that are not of the same graph, program, shape, cuts,
   options or instruction set are HGA_EINVAL, and so are calls of different kinds or plans, or with different seeds,
   layers, numbers of samples, or tables that are a number or have a row for each head. Numbers in other tables, and
   functions of your own, are not compared, and have to be the same.

   Where a rank fails in one of these calls, or in hga_workspace_create, the calls of all ranks that still wait return
   its status, and the exchange cannot be used again. A rank that needed nothing more of others may have returned
   HGA_OK; its next call fails. Not with options.rows, keep_fields and decoders (HGA_EUNSUPPORTED).

   Gradients: a rank passes its tape, its rows of the tensors and of d_out and d_lse. All ranks pass the same d_out of a
   shared row, which counts once. Each rank gets the gradients of its rows, of shared rows too, and every rank the whole
   gradients of tables, with the same bits. All request gradients of the same tables, else HGA_EINVAL; each chooses the
   tensors that it requests gradients of.

   In the backward pass heads are divided among ranks: rank r of P has key/value heads r n / P to (r + 1) n / P of n,
   rounded down, and their query heads. It receives all rows of them, runs backward as one process does, and sends
   gradients to the ranks that own the rows. Gradients have the bits of one process, whatever the cuts. Work and memory
   for rows are a P-th as long as P divides n; ranks beyond n have no head, and only send and receive. A rank sends its
   rows of the other heads (query, key, value, out where the solver reads it, d_out, log-sum-exps) and gets as many rows
   of each requested gradient, however few rows of others it reads forward; with `accumulate` what is added to is sent,
   too. Of tables that heads share every rank is sent a double an entry and head. All ranks have one dtype for a tensor,
   and for its gradient, and all accumulate or none does, else HGA_EINVAL.

   hga_plan_prepare does not communicate, and the first gradient may still allocate. All ranks pass equally many samples
   of a batch, which run one after another. There is no hga_plan_loss (HGA_EUNSUPPORTED). */
#ifndef HGA_EXCHANGE_H
#define HGA_EXCHANGE_H

#include "hga_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* On this channel ranks compare their calls with their neighbours', some bytes a call; rows use later channels. */
enum { HGA_CHANNEL_OF_CALLS = 0 };

/* Bytes to or from another rank. The caller's memory, which the transport has from `start` to the end of `wait`, or
   until a call returns that some rank has failed: it may be freed then. */
typedef struct hga_packet {
    hga_id rank;
    int64_t bytes;
    void *data;
} hga_packet;

/* One rank's end. One thread of the rank calls at a time. Every function but `fail` and `close` returns HGA_OK, or why
   not, with hga_error_detail(). */
typedef struct hga_exchange {
    size_t size; /* sizeof(hga_exchange) */
    hga_id rank, n_ranks;
    void *ctx; /* the context of the functions */
    /* Begins to send and to receive, and returns at once. On one channel the k-th start of a rank belongs to the k-th
       of every other rank. Of the messages between two ranks in these, the first that is sent is the first that is
       received, and has as many bytes. A channel starts again after its `wait`; different channels (0 and more) may be
       under way together. */
    hga_status (*start)(void *ctx, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                        hga_id n_receive);
    /* *done: 1 once `wait` would return at once. */
    hga_status (*test)(void *ctx, int channel, int *done);
    /* Returns when all that the channel receives has arrived, and what it sends may be written to. */
    hga_status (*wait)(void *ctx, int channel);
    /* Sends every rank's `bytes` bytes to every rank, in the order of ranks: all is [n_ranks][bytes], and `mine` is
       outside of it. All ranks call it with the same number of bytes. */
    hga_status (*gather)(void *ctx, const void *mine, int64_t bytes, void *all);
    /* This rank has failed: every other rank's pending and later calls return this status, so that none waits for what
       does not come. May be called more than once. */
    void (*fail)(void *ctx, hga_status status);
    void (*close)(void *ctx); /* frees what the end holds; see hga_dist_destroy */
} hga_exchange;

/* One rank of a run that several processes share; all of them plan with the same cuts. */
typedef struct hga_ranks {
    const hga_exchange *exchange; /* this rank's end, which outlives the plan; one plan executes on it at a time */
    const hga_id *cuts;           /* [n_ranks + 1], copied; HGA_EINVAL names a cut that is wrong */
    uint64_t reserved[4];         /* 0 */
} hga_ranks;

#ifdef __cplusplus
}
#endif
#endif
