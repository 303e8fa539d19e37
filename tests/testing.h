/* testing.h: what the tests share. Everything here fails the running cmocka test when it cannot do what it says, so
   that callers need no checks. */
#ifndef HGA_TESTING_H
#define HGA_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "brought.h"
#include "hga.h"
#include "hga_files.h"
#include "isas.h"

/* ---- statuses ---- */

/* The call succeeds; otherwise the test fails with its error text. */
#define assert_ok(call) check_status(HGA_OK, (call), #call, __FILE__, __LINE__)
/* The call fails with this status and says something. */
#define assert_status(status, call) check_status((status), (call), #call, __FILE__, __LINE__)
void check_status(hga_status want, hga_status got, const char *call, const char *file, int line);

/* ---- numbers ---- */

/* Values 1 .. n of the splitmix64 stream `seed`, uniform in [-scale, scale): the generator of the golden cases. */
void fill_random(uint64_t seed, double scale, int64_t n, float *out);
/* The same in fresh memory, for free(). */
float *random_floats(uint64_t seed, double scale, int64_t n);
/* The next 64 bits of a stream, or a number in [0, below). */
uint64_t next_random(uint64_t *stream);
hga_id random_below(uint64_t *stream, int64_t below);

/* Is case i of many skipped? With HGA_TEST_QUICK, as instrumented builds are slow, four of five are. The number of
   cases of an inner loop is not divisible by 5, so that all of them run. */
int passed_over(int i);
/* The same of every second case: of i and i + 1 one runs. */
int every_other_passed_over(int i);
/* n repeats, or an eighth of them there. */
int thinned(int n);
/* A length, or half of it there: what costs the square of the length takes a quarter. */
int shortened(int n);

/* Do times measure the library? Not in instrumented builds, where checks take most of them. */
int times_tell(void);

/* Ends the test if a rank waits for ever: after two minutes, or after ten in instrumented builds. */
void end_when_ranks_hang(void);

/* calloc that never returns NULL. */
void *memory(int64_t n, size_t size);

/* The largest |got - want|; infinities of one sign are equal, NaN is never near anything. */
double max_difference(const float *got, const double *want, int64_t n);
double max_difference_floats(const float *a, const float *b, int64_t n);
/* The difference is at most `tolerance`; `what` names the arrays in the message. */
void assert_near(const char *what, const float *got, const double *want, int64_t n, double tolerance);
void assert_near_floats(const char *what, const float *got, const float *want, int64_t n, double tolerance);
void assert_same_bits(const char *what, const float *got, const float *want, int64_t n);

/* ---- rows and edges ---- */

/* Rows [first, first + n) of the output for hga_io.rows, which last as long as the block they are written in. */
#define SOME_ROWS(first_, n_) (&(hga_rows){.n_intervals = 1, .interval = &(hga_interval){(first_), (n_)}})

/* The nodes of a row set in increasing order, for free(); *n gets their number. */
hga_id *row_nodes(const hga_graph *g, hga_field_rows rows, hga_id *n);

/* One edge of a relation as its blocks and explicit edges define it, written out. `pos_of` and `src_pos_of` are the
   nodes whose position embeddings the row and the source use. */
typedef struct edge {
    hga_id dst, src;
    int32_t type;
    float weight;
    hga_id pos_of, src_pos_of;
} edge;

/* Every edge of a relation by (destination, source, type), expanded from the view alone, for free(). */
edge *all_edges(const hga_graph *g, hga_id relation, int64_t *n);
/* The edges hga_graph_rows gives for the whole graph. */
edge *all_rows(const hga_graph *g, hga_id relation, int64_t *n);
/* Sort by (destination, source, type), twins by weight. */
void sort_edges(edge *e, int64_t n);
/* The same destinations, sources and types. */
void assert_same_edges(const char *what, const edge *got, int64_t n_got, const edge *want, int64_t n_want);
/* ids that count from the start of their level, with the level in *level; for comparing graphs of different lengths. */
hga_id index_in_level(const hga_graph *g, hga_id node, hga_id *level);

/* ---- golden cases: a folder with case.json and .npy arrays ---- */

typedef struct golden golden;
golden *golden_open(const char *family, const char *name);
void golden_close(golden *c);
/* A member of case.json; numbers, texts and truth values fail when they are missing. */
int64_t golden_int(const golden *c, const char *key);
int golden_true(const golden *c, const char *key);
const char *golden_text(const golden *c, const char *key);
double golden_number(const golden *c, const char *key, double fallback);
int golden_member(const golden *c, const char *key);
int64_t golden_list(const golden *c, const char *key, hga_id *out, int64_t capacity);
/* tolerance.float32_compute_max_abs */
double golden_tolerance(const golden *c);
/* The number after the first "seeds " in the member `inputs`. */
uint64_t golden_seed(const golden *c);
/* Does the case have the array; its extent along an axis; its data, owned by the case. */
int golden_has(const golden *c, const char *array);
int64_t golden_dim(golden *c, const char *array, int axis);
int64_t golden_count(golden *c, const char *array);
const float *golden_floats(golden *c, const char *array);
const double *golden_doubles(golden *c, const char *array);
const int32_t *golden_ints(golden *c, const char *array);
/* sum, sum|.|, sum of squares, max|.| and the dot product with stream 999 are those of the member `key`. */
void assert_golden_checksums(const golden *c, const char *key, const float *x, int64_t n);
/* Rows `rows` of x (of `columns` values each) are the array `want`. */
void assert_golden_rows(golden *c, const char *want, const float *x, int64_t columns);
/* Run `each` on every case of a family whose name starts with `prefix`, as one cmocka group; *state is the case's name.
   Returns the failures. */
