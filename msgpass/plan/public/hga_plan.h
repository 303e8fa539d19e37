/* hga_plan.h: from graph and program to output. hga_plan_create checks and lowers, hga_workspace_create allocates, and
   hga_plan_execute runs. With float32 tensors it allocates nothing, except once for types, slopes and biases of edges
   (hga_plan_workspace_bytes). A plan is const and may be shared by any number of threads; a workspace serves one
   execution at a time. */
#ifndef HGA_PLAN_H
#define HGA_PLAN_H

#include "hga_call.h"
#include "hga_program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hga_plan hga_plan;
typedef struct hga_workspace hga_workspace;

typedef enum hga_dtype { HGA_F32 = 0, HGA_F16 = 1, HGA_BF16 = 2 } hga_dtype;
/* The caller's tensors hold float32 values in both. BF16: queries, keys and values (coarse ones, once their mean is
   taken) are rounded to bfloat16 once, to nearest even; scores, softmax and sums are float32. Flat stages read them
   rounded; stages that run level by level, which compute means, read them unrounded. Where flat stages only attend by
   softmax of products, keys and values are stored in 16 bits, which halves what attention reads; and where the
   instruction set multiplies pairs of bfloat16 (avx512bf16, neonbf16), softmax's weights are rounded before they
   multiply values, not in their sum. */
typedef enum hga_precision { HGA_PRECISION_F32 = 0, HGA_PRECISION_BF16 = 1 } hga_precision;

typedef struct hga_shape {
    /* n_kv_heads divides n_heads; 0: n_heads. Query head h reads key/value head h / (n_heads / n_kv_heads) */
    hga_id n_heads, n_kv_heads;
    hga_id dim, dim_v;  /* dim_v 0: dim */
    hga_id pos_dim;     /* columns of node_pos, 0 without */
    hga_id reserved[3]; /* 0; see hga_check_reserved */
} hga_shape;

/* Whether threads are bound, each to a processor, for the length of each call. Their masks are restored at its end.
   AUTO: where there are several NUMA domains and the plan has a thread for every core, a call that runs on several
   threads binds them. Where OpenMP binds its threads (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY) the library does
   not, and plans for OpenMP's places. ON binds a call of one thread, too; inside a caller's parallel region nothing is
   bound. A thread is never bound to a processor that its mask leaves out. One that cannot be bound computes where it
   is: hga_plan_explain says so, and hga_error_detail after a call that returned HGA_OK. */
enum { HGA_BIND_OFF = 0, HGA_BIND_ON = 1, HGA_BIND_AUTO = 2 };

/* The rows of the output that executions of a plan compute. EVERY_ROW: all. SOME_ROWS: those that the call requests
   (hga_io.rows). ROWS_THAT_STAY: as SOME_ROWS; and rows of the program's internal fields have a slot each in the
   workspace, stay there from one execution to the next, and are not computed again: see hga_workspace_rows. Not with
   keep_fields, and rows that stay not with gradient. */
enum { HGA_EVERY_ROW = 0, HGA_SOME_ROWS = 1, HGA_ROWS_THAT_STAY = 2 };

typedef struct hga_options {
    hga_id threads; /* 0: OMP_NUM_THREADS, or the cores that the calling thread may use now */
    /* "ref", "avx2", "avx512", "avx512bf16", "neon", "neonbf16"; NULL: HGA_ISA from the environment, or the best this
       machine has. (Numbers that follow the processor, and change time alone, are replaced by HGA_TUNING, such as
       "pack_readers=6": hga_plan_explain says them; what is malformed there is HGA_EINVAL.) */
    const char *isa;
    hga_precision precision;
    int generic; /* 1: every stage by the plain executor that defines its semantics */
    /* hwloc's synthetic description, or a file that lstopo wrote ("machine.xml"); NULL: this machine. Another machine
       is planned for, never bound to */
    const char *topology;
    int bind; /* HGA_BIND_OFF, HGA_BIND_ON or HGA_BIND_AUTO */
    /* 1: all fields' rows stay to the end, and the caller's are copied to the workspace, for hga_workspace_field; 0:
       rows of the workspace are reused once no stage needs them */
    int keep_fields;
    /* a row with more edges than this, and more than a 64th of its relation's edges, is cut into splits, which are
       merged; 0: 16384. The last bits of results depend on it. (A row whose columns are consecutive, as a span's tokens
       are, is always cut: after 64 edges in attention, after 512 at most in sums.) */
    hga_pos cut_edges;
    const hga_allocator *allocator;
    int gradient;  /* 1: executions may leave a tape for hga_plan_gradient (hga_gradient.h) */
    float dropout; /* probability in [0, 1) that an attended edge's weight is dropped, see hga_io.seed */
    int64_t rows;  /* HGA_EVERY_ROW, HGA_SOME_ROWS or HGA_ROWS_THAT_STAY */
    /* backward: the number of row ranges of an attended stage, at most 16; 0: as many as pay on the graph and the
       shape. Results differ in rounding, never with threads */
    int64_t gradient_row_ranges;
    /* backward, on trees: tokens of a subtree that is computed at a time, or some more; 0: as many as the caches hold.
       Results differ in rounding */
    int64_t gradient_subtree;
    /* 1: a row's bits depend on its own edges and what it reads, and not on neighbouring rows, for graphs of blocks
       and edges that change: see hga_plan_execute. Slower where few rows share columns */
    int64_t strict_rows;
    const struct hga_ranks *ranks; /* several processes share the plan: hga_exchange.h; NULL: this one is alone */
} hga_options;

