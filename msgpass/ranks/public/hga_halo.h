/* hga_halo.h: what ranks of a distributed run send each other. Each rank has a range of the tokens and computes the
   rows of the nodes above them. This header says which rows of which fields it then lacks, which rank has them, and how
   many bytes they are, exactly for any graph and program. It sends nothing: you provide the transport. */
#ifndef HGA_HALO_H
#define HGA_HALO_H

#include "hga_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `to` of a transfer that every other rank receives. */
enum { HGA_EVERY_RANK = -1 };

/* Rows of one field, of nodes [first, first + n), which rank `from` owns and rank `to` reads. */
typedef struct hga_transfer {
    hga_id from, to;
    hga_id field, first, n;
    hga_id written_by; /* the last stage that has written to the field by then; -1: the rows are the caller's */
    hga_id read_by;    /* the first stage that reads them */
    int64_t bytes;     /* n rows of float32; of a state with its log-sum-exp */
} hga_transfer;

/* A run of a shared row's edges that one rank computes. Splits of a row follow each other in the order of its edges;
   merged they are the row (hga_merge_states). */
typedef struct hga_split {
    hga_id rank; /* HGA_EVERY_RANK: all ranks have its sources, and compute it */
    hga_id stage, node;
    hga_pos n_edges;
    int64_t bytes; /* which every other rank receives: a state in float32, or sums of all columns and of the factors in
                      double; 0 where all compute it */
} hga_split;

/* What one rank does in one execution. */
typedef struct hga_rank_load {
    hga_id n_tokens, n_nodes; /* owned */
    hga_pos n_edges;          /* of all stages: of owned rows, of shared rows, of its splits */
    int64_t rows_in, bytes_in, messages_in;
    int64_t rows_out, bytes_out, messages_out; /* rows and bytes to every rank: counted once for each */
} hga_rank_load;

typedef struct hga_halo_list {
    hga_id n_ranks;
    hga_id n_shared;  /* nodes whose tokens belong to several ranks: every rank computes them */
    hga_id n_gathers; /* stages for which every rank sends rows, or splits, to every other one */
    int64_t n_transfers, n_splits;
    hga_transfer *transfer; /* by field, written_by, to, first; no row twice for one receiver */
    hga_split *split;       /* by stage, node, its first edge */
    hga_rank_load *load;    /* [n_ranks] */
    int64_t capacity[2];    /* of the arrays */
    hga_allocator allocator;
} hga_halo_list;

/* List what ranks send each other. Rank r owns tokens [cuts[r], cuts[r + 1]) (node ids of level 0; cuts[0] = 0,
   cuts[n_ranks] = the number of tokens, ascending; a rank may own none) and every node whose span lies within. A node
   whose span crosses a cut, or that has none, is shared: every rank computes its row, from rows that all ranks receive.
   A row that alone has its sources, as a span has its tokens, is cut into splits (of 64 edges; sums of 512). The rank
   that owns most of a shared split's sources receives the others and computes it; all ranks receive the results of
   neighbouring splits and merge them. Cuts at multiples of 64 cross no split of a span that begins at one.

   Messages: what one rank sends another for one stage is one message. What all ranks send to all ranks for one stage is
   one gather, whose messages depend on your transport and are not counted. HGA_EINVAL names a cut that is wrong,
   HGA_EUNSUPPORTED: queries and keys are different tokens. What a call reads beside tensors of rows (tables of types,
   biases of edges, embeddings of nodes) every rank has already. Clear *out with hga_halo_clear; after an error it is
   empty. Any number of threads may call. */
HGA_API hga_status hga_halo(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_id *cuts,
                            hga_id n_ranks, hga_halo_list *out);
/* Free what hga_halo listed. */
HGA_API void hga_halo_clear(hga_halo_list *list);

#ifdef __cplusplus
}
#endif
#endif
