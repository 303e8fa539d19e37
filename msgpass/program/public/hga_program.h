/* hga_program.h: what attention does on a graph. A program is plain data: fields (per-node values) and stages (one
   message-passing step each).

   A stage visits the rows (destinations) of its out field, gathers a message over each in-edge of its relation, reduces
   them and updates the row. The legal combinations and their semantics, for row v, sources u over edges e of weight w
   (default 1):

   stage         message   reduce    update   semantics
   mean          COPY      MEAN      REPLACE  out[v] = sum w m x[u] / sum w m, m = mass[u] if by_mass else 1; else 0
   sum           COPY      SUM       REPLACE  out[v] = sum w x[u]
   weighted sum  SCALED    SUM       REPLACE  out[v] = sum w type_scale[type(e)] x[u]
   attend        SCORE     SOFTMAX   REPLACE  the softmax state of the scores: O = sum p v[u], LSE = log sum e^s
   attend more   SCORE     SOFTMAX   MERGE    the same, merged into the present state
   spread        STATE     MERGE     MERGE    state[v] = merge of state[v] and every e^(log w) state[u]
   energy        ENERGY    MEAN      REPLACE  psi[v] = sum m log(e^psi[u] + e^LSE[u]) / sum m; -inf without edges
   descend       GATE      SUM       DESCEND  s = sigmoid(LSE[v] - psi[v]);  out[v] = out[u] + keep[u] s O[v];
                                              keep[v] = keep[u] (1 - s);  roots: out[u] = 0, keep[u] = 1
   attend inside SCORE     SOFTMAX   INSIDE   psi = sum m log(e^psi[u] + e^LSE[u]) / sum m over v's children u, -inf
                                              without; p and g are of psi and the row's scores together. O = sum of
                                              p v[u] by the sum s of these p, LSE[v] = g + log s, psi[v] = g + log p of
                                              psi
   user          USER      USER      USER     the stage's own aggregate

   s(u, v, e) = scale * q[v] . (k[u] + rel_key[type] + edge_key[e]) + rel_bias[type][head] + edge_bias[e][head]
                + pos[p(v, e)] . pos[u] + (by_mass ? log mass[u] : 0) + log w;
   of additive scores sum over c of a[head][c] L(q[v] + k[u] + rel_key[type] + edge_key[e]) stands for the product,
   L(x) = x for x > 0 and negative_slope x else (GATv2, Brody et al. 2022; with dim 1 and a = 1 GAT, Velickovic et al.
   2018).
   With a softcap C the content, which is what comes before the first bias, becomes C tanh(content / C) (Gemma 2; ONNX's
   Attention since 1.22). Slopes take slope |x_q - x_k| from a score (ALiBi, Press et al. 2022), x being
   hga_graph_positions, in float32: whole numbers to 2^24, halves to 2^23. A sink adds e^sink of its head to each row's
   denominator, once, and nothing to its numerator (GPT-OSS): the output is times 1 / (1 + e^(sink - LSE)), its
   LSE becomes log(e^LSE + e^sink), and a row without edges has output 0 and LSE sink.
   psi is -phi of Amizadeh et al. 2025, eq. 9, less a constant. With softmax `attend inside` is attend and energy; with
   entmax it is their eq. 51: p = entmax of psi and scores, counts being in these as log w and log m, and g, in the
   place of the log-sum-exp, the greatest of p . z + H(p), H = sum of (p - p^alpha) / (alpha (alpha - 1)). Descend then
   does what it does: sigmoid(LSE - psi) is s. */
#ifndef HGA_PROGRAM_H
#define HGA_PROGRAM_H

#include "hga_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HGA_MAX_FIELDS = 24, HGA_MAX_STAGES = 24, HGA_MAX_USER_TENSORS = 8, HGA_NAME_BYTES = 32 };
/* Fields are named by number from 1 on, so that 0, a zeroed stage's, names none; arrays by field have a slot to
   spare. */
enum { HGA_FIELD_SLOTS = HGA_MAX_FIELDS + 1 };

/* The relation of a stage that runs along the tree is HGA_TREE_UP, children to parent, or HGA_TREE_DOWN. */

/* FLAT: rows are independent. LEVELS_UP / LEVELS_DOWN: level after level, so that a row sees what the stage wrote one
   level below / above. */