/* A tensor of yours [rows][heads][columns], borrowed for the call. Strides are in elements; 0 0 means packed. `rows` is
   how many rows the array has; fewer than the program needs on the graph are HGA_EINVAL. A field's tensor may be
   float16 or bfloat16, each by itself: an execution computes with the same numbers in float32, and rounds what it
   writes to nearest, ties to even. The workspace takes memory for the float32 copies at the first such execution. Keys
   and values of bfloat16 are read in place, without copies, if the plan's precision is BF16 and only flat stages read
   them. Rows of a 16-bit output that no stage writes keep their values. Log-sum-exps, and gradients of what is not a
   tensor, are float32.

   Folding is for a graph that differs by key/value head. Make one graph, whose rows are those of head 0, then those of
   head 1, and so on, and a plan of one key/value head; the query heads that share a key/value head are the plan's
   heads. `fold` reads your tensors in place: with fold = n > 0 row i is at i / n * fold_stride + i % n * row_stride,
   and its heads are head_stride apart. Row h * n + t of a tensor [n][heads][columns] has row_stride heads * columns and
   fold_stride columns (times the query heads that share a key/value head); of [heads][n][columns] they are columns and
   n * columns. Where rows are token * heads + head, as in the tree builder's graphs with a tree for each head, n is the
   number of heads, and the two strides are swapped. fold 0: not folded; fold_stride 0: rows continue with row_stride.
   Each tensor may be folded by itself. With several heads one of the two strides must be their number times
   head_stride. Results have the same bits as with copies in the order of the rows; so have gradients that the same
   solver computes (hga_plan_gradient_tried). Ranks and decoders refuse folded tensors (HGA_EUNSUPPORTED). */
typedef struct hga_tensor {
    void *data;
    int64_t rows;
    ptrdiff_t row_stride, head_stride;
    hga_dtype dtype;
    int64_t fold;
    ptrdiff_t fold_stride;
} hga_tensor;

/* Rows [first, first + n) of the output, n >= 1. */
typedef struct hga_interval {
    int64_t first, n;
} hga_interval;

/* Some rows of the output, for plans with options.rows: ascending, disjoint intervals. They get the bits that they have
   in a call of all rows; the other rows of out and lse keep their values. The call computes only what these rows need,
   and its tape is for them alone. The rule against overlaps (see hga_io) applies to the whole range from the first of
   these rows to the last. HGA_EUNSUPPORTED, of the plan or of the call: one of these rows depends on a row of the
   output that is not requested. */
typedef struct hga_rows {
    int64_t n_intervals;          /* 1 at least */
    const hga_interval *interval; /* [n_intervals] */
    uint64_t reserved[2];         /* 0 */
} hga_rows;

#define HGA_CALL_INPUT_MEMBER(NAME, name) hga_table name;

/* Everything a call reads and writes; NULL data where you do not use a member. What the call writes (the rows of the
   output, their log-sum-exps, the tape, tensors of yours that stages write) must not overlap what it reads, nor itself,
   nor anything else it writes: HGA_EINVAL names the two. (Of two tensors that are both not contiguous and have
   different strides, the check compares the first address alone.) */