int golden_run(const char *family, const char *prefix, CMUnitTestFunction each);

/* ---- problems: a graph, a program and inputs that fit ---- */

typedef struct problem {
    char name[96];
    hga_graph *graph;
    hga_program program;
    hga_shape shape;
    hga_options options;
    hga_io io;
    int64_t n_query, n_key, n_value, n_out; /* rows of the tensors, 0 where the program has none */
    float *owned[16];
    int n_owned;
} problem;

/* Fills in random inputs for the problem's graph, program and shape, and allocates out and (if the program has one)
   lse. */
void problem_fill(problem *p, uint64_t seed);
/* The same with values that a node has by its level and its number there, whatever the graph's length. */
void problem_fill_by_node(problem *p);
/* Random values of scale 1 for the tables a program could use: rel_key and rel_bias of every type, edge biases for 1
   head or all, node_pos. */
void problem_fill_tables(problem *p, uint64_t seed, int rel_key, int rel_bias, int edge_bias);
/* Does the graph have positions of its tokens? */
int has_positions(const hga_graph *g);
/* hga_attention with p->options, in memory that was not written unless these name an allocator. */
void problem_run(problem *p);
/* The same with other options, results in fresh memory for free(); *lse may be NULL. */
float *problem_out(problem *p, const hga_options *options, float **lse);
void problem_clear(problem *p);
/* Floats of out and of lse. */
int64_t out_count(const problem *p);
int64_t lse_count(const problem *p);
/* The first stage with this message, NULL without. */
const hga_stage *find_stage(const hga_program *p, hga_message message);

/* Built-in variant number i over about n tokens, with random parameters from `seed` and inputs of `shape`. */
int n_variants(void);
const char *variant_name(int i);
int variant_named(const char *name);
void variant_build(int i, hga_id n, uint64_t seed, const hga_shape *shape, problem *out);
/* A random tree of `leaves` leaves as parent ids (families of 1 to 5, single chains among them); *n gets its nodes, for
   free(). */
hga_id *random_tree(uint64_t seed, hga_id leaves, hga_id *n);

/* What random_graph may put into its relation `near`. */
enum { WITH_BLOCKS = 1, WITH_EDGES = 2, WITH_TYPES = 4, WITH_WEIGHTS = 8, WITH_ORDERS = 16, WITH_POSITIONS = 32 };
/* Random tokens and levels over them, relation `near` with random edges of the requested sorts. */
hga_graph *random_graph(uint64_t seed, hga_id n_tokens, unsigned with);

/* ---- the slow oracle: a program interpreted in double, edge by edge ---- */

/* Everything an execution reads, in double, packed; NULL where there is none. SLOW_LOG_MASS [nodes] is added to the
   scores of a node's out-edges, and zero at first. */
enum {
    SLOW_QUERY,
    SLOW_KEY,
    SLOW_VALUE,
    SLOW_REL_KEY,
    SLOW_REL_BIAS,
    SLOW_EDGE_BIAS,
    SLOW_NODE_POS,
    SLOW_TYPE_SCALE,
    SLOW_SCALE,
    SLOW_LOG_MASS,
    SLOW_SINK,
    SLOW_SLOPES,
    SLOW_ADDITIVE,
    SLOW_EDGE_KEY,
    SLOW_USER,
    N_SLOW_INPUTS = SLOW_USER + HGA_MAX_USER_TENSORS
};
typedef struct slow_inputs {
    double softcap;
    double *of[N_SLOW_INPUTS];
    int64_t n[N_SLOW_INPUTS];
    hga_id edge_bias_heads;
    double bias; /* of sigmoids */
} slow_inputs;
slow_inputs slow_inputs_of(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_io *io);
void slow_inputs_clear(slow_inputs *in);
/* slow_execute on those. */
void slow_run(const hga_graph *g, const hga_program *p, const hga_shape *shape, const slow_inputs *in, double **out,
              double **lse);
/* The program's results: out and lse [rows of the out field][heads](dim_v), for free(); user stages are not
   supported here. */
void slow_execute(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_io *io, double **out,
                  double **lse);
/* p->io's out (and lse) equal the oracle's within the tolerance. */
void assert_equals_slow(problem *p, double tolerance);
/* Softmax attention of n queries on m keys, [row][heads][dim] all, bias [n][m][heads] or NULL (-INFINITY: not an edge);
   rows without edges give 0. */
void slow_dense(const float *q, const float *k, const float *v, const float *bias, int64_t n, int64_t m, int64_t heads,
                int64_t dim, int64_t dim_v, double *out);

#endif