typedef enum hga_order { HGA_FLAT, HGA_LEVELS_UP, HGA_LEVELS_DOWN } hga_order;
typedef enum hga_message {
    HGA_COPY,
    HGA_SCALED,
    HGA_SCORE,
    HGA_STATE,
    HGA_ENERGY,
    HGA_GATE,
    HGA_MESSAGE_USER
} hga_message;
typedef enum hga_reduce { HGA_MEAN, HGA_SUM, HGA_SOFTMAX, HGA_MERGE, HGA_REDUCE_USER } hga_reduce;
/* From the scores of a row to the weights of its edges.
   sigmoid: weight m w / (1 + e^-(s' + B)), s' being the score without log w and log m, B the call's
   hga_io.normaliser_bias: weights of a row do not sum to 1, states are plain sums and merge by adding. There is no
   log-sum-exp: has_lse is 0, energy and descend are refused, user functions see +inf.
   entmax (Peters et al. 2019): weight m w [(alpha - 1) s' - tau]_+^(1 / (alpha - 1)), alpha the stage's and tau such
   that a row's weights sum to 1: most are exact zeros, and values of those are not read. alpha = 2 is sparsemax, 1
   softmax. tau needs all scores of a row, so what is merged into another state (attend more, spread) is refused; there
   is no log-sum-exp, as with sigmoids. Energies and attention are one stage, `attend inside`. */
#define HGA_NORMALISERS(X) \
    X(SOFTMAX, softmax)    \
    X(SIGMOID, sigmoid)    \
    X(ENTMAX, entmax)

/* HGA_NORMALISER_SOFTMAX, 0, and so on: row of hga_normalisers(). */
#define HGA_NORMALISER_NUMBER(NAME, name) HGA_NORMALISER_##NAME,
typedef enum hga_normaliser { HGA_NORMALISERS(HGA_NORMALISER_NUMBER) HGA_N_NORMALISERS } hga_normaliser;
#undef HGA_NORMALISER_NUMBER
/* The content of a score, of a query and a key. */
typedef enum hga_scores {
    HGA_SCORES_PRODUCT = 0,
    /* a . LeakyReLU(q + k), a being hga_io.additive; such programs' default scale is 1 */
    HGA_SCORES_ADDITIVE = 1
} hga_scores;
typedef enum hga_update { HGA_REPLACE, HGA_UPDATE_MERGE, HGA_DESCEND, HGA_UPDATE_USER, HGA_UPDATE_INSIDE } hga_update;

/* What a field holds for each (node, head). */
typedef enum hga_width {
    HGA_WIDTH_KEY,    /* dim floats, per query head */
    HGA_WIDTH_KV_KEY, /* dim floats, per key/value head */
    HGA_WIDTH_VALUE,  /* dim_v floats, per key/value head */
    HGA_WIDTH_STATE,  /* dim_v floats and a log-sum-exp, per query head */
    HGA_WIDTH_OUT,    /* dim_v floats, per query head */
    HGA_WIDTH_SCALAR  /* one float, per query head */
} hga_width;

/* The caller's tensor that holds a field on its io rows; the engine keeps the field's other rows in the workspace. No
   stage writes queries, keys and values. A stage may write rows of a HGA_IO_USER tensor, which is then an output. If an
   earlier stage reads the caller's values in these rows, the program is refused (HGA_EPROGRAM): a second execution, and
   a gradient, would find them changed. */
typedef enum hga_binding { HGA_INTERNAL, HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT, HGA_IO_USER } hga_binding;

/* Nodes. As `io`: the rows the caller's tensor has. As `rows`: the nodes the field exists on, a superset of io. */
typedef enum hga_field_rows {
    HGA_ROWS_QUERIES,    /* the query tokens */
    HGA_ROWS_KEYS,       /* the key tokens */
    HGA_ROWS_NODES,      /* every node */
    HGA_ROWS_QUERY_SIDE, /* every node that is not HGA_SIDE_KEY */
    HGA_ROWS_KEY_SIDE,   /* every node that is not HGA_SIDE_QUERY */
    HGA_ROWS_ABOVE       /* every node above level 0 */
} hga_field_rows;