typedef struct hga_io {
    /* rows as the program's fields say: [query tokens | nodes][n_heads][dim], [..][n_kv_heads][dim],
       [..][n_kv_heads][dim_v] */
    hga_tensor query, key, value;
    hga_tensor out; /* [rows of the out field's io][n_heads][dim_v] */
    hga_tensor lse; /* [same rows][n_heads], natural log; row_stride counts, head_stride 0 means 1 */
    /* tables, by name and by number (hga_call.h): io.slopes is io.table[HGA_TABLE_SLOPES] */
    HGA_EXTENSION union {
        hga_table table[HGA_MAX_TABLES];
        HGA_EXTENSION struct {
            HGA_CALL_TABLES(HGA_CALL_INPUT_MEMBER)
        };
    };
    /* of the HGA_IO_USER fields, in the order they were added; those that a stage writes are outputs: their rows'
       old values are not read, and are replaced */
    hga_tensor user[HGA_MAX_USER_TENSORS];
    /* plans with options.gradient: NULL, or [hga_plan_tape_bytes]: what a gradient needs of the execution */
    void *tape;
    /* Dropout: the weight of edge (v, u, type) of head h is multiplied with 0 or 1 / (1 - p); the log-sum-exp does not
       see it. Drawn by Philox4x32-10 with key `seed` at counter (v, u, type, layer << 8 | h / 8), sixteen bits a head:
       the same seed and layer drop the same edges in every call, whatever the threads. */
    uint64_t seed;
    uint32_t layer;       /* < 2^24 */
    hga_id first_head;    /* draws take head h for head first_head + h, where a call has some heads; all < 2048 */
    const hga_rows *rows; /* the rows of out (and lse) to compute; NULL: all */
    /* [same rows][n_heads][columns of edge_value], float32: the sum of edge_value with the weights of out, dropout
       included. Without it edge_value is [edges][n_kv_heads * dim_v], and is added to the values of edges' sources, as
       edge_key is to keys. Both are of programs whose output one stage of softmax attention writes; HGA_EUNSUPPORTED:
       others, sinks, ranks, decoders, and, without edge_out, precision bf16 */
    hga_tensor edge_out;
    uint64_t reserved[1]; /* 0 */
} hga_io;
#undef HGA_CALL_INPUT_MEMBER

/* Check the program against the graph and lower it, for a shape and options (NULL: the defaults). The plan keeps a
   reference to the graph. *out is yours: hga_plan_destroy. */
HGA_API hga_status hga_plan_create(const hga_graph *g, const hga_program *p, const hga_shape *shape,
                                   const hga_options *options, hga_plan **out);
/* Lower a plan's program onto another graph: the graph must have the same relations by name. Do not call it while
   another thread executes the plan. Workspaces stay valid unless the plan needs more than they have (hga_plan_execute
   then says HGA_EINVAL). Tapes do not: they are of the graph that was executed, and hga_plan_gradient refuses them. A
   failure leaves the plan unchanged. From the first update on the plan keeps the memory that updates need, about twice
   a plan, so that an update to a graph of the same sizes allocates nothing. */
HGA_API hga_status hga_plan_update(hga_plan *plan, const hga_graph *g);
/* Free a plan, after its workspaces; NULL is accepted. */
HGA_API void hga_plan_destroy(hga_plan *plan);

/* Bytes that hga_workspace_create will allocate. Three things take memory later, which this does not count.

   With a plan's first workspace the plan caches what is expensive to compute about the graph, and in the first
   execution of all rows with rel_key or rel_bias what these need: at most a tenth of the bytes of the caller's tensors.
   hga_plan_bytes counts it. It makes executions faster and changes no bits. An update drops it, and workspaces made
   before run without it.

   The first call with slopes adds eight bytes a node to the plan, until an update; the first call with biases of edges
   does, too. A workspace's first call with biases of edges takes 530 kB for each thread and, where the relation has
   blocks, 40 bytes more for each thread and each edge of the widest row. */
HGA_API int64_t hga_plan_workspace_bytes(const hga_plan *plan);
/* Bytes that the plan holds, retained for updates or in use. */
HGA_API int64_t hga_plan_bytes(const hga_plan *plan);
/* Threads that the plan was made for. */
HGA_API hga_id hga_plan_threads(const hga_plan *plan);

/* Bytes of the tape of one execution of a plan made with options.gradient (hga_gradient.h); 0 for other plans. */
HGA_API int64_t hga_plan_tape_bytes(const hga_plan *plan);

/* Useful operations of one execution: 2 * (dim + dim_v) per attended edge and head (4 * dim when equal), and the other
   stages' own counts. */
typedef struct hga_cost {
    double flops, edges, bytes_min; /* bytes_min: inputs read once, outputs written once */
    double gradient_flops;          /* of all gradients: of attention 6 dim + 4 dim_v an edge and head */
} hga_cost;
/* Count the useful operations, edges and bytes of one execution of a plan. */
HGA_API hga_cost hga_plan_cost(const hga_plan *plan);

