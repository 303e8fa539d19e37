/* stage_semantics.h: the row of every kind of stage, for one head, and its adjoint. */
#ifndef HGA_STAGE_SEMANTICS_H
#define HGA_STAGE_SEMANTICS_H

#include "score.h"
#include "values.h"

/* Scratch for a row: by edge, with one more element for the row's old value; and rows of numbers. */
typedef struct plain_scratch {
    int64_t n, columns; /* capacity in edges, that one more included; columns of the widest field */
    double *score, *count, *weight, *slope, *d_count;
    double *own, *source, *out;
} plain_scratch;

/* Grows a row's scratch where needed, for so many edges and columns; contents are lost where it grows. */
hga_status plain_scratch_fit(plain_scratch *scratch, const hga_allocator *a, int64_t edges, hga_id columns);
/* Frees scratch that plain_scratch_fit allocated. */
void plain_scratch_clear(plain_scratch *scratch, const hga_allocator *a);
/* Bytes of scratch for so many edges and columns. */
int64_t plain_scratch_bytes(int64_t edges, hga_id columns);
/* Scratch in memory of plain_scratch_bytes, which it borrows. */
plain_scratch plain_scratch_at(void *memory, int64_t edges, hga_id columns);
/* Columns of a program's widest field. */
hga_id widest_columns(const hga_shape *s);

/* The current row. */
typedef struct stage_row {
    const semantics *m;
    const hga_stage *stage;
    stage_kind kind;
    hga_id s, v, head;
    const row_edge *edge; /* [n] */
    int64_t n;
    const field_values *values; /* of all fields */
    const field_values *was;    /* of this row before the stage */
    plain_scratch scratch;
    /* The results of `weigh`: a row is the sum of weight[i] times the source of edge i, and of weight[n] times the
       row's own value. Edges with a score of -inf add nothing, whatever their sources hold; energies are no sums, and
       their weights are 0. count: the number of tokens that an edge counts for, in stages that attend or spread */
    double lse;  /* of a state */
    double rest; /* descend: the keep value; energy: psi */
} stage_row;

/* The arrays to which a row's gradients are added. */
typedef struct row_gradients {
    const doubles *d;
    const table_sums *sums;
    const float *d_edge_out; /* the caller's gradient of the row's edge_out; NULL: none */
} row_gradients;

/* A kind of stage. */
typedef struct stage_semantics {
    stage_role source, own;                                /* whose rows are summed: the sources', and the row's own */
    void (*weigh)(stage_row *r);                           /* computes their weights */
    void (*row)(stage_row *r);                             /* computes the row and writes its values */
    void (*adjoint)(stage_row *r, const row_gradients *g); /* adds the row's gradient to its operands, and
                                                              replaces it by that of the row's old value */
} stage_semantics;

/* By kind; a user's stage has no row. */
extern const stage_semantics all_stage_semantics[N_KINDS];

/* out[columns] = the row, once it is weighed. */
void row_add_up(const stage_row *r, hga_id columns, double *out);
/* Column c of its edge_out. */
double row_add_features(const stage_row *r, hga_id c);

#endif