typedef struct hga_field {
    char name[HGA_NAME_BYTES];
    hga_width width;
    hga_binding binding;
    hga_field_rows io; /* unused when internal */
    hga_field_rows rows;
} hga_field;

/* ---- user functions ---- */
/* An aggregate over a row's in-edges, as in SQL (xStep, xFinal). For each row of the out field and each query head the
   engine calls begin, then edge for every in-edge, then finish; a row without edges gets begin and finish.

   What the functions see. Of a source: the fields in the stage's `reads`; in a stage that runs level by level also what
   the stage itself wrote on earlier levels. Of the row: in begin and edge the fields in `reads` that are not in
   `writes`; in finish those, and the fields in `writes`. Any other field is NULL, and so is a field whose row neither
   the caller nor a stage has written yet. A flat stage may not read what it writes.

   What they may write. finish writes all columns of every field in `writes` that is not NULL, and a state's lse. begin
   and edge write the aggregate, nothing else. The aggregate belongs to one row and head: `state_bytes` bytes, aligned
   to 64, not cleared. The engine may move it between two calls, and drops it after finish; so it must not point into
   itself, nor own memory.

   Order. Edges come in the same order in every execution, whatever the number of threads. With `merge`, rows of more
   than hga_options.cut_edges edges are cut at positions that depend on the row alone. Each split gets a begin and its
   edges; then merge(state, later) adds the split `later`, whose edges all come after those in `state`.

   Threads. Different rows, and splits of one row, run at the same time on different threads, with an aggregate each and
   the same ctx: only read it, or guard it. The functions return nothing; one that can fail keeps its error in ctx. They
   must not call the plan that runs them. */

/* One end of an edge: `field[f]` is that node's value of field f for this head (its key/value head for kv widths),
   columns[f] floats, or NULL, see above; `lse[f]` is a state's log-sum-exp, NULL for other widths. */
typedef struct hga_end {
    hga_id node, level;
    float mass;
    float *const *field;
    float *const *lse;
    const hga_id *columns; /* by field, whether it is shown or not */
} hga_end;

typedef struct hga_edge {
    hga_pos position; /* in the relation's canonical order; -1 along the tree */
    int32_t type;
    float weight;
    double score;                /* s(u, v, e) when the stage names query and key, else 0 */
    hga_end source, destination; /* of the source's fields, nothing may be written */
} hga_edge;

typedef struct hga_udf {
    size_t state_bytes; /* at most 2^30: every thread has memory for two (hga_plan_workspace_bytes) */
    void (*begin)(void *state, const hga_end *v, hga_id head, void *ctx);
    void (*edge)(void *state, const hga_edge *e, hga_id head, void *ctx);
    /* NULL: rows of this stage are never cut */
    void (*merge)(void *state, const void *later, void *ctx);
    void (*finish)(const void *state, const hga_end *v, hga_id head, void *ctx);
    void *ctx;
    /* The backward pass (hga_gradient.h): both or none; a program without them has no gradients. The engine computes a
       row's aggregate again. Then finish_adjoint reads the gradients of what finish wrote (d_v's fields in `writes`)
       and sets the gradient of the aggregate, d_state: state_bytes of zeros at first, in any layout. Then edge_adjoint
       is called for every edge, and adds the gradients of what edge read to d_source, d_destination and *d_score. Both
       see the fields that finish and edge see. Gradients to add to begin as zeros; in finish_adjoint these are d_v's
       fields that are not in `writes`. Neither is called for a row whose outputs all have gradients of 0. */
    void (*finish_adjoint)(const void *state, void *d_state, const hga_end *v, const hga_end *d_v, hga_id head,
                           void *ctx);
    void (*edge_adjoint)(const void *state, const void *d_state, const hga_edge *e, double *d_score,
                         const hga_end *d_source, const hga_end *d_destination, hga_id head, void *ctx);
} hga_udf;