/* Count the numbers of a table of a call (hga_io.table), or of its gradient, on a graph of so many nodes. */
HGA_API int64_t hga_call_entries(hga_call_table which, const hga_shape *shape, hga_id n_nodes, const hga_io *io);
/* Count the rows or columns that an extent stands for: the shape's, the graph's nodes, or else n_input. */
HGA_API int64_t hga_call_extent(hga_extent extent, const hga_shape *shape, hga_id n_nodes, int64_t n_input);

/* Describe how a plan runs: the kernel of each stage, the solver that computes its pairs in a call with the same
   features as this one, and why no faster solver does; waves, threads, parts, domains and workspace. Free the text with
   hga_text_free. Of the call's tables only their presence matters, of numbers whether they are 0; io NULL: none is
   present. With options.gradient it also names the solver of the gradients of all tensors, why no faster one runs, and
   the bytes of tape and gradient; this prepares the plan (hga_plan_prepare). HGA_JSON: an object with the same. */
HGA_API hga_status hga_plan_explain(const hga_plan *plan, const hga_io *io, hga_format format, char **text);

/* Make the workspace of one caller: the memory of executions of the plan, one at a time. *out is yours:
   hga_workspace_destroy. */
HGA_API hga_status hga_workspace_create(const hga_plan *plan, hga_workspace **out);
/* Free a workspace; NULL is accepted. */
HGA_API void hga_workspace_destroy(hga_workspace *workspace);
/* Say whether a workspace is the plan's and has the memory that the plan needs, 1 or 0: an update may have made it too
   small. */
HGA_API int hga_workspace_fits(const hga_plan *plan, const hga_workspace *workspace);

/* Run a plan on the tensors of a call. Operands that are not finite affect the rows that see them, and no others: a
   score that is NaN makes the row NaN, whatever the normaliser. So does a score of +inf where weights are shares of a
   row (softmax, entmax); its sigmoid is 1. A score of -inf is an absent edge: a row of such scores only is 0, its
   log-sum-exp -inf. Inside a caller's parallel region it runs on the calling thread alone. Equal inputs give equal bits
   at any thread count.

   A row's bits depend on its edges, on what it reads, and on the fifteen neighbouring rows that form a group with it:
   sixteen rows from a multiple of sixteen on, counted from the first row of its level that the stage writes (relations
   with a row order: sixteen positions of it). They do not depend on how long the rest of the graph is, nor on how rows
   are cut into panels. So appending tokens to a causal graph does not change the bits of those before, except for the
   last group of sixteen, if that was not whole, and for what reads such a group's rows. Only rows of more than
   cut_edges edges depend on the rest of the graph: whether they are a 64th of it, and so cut.

   Neither exception applies to graphs whose builder declared a longer graph (hga_builder_set_longer), as the builders
   of causal self-attention do: their rows have the bits that they have in the builder's graph of more tokens, and no
   row is cut for its share of all edges. If such a graph's relations have orders, as in dilated attention, it is
   computed as with strict_rows, and columns have their slots from the first of their block's instance.

   With options.strict_rows a row's bits depend on its own edges and on what it reads, whatever the fifteen rows beside
   it see. This holds in any graph, and no row is cut. Columns of blocks have slots of their own, 64 to a chunk from the
   first node of their level on (positions, with an order of sources); edges listed one by one follow them. So a row's
   bits also depend on which of its edges are in blocks: what hga_graph_compress and hga_graph_from_predicate make of a
   mask depends on all rows. Gradients are not promised. */
HGA_API hga_status hga_plan_execute(const hga_plan *plan, hga_workspace *workspace, const hga_io *io);

/* Find a thread's rows. Of the tensor that is query, key, value or out (`of`, HGA_IO_QUERY to HGA_IO_OUT) rows [*first,
   *first + *n) are those that thread `thread` of hga_plan_threads(plan) owns: it reads these queries, writes these rows
   of the output, and reads most of these keys and values. A thread that fills them has them in near memory. A thread's
   rows may be none; together the threads have every row once. On one domain threads may have blocks of tokens dealt
   cyclically (hga_plan_explain says so); this function still returns runs of rows, since all memory is near. Rows of
   all nodes, level by level, are HGA_EUNSUPPORTED. */
