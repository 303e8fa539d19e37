/* hga_call.h: the tables of a call besides rows of queries, keys and values, declared once. Each table is a row. The
   members of hga_io and hga_grad_io, the checks and their messages, the tool's options, Python's keywords and a
   program's JSON are made from it; a test compares the docs with it. */
#ifndef HGA_CALL_H
#define HGA_CALL_H

#include "hga_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tables that a call may have, as members of hga_io and, with d_ before them, of hga_grad_io; hga_program.h has the
   formula. New ones come at the end. */
#define HGA_CALL_TABLES(X)                                                                                   \
    X(SCALE, scale)                     /* a number, the factor of products of queries and keys */           \
    X(REL_KEY, rel_key)                 /* [types][dim], added to keys, shared by heads */                   \
    X(REL_BIAS, rel_bias)               /* [types][heads], added after scaling */                            \
    X(EDGE_BIAS, edge_bias)             /* [edges][heads or 1], of the attended relation, canonical order */ \
    X(NODE_POS, node_pos)               /* [nodes][pos_dim] */                                               \
    X(TYPE_SCALE, type_scale)           /* [types], of weighted sums */                                      \
    X(SINK, sink)                       /* [heads]: a denominator gains e^sink; -inf: none */                \
    X(SLOPES, slopes)                   /* [heads], at least 0: a score loses slope times the distance */    \
    X(ADDITIVE, additive)               /* [heads][dim]: a of additive scores; ones without it */            \
    X(SOFTCAP, softcap)                 /* a number C: C tanh(content / C), before biases; 0: none */        \
    X(NORMALISER_BIAS, normaliser_bias) /* a number: B of sigmoids */                                        \
    X(LOG_MASS, log_mass)               /* [nodes]: of the graph, no call has it; it has a gradient */       \
    X(EDGE_KEY, edge_key)               /* [edges][n_kv_heads * dim], added to keys, as edge_bias */         \
    X(EDGE_VALUE, edge_value)           /* [edges][f]: hga_io.edge_out */

/* HGA_TABLE_SCALE and so on: index of the table in hga_io.table and hga_grad_io.d_table, row of hga_call_tables(). */
#define HGA_CALL_NUMBER(NAME, name) HGA_TABLE_##NAME,
typedef enum hga_call_table { HGA_CALL_TABLES(HGA_CALL_NUMBER) HGA_N_TABLES } hga_call_table;
#undef HGA_CALL_NUMBER
enum { HGA_MAX_TABLES = 24 };

/* A table [rows][columns] of yours, borrowed for the call; data NULL: the call does not have it. Set `rows` where they
   are types, edges or nodes, and `columns` where you may choose their number (one for all heads, say); elsewhere 0
   means as many as the call needs. A number is a table of one entry. */
typedef struct hga_table {
    const float *data;
    int64_t rows;
    hga_id columns;
    hga_id reserved; /* 0 */
} hga_table;

/* How many rows or columns a table has. */
typedef enum hga_extent {
    HGA_EXTENT_ONE,
    HGA_EXTENT_DIM,          /* hga_shape.dim */
    HGA_EXTENT_HEADS,        /* hga_shape.n_heads */
    HGA_EXTENT_HEADS_OR_ONE, /* one for all heads, or one for each */
    HGA_EXTENT_POS_DIM,      /* hga_shape.pos_dim */
    HGA_EXTENT_TYPES,        /* of edges, at least as many as the relation has */
    HGA_EXTENT_EDGES,        /* of the attended relation, in canonical order */
    HGA_EXTENT_NODES,
    HGA_EXTENT_KEYS,   /* hga_shape.n_kv_heads * hga_shape.dim */
    HGA_EXTENT_COLUMNS /* as many as you say, at least 1 */
} hga_extent;

/* Properties of a row. */
enum {
    HGA_CALL_GRADIENT = 1,     /* has a gradient, hga_grad_io.d_table */
    HGA_CALL_OF_GRAPH = 2,     /* the graph has it, not the call, which can only get its gradient */
    HGA_CALL_NEEDS_SCORES = 4, /* means nothing where no stage computes scores */
    HGA_CALL_NEEDS_SUMS = 8,   /* means nothing where no stage has weighted sums */
    HGA_CALL_NEEDS_LSE = 16,   /* means nothing where the output has no log-sum-exp */
    HGA_CALL_NO_ENERGY = 32,   /* means nothing where scores are those of an energy */
    HGA_CALL_NO_PRODUCT = 64,  /* means nothing where scores are products */
    HGA_CALL_NEEDS_BIAS = 128, /* means nothing where the normaliser has no bias */
    /* where the table means nothing a call with it is refused (HGA_EUNSUPPORTED), unless it is a number that is 0;
       without this flag the table is ignored there */
    HGA_CALL_IS_REFUSED = 256,
    HGA_CALL_BY_VARIANT = 512, /* a parameter of the variant sets it: the tool has no option of that name */
    HGA_CALL_BY_WORD = 1024,   /* the normaliser's word sets it: the tool has no option of that name */
    HGA_CALL_IS_PLAIN = 2048,  /* only the plain semantics supports it: plans with options.generic accept it */
    /* means nothing where tokens have no positions (hga_graph_positions) */
    HGA_CALL_NEEDS_POSITIONS = 4096,
    /* changes scores otherwise than by adding terms of an edge or a node: fewer solvers support it */
    HGA_CALL_BENDS = 8192
};

typedef struct hga_call_row {
    const char *name;   /* NULL ends the table. As messages have it; a keyword of Python's, a member of JSON */
    const char *option; /* the tool's --OPTION and --grad-OPTION */
    hga_extent rows, columns;
    unsigned is;         /* HGA_CALL_GRADIENT and the others of that list */
    size_t standard;     /* offset of a float in hga_program for calls that do not have it, or HGA_NOWHERE */
    const char *member;  /* that float in a program's JSON */
    double least, most;  /* no entry is outside, but for `none` */
    double none;         /* the entry that may be outside; NaN: there is none */
    const char *numbers; /* that, in words: "finite and at least 0"; NULL: entries are not checked */
    const char *says;    /* one line */
} hga_call_row;

/* The rows of all tables that a call may have, by their numbers (hga_call_table); one whose name is NULL ends them.
   Static. */
HGA_API const hga_call_row *hga_call_tables(void);
/* Find the row of a table by its name, with - for _ or not; NULL without. */
HGA_API const hga_call_row *hga_call_table_named(const char *name);
/* The word for an extent: "types" for HGA_EXTENT_TYPES. Static. */
HGA_API const char *hga_extent_name(hga_extent extent);

#ifdef __cplusplus
}
#endif
#endif