typedef struct hga_stage {
    char name[HGA_NAME_BYTES];
    hga_id relation; /* index, HGA_TREE_UP or HGA_TREE_DOWN */
    hga_order order;
    hga_message message;
    hga_reduce reduce;
    hga_update update;
    int by_mass;
    /* fields, 0 unused. attend: all three; mean, sum, spread: value is x; energy: value is the state, key is psi
       itself */
    hga_id query, key, value;
    hga_id gate, keep; /* descend: value is the state O, gate psi, keep the remaining mass */
    hga_id out;        /* the field written */
    /* sets of fields, bit f for field f; filled by the helpers below, by the caller for a user stage. query and key,
       which must be there for `score`, need not be among them */
    uint32_t reads, writes;
    /* of attend and attend more, of all of a program alike; softmax in others */
    hga_normaliser normaliser;
    double alpha;         /* of entmax: 1, or 1.05 to 2; 0 with others */
    uint64_t reserved[3]; /* 0 */
    hga_udf udf;
} hga_stage;

typedef struct hga_program {
    hga_id n_fields, n_stages;
    hga_field field[HGA_FIELD_SLOTS]; /* 1 .. n_fields */
    hga_stage stage[HGA_MAX_STAGES];
    float default_scale;  /* 0: 1 / sqrt(dim), or 1 with additive scores */
    int has_lse;          /* the LSE of the out field is a log softmax denominator: io.lse may be given */
    float softcap;        /* of calls that bring none, see hga_call.h; 0: none */
    hga_scores scores;    /* of all stages that have them */
    float negative_slope; /* of additive scores, finite: 0 is a ReLU, 1 no function at all; 0 with products */
    uint64_t reserved[2]; /* 0 */
} hga_program;

/* Make *p an empty program. What adds to it returns HGA_EPROGRAM when the tables are full or an argument is wrong;
   nothing allocates. */
HGA_API void hga_program_init(hga_program *p);
/* Add a field; *field is its number. */
HGA_API hga_status hga_program_add_field(hga_program *p, const char *name, hga_width width, hga_binding binding,
                                         hga_field_rows io, hga_field_rows rows, hga_id *field);
/* Add a stage, which runs after those before it. */
HGA_API hga_status hga_program_add_stage(hga_program *p, const hga_stage *stage);

/* Add a stage that coarsens: x[parent] = mean of x[child] by mass, level by level. */
HGA_API hga_status hga_program_coarsen(hga_program *p, hga_id x);
/* Add a stage that copies up: x[v] = x[u] over a relation of one edge a row, level by level (where a mean would let a
   coarse query see later tokens). */
HGA_API hga_status hga_program_coarsen_along(hga_program *p, hga_id relation, hga_id x);
/* Add a stage that attends: out = softmax state over a relation; by_mass: scores have the logarithm of the source's
   mass. */
HGA_API hga_status hga_program_attend(hga_program *p, hga_id relation, hga_id query, hga_id key, hga_id value,
                                      hga_id out, int by_mass);
/* Add a stage that attends one more relation: its softmax state is merged with the one that is in `out`, as if its
   edges had been among the first one's. */
HGA_API hga_status hga_program_attend_more(hga_program *p, hga_id relation, hga_id query, hga_id key, hga_id value,
                                           hga_id out, int by_mass);
/* Choose the normaliser of all stages that attend; alpha is entmax's, else 0. Only softmax has an LSE: others set
   has_lse to 0. Entmax with an alpha other than 1 turns a stage that attends and the energies of its states into
   `attend inside`; any other normaliser turns that into the two stages again. HGA_EPROGRAM where no stage attends. */
HGA_API hga_status hga_program_normalise(hga_program *p, hga_normaliser normaliser, double alpha);
/* Find the stages that the output depends on, bit s for stage s. */
HGA_API uint32_t hga_program_live(const hga_program *p);
/* A normaliser in words: `name`, or with a number "name:NUMBER". */
typedef struct hga_normaliser_row {
    const char *name;
    const char *number; /* "B", a call's (hga_io.normaliser_bias), or "ALPHA", a stage's; NULL: it has none */
    int needs_number;
    double least, most; /* of the number */
    const char *says;   /* in one line, for help; NULL: the name does */
} hga_normaliser_row;
/* The rows by hga_normaliser, [HGA_N_NORMALISERS]; the last has the name NULL. */
HGA_API const hga_normaliser_row *hga_normalisers(void);
/* Find the normaliser that words name, "softmax", "sigmoid", "sigmoid:B" or "entmax:ALPHA", for hga_program_normalise;
   B is a call's (hga_io.normaliser_bias). A number that is not named is 0. HGA_EINVAL says what is wrong with the
   words. */