HGA_API hga_status hga_plan_rows(const hga_plan *plan, hga_binding of, hga_id thread, int64_t *first, int64_t *n);
/* Move the tensor's pages to the memory of the threads that own its rows: each thread writes a byte of each of its
   pages unchanged, and pages on another NUMA node are moved, for a plan whose threads are bound, by itself or by
   OpenMP. A huge page (2 MB) with rows of several threads moves to one of them. Values do not change; the memory must
   be writable, and no other thread may use it meanwhile. Useful for gradients of the tensor, too. Rows, strides and
   type as for an execution. HGA_EEXTERNAL: the system does not let pages be moved (containers often do not), which
   changes nothing. */
HGA_API hga_status hga_plan_touch(const hga_plan *plan, hga_binding of, const hga_tensor *tensor);

/* Find a rank's rows, of a plan with options.ranks: which rows of a field's tensor of one process the rank's tensor
   has, in this order. *n is how many intervals there are; the first `capacity` of them are written. Fields without a
   tensor have none. */
HGA_API hga_status hga_plan_rank_rows(const hga_plan *plan, hga_id field, hga_interval *rows, int64_t capacity,
                                      int64_t *n);

/* Run n executions in one call, each with its own workspace. Outputs, errors and bits are those of n calls of
   hga_plan_execute. There is one parallel region; a thread computes whole samples as long as there is one for each
   thread. An error names the sample, and then no sample has run. What a sample writes must not overlap what another
   reads or writes (HGA_EINVAL): two samples cannot share an output or a tape, but they may write different rows of one
   output (hga_io.rows). On ranks samples run in order, and all ranks pass equally many. */
HGA_API hga_status hga_plan_execute_batch(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios,
                                          hga_id n);

/* Copy the values of a field after an execution of a plan that was made with keep_fields (without: HGA_EUNSUPPORTED),
   for study: rows [first, first + n) of the field as [n][heads][columns], a state with its log-sum-exp as one column
   more. The caller's tensors are borrowed for the execution alone: their rows are copies made at its end. In bfloat16
   the rows of operands come rounded, as flat stages read them. */
HGA_API hga_status hga_workspace_field(const hga_plan *plan, const hga_workspace *workspace, hga_id field, hga_id first,
                                       hga_id n, float *out);

/* What hga_workspace_rows does with rows: write them to `data`; read them from there, after which they are present; or
   drop them (data NULL), after which they are not. */
typedef enum hga_rows_action { HGA_ROWS_GET = 0, HGA_ROWS_PUT = 1, HGA_ROWS_DROP = 2 } hga_rows_action;

/* Rows [first, first + n) of a field, which stay in the workspace of a plan with HGA_ROWS_THAT_STAY: all that are not
   rows of your tensors. As [n][heads][columns], a state with its log-sum-exp (natural) as one column more. An execution
   reads a row that is present and computes neither it nor rows that only it depends on; it computes the others that it
   needs, which are then present, too. So tensors need to hold only what is read now: in a causal program a token's rows
   are neither computed nor passed again.

   Nothing checks this: rows stay there whatever your tensors hold later. If you change a token, drop the rows that
   depend on it; field 0 drops all rows of all fields (first and n are then 0). Plans of bfloat16 round these rows
   again. hga_plan_update drops all.

   HGA_EINVAL: a row that is yours, or, for HGA_ROWS_GET, not present. A program in which a stage reads a row before
   another stage writes it a second time has no rows that stay (hga_plan_create: HGA_EUNSUPPORTED). */
HGA_API hga_status hga_workspace_rows(const hga_plan *plan, hga_workspace *workspace, hga_id field, hga_id first,
                                      hga_id n, hga_rows_action action, float *data);

/* Create a plan and a workspace, execute and clean up in one call, with the arguments of hga_plan_create and
   hga_plan_execute. To run often, call those. */
HGA_API hga_status hga_attention(const hga_graph *g, const hga_program *p, const hga_shape *shape,
                                 const hga_options *options, const hga_io *io);

/* Merge softmax states over the same rows and different keys, packed out [n_rows][n_heads][dim_v] and lse
   [n_rows][n_heads] (natural log, -INFINITY: no key) as an execution leaves them: a becomes the state over the keys of
   both, as if they had been attended to at once; in double. Where both are empty a is unchanged. */
HGA_API hga_status hga_merge_states(int64_t n_rows, hga_id n_heads, hga_id dim_v, float *out_a, float *lse_a,
                                    const float *out_b, const float *lse_b);

/* Say the version of the library that runs, such as "0.6.0" or "0.6.0.dev0"; that of its headers is HGA_VERSION_MAJOR,
   _MINOR, _PATCH and _STAGE. */
HGA_API const char *hga_version(void);

#ifdef __cplusplus
}
#endif
#endif