HGA_API hga_status hga_normaliser_named(const char *words, hga_normaliser *normaliser, double *alpha, float *bias);
/* Add a stage that merges each node's state into its children's (relation HGA_TREE_DOWN), or along a relation of
   coarse-to-fine edges. */
HGA_API hga_status hga_program_spread(hga_program *p, hga_id relation, hga_id state);
/* Add a stage of the kind HGA_MEAN, as the table above says: means of x, by_mass weighted by the sources' masses. */
HGA_API hga_status hga_program_mean(hga_program *p, hga_id relation, hga_id x, hga_id out, int by_mass);
/* Add a stage of sums of x. */
HGA_API hga_status hga_program_sum(hga_program *p, hga_id relation, hga_id x, hga_id out);
/* Add a stage of sums of x, each times the number of its edge's type (hga_io.type_scale). */
HGA_API hga_status hga_program_weighted_sum(hga_program *p, hga_id relation, hga_id x, hga_id out);
/* Add a stage of energies, which runs up the tree. */
HGA_API hga_status hga_program_energy(hga_program *p, hga_id state, hga_id psi);
/* Add a stage that passes states down the tree. */
HGA_API hga_status hga_program_descend(hga_program *p, hga_id state, hga_id psi, hga_id keep, hga_id out);
/* Write a whole program: fields query, key, value, out on tokens and one attend stage over `relation`. Initialises *p
   first: it needs no hga_program_init, and what p held before is gone. */
HGA_API hga_status hga_program_attention(hga_program *p, hga_id relation);

/* Write the program of a graph of your own, as most need it: attend the edges of all these relations jointly, in one
   softmax, over the graph's tree. Fields query, key, value (the caller's on tokens) and out. Where an edge goes into a
   node above the tokens, queries of nodes are means of their children's by mass, level by level, and in the end each
   node's state is merged into its children's; where one comes out of such a node, keys and values are such means.
   Scores have the logarithm of the source's mass. In detail: coarsen query, coarsen key, coarsen value (as far as they
   are needed); attend the first relation, attend more for each of the others; spread out down the tree. Self- and
   cross-attention, whose nodes above the tokens must have sides. Means see later tokens: for causal queries write
   coarsen_along instead. HGA_EPROGRAM when edges end above the tokens and no node has a parent, or where the check of a
   plan would say so. */
HGA_API hga_status hga_program_hierarchy(hga_program *p, const hga_graph *g, const hga_id *relations,
                                         hga_id n_relations);

/* ---- asking ---- */

/* Find the field bound to a tensor of the caller's (the first of HGA_IO_USER's), 0 without. */
HGA_API hga_id hga_program_field(const hga_program *p, hga_binding binding);
/* Find the rows that the caller's tensor of a field has: row i is that of node *first + i, i in [0, *n). None for field
   0 and for internal fields. */
HGA_API hga_status hga_program_rows(const hga_program *p, const hga_graph *g, hga_id field, hga_id *first, hga_id *n);

/* Write a program as the text of the JSON object that names the fields and stages, for hga_text_free. Relations are
   written by name. User functions cannot be written: HGA_EUNSUPPORTED. */
HGA_API hga_status hga_program_to_json(const hga_program *p, const hga_graph *g, char **text);
/* Read a program from the text that hga_program_to_json writes, over the graph's relations. Instead of an object the
   text may be the string "attend" (with its quotes): then it is hga_program_hierarchy of all relations of the graph. */
HGA_API hga_status hga_program_from_json(const char *text, const hga_graph *g, hga_program *out);

/* Write a graph and its program as one JSON file, the form in which hierarchies are stored and passed on (hga's
   graph=FILE), which hga_program_read_file reads. Written whole or not at all; "-" is stdout. */
HGA_API hga_status hga_program_write_file(const hga_program *p, const hga_graph *g, const char *path);
/* Read a graph, which is then the caller's, and its program from a file of hga_program_write_file's; "-" is stdin.
   HGA_EFORMAT without a program. */
HGA_API hga_status hga_program_read_file(const hga_allocator *a, const char *path, hga_graph **g, hga_program *p);

#ifdef __cplusplus
}
#endif
#endif
