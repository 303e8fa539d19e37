/* edges.c: attention along a list of edges that is new in every call. */
#include "edges.h"

#include <stdlib.h>
#include <string.h>

struct hga_py_edges {
    hga_graph *graph;
    int64_t n, *order;
    int64_t given; /* with loops behind them: rows of tables */
};

/* ---- the list ---- */

/* Ends of edges as the builder takes them. */
typedef struct ends {
    int64_t n;
    hga_id *source, *destination, *type;
    int64_t *order;
} ends;

static void free_ends(ends *x) { free(x->source), free(x->destination), free(x->type), free(x->order); }

static int64_t node_at(const hga_py_edge_index *x, int64_t row, int64_t edge)
{
    const char *at = (const char *)x->ends + row * x->row_stride + edge * x->edge_stride;
    switch (x->number) {
    case 8: return *(const int64_t *)(const void *)at;
    case 4: return *(const int32_t *)(const void *)at;
    case 2: return *(const int16_t *)(const void *)at;
    case 1: return *(const int8_t *)at;
    default: return *(const uint8_t *)at;
    }
}

/* The row's nodes, where they are asked for; a negative one is named before one that is too large. */
static hga_status read_row(const hga_py_edge_index *x, int64_t row, hga_id *to)
{
    int64_t least = 0, most = -1, nodes = row ? x->destinations : x->sources;
    for (int64_t e = 0; e < x->n; e++) {
        int64_t node = node_at(x, row, e);
        least = node < least ? node : least, most = node > most ? node : most;
        if (to) to[e] = (hga_id)node;
    }
    if (least >= 0 && most < nodes) return HGA_OK;
    const char *what = x->sources == x->destinations ? "" : row ? " destinations" : " sources";
    return hga_fail(HGA_EINVAL, "edge_index has node %lld of %lld%s", (long long)(least < 0 ? least : most),
                    (long long)nodes, what);
}

hga_status hga_py_edge_index_check(const hga_py_edge_index *index)
{
    hga_status st = read_row(index, 0, NULL);
    return st ? st : read_row(index, 1, NULL);
}

static uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Several chains, since each step waits for the one before. */
void hga_py_edge_index_hash(const hga_py_edge_index *index, uint64_t hash[2])
{
    enum { CHAINS = 4 };
    uint64_t h[CHAINS] = {1, 2, 3, 4};
    for (int64_t row = 0; row < 2; row++) {
        int64_t e = 0;
        for (; e + CHAINS <= index->n; e += CHAINS)
            for (int i = 0; i < CHAINS; i++) h[i] = mixed(h[i], (uint64_t)node_at(index, row, e + i));
        for (; e < index->n; e++) h[0] = mixed(h[0], (uint64_t)node_at(index, row, e));
        h[0] = mixed(h[0], (uint64_t)row);
    }
    hash[0] = mixed(mixed(h[0], h[1]), mixed(h[2], h[3]));
    hash[1] = mixed(mixed(h[3], h[0]), mixed(h[1], h[2]));
}

/* Where loops are added those that were there go, and the others keep their numbers. */
static void add_loops(const hga_py_edge_index *x, ends *of)
{
    int64_t n = 0;
    for (int64_t e = 0; e < x->n; e++) {
        of->order[n] = e, of->source[n] = of->source[e], of->destination[n] = of->destination[e];
        n += !x->loops || of->source[e] != of->destination[e];
    }
    for (hga_id node = 0; node < x->loops; node++, n++)
        of->order[n] = x->n + node, of->source[n] = of->destination[n] = node;
    of->n = n;
}

/* Sorts edges by one of their ends, stably: at[i] is the position before of what is at i now. counts: [nodes + 1]. */
static void sort_by(const hga_id *end, hga_id nodes, const int64_t *before, int64_t *at, int64_t n, int64_t *counts)
{
    memset(counts, 0, sizeof *counts * ((size_t)nodes + 1));
    for (int64_t i = 0; i < n; i++) counts[end[i] + 1]++;
    for (hga_id v = 0; v < nodes; v++) counts[v + 1] += counts[v];
    for (int64_t i = 0; i < n; i++) {
        int64_t e = before ? before[i] : i;
        at[counts[end[e]]++] = e;
    }
}

/* Edges in the order of the graph, by destination and source; of several with the same ends each has a type. */
static hga_status sort(const hga_py_edge_index *x, ends *of)
{
    hga_id nodes = x->sources > x->destinations ? x->sources : x->destinations;
    size_t n = (size_t)of->n;
    ends sorted = {.n = of->n};
    int64_t *counts = malloc(((size_t)nodes + 1) * sizeof *counts), *by_source = malloc((n + 1) * sizeof *by_source);
    int64_t *at = malloc((n + 1) * sizeof *at);
    sorted.source = malloc((n + 1) * sizeof *sorted.source), sorted.order = malloc((n + 1) * sizeof *sorted.order);
    sorted.destination = malloc((n + 1) * sizeof *sorted.destination);
    sorted.type = calloc(n + 1, sizeof *sorted.type);
    hga_status st = HGA_OK;
    if (!counts || !by_source || !at || !sorted.source || !sorted.destination || !sorted.order || !sorted.type) {
        free_ends(&sorted), st = hga_fail(HGA_ENOMEM, "no memory for %lld edges", (long long)n);
        goto done;
    }
    sort_by(of->source, x->sources, NULL, by_source, of->n, counts);
    sort_by(of->destination, x->destinations, by_source, at, of->n, counts);
    int repeats = 0;
    for (int64_t i = 0; i < of->n; i++) {
        sorted.source[i] = of->source[at[i]], sorted.destination[i] = of->destination[at[i]];
        sorted.order[i] = of->order[at[i]];
        int again = i && sorted.source[i] == sorted.source[i - 1] && sorted.destination[i] == sorted.destination[i - 1];
        sorted.type[i] = again ? sorted.type[i - 1] + 1 : 0;
        repeats |= again;
    }
    if (!repeats) free(sorted.type), sorted.type = NULL;
    free_ends(of), *of = sorted;
done:
    free(counts), free(by_source), free(at);
    return st;
}

static hga_status read_ends(const hga_py_edge_index *x, ends *of)
{
    size_t n = (size_t)x->n + (size_t)x->loops + 1;
    of->source = malloc(n * sizeof *of->source), of->destination = malloc(n * sizeof *of->destination);
    of->order = malloc(n * sizeof *of->order);
    if (!of->source || !of->destination || !of->order)
        return hga_fail(HGA_ENOMEM, "no memory for %lld edges", (long long)n);
    hga_status st = read_row(x, 0, of->source);
    if (!st) st = read_row(x, 1, of->destination);
    if (st) return st;
    add_loops(x, of);
    return x->by_itself ? sort(x, of) : HGA_OK;
}

/* ---- their graph ---- */

/* Sources of a bipartite graph follow its destinations. */
static hga_status build(const hga_py_edge_index *x, const ends *of, hga_graph **out)
{
    hga_builder *b = NULL;
    hga_id first, relation, behind = x->is_bipartite ? x->destinations : 0;
    hga_status st = hga_builder_create(NULL, &b);
    if (!st) st = hga_builder_add_level(b, x->is_bipartite ? x->sources + x->destinations : x->sources, &first);
    if (!st && x->is_bipartite) st = hga_builder_set_tokens(b, 0, x->destinations, x->destinations, x->sources);
    if (!st) st = hga_builder_add_relation(b, "near", &relation);
    if (!st && !x->by_itself) st = hga_builder_sum_edges(b, relation);
    for (int64_t i = 0; behind && i < of->n; i++) of->source[i] += behind;
    if (!st) st = hga_builder_add_edges(b, relation, of->n, of->source, of->destination, of->type, NULL);
    if (!st) st = hga_builder_finish(b, out);
    hga_builder_destroy(b);
    return st;
}

hga_status hga_py_edges_create(const hga_py_edge_index *index, hga_py_edges **out)
{
    ends of = {0};
    hga_py_edges *edges = calloc(1, sizeof *edges);
    hga_status st = edges ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for a graph");
    if (!st) st = read_ends(index, &of);
    if (!st) st = build(index, &of, &edges->graph);
    if (!st) {
        edges->n = of.n, edges->given = index->n + index->loops;
        if (index->by_itself) edges->order = of.order, of.order = NULL;
    } else {
        free(edges), edges = NULL;
    }
    free_ends(&of);
    *out = edges;
    return st;
}

void hga_py_edges_destroy(hga_py_edges *edges)
{
    if (!edges) return;
    hga_graph_destroy(edges->graph);
    free(edges->order), free(edges);
}

hga_graph *hga_py_edges_graph(const hga_py_edges *edges) { return hga_graph_retain(edges->graph); }

int64_t hga_py_edges_n(const hga_py_edges *edges) { return edges->n; }

const int64_t *hga_py_edges_order(const hga_py_edges *edges) { return edges->order; }

/* ---- a call ---- */

struct hga_py_pass {
    hga_py_edge_kind kind;
    const hga_py_edges *edges;
    hga_py_cached *cached;
    void *memory;       /* all that follows: */
    void *tape;         /* of calls with gradients */
    float *rows;        /* of edges, in the order of the graph */
    float *products[2]; /* of_values: queries and keys [nodes][heads] */
};

/* A plan for the graph of these edges. */
typedef struct plan_of {
    const hga_py_edge_kind *kind;
    const hga_graph *graph;
} plan_of;

static hga_status make_plan(const void *of, hga_plan **out)
{
    const plan_of *x = of;
    const hga_py_edge_kind *kind = x->kind;
    const hga_id relation = 0;
    hga_program program;
    hga_status st = hga_program_hierarchy(&program, x->graph, &relation, 1);
    if (st) return st;
    if (kind->is_additive) program.scores = HGA_SCORES_ADDITIVE, program.negative_slope = kind->negative_slope;
    hga_shape shape = {.n_heads = kind->heads, .n_kv_heads = kind->heads, .dim = kind->dim, .dim_v = kind->dim_v};
    hga_options options = {.threads = kind->threads, .gradient = kind->gradient, .dropout = kind->dropout};
    return hga_plan_create(x->graph, &program, &shape, &options, out);
}

static hga_tensor rows_of(uintptr_t at, int64_t rows, hga_id heads, hga_id columns)
{
    return (hga_tensor){
        .data = (void *)at, .rows = rows, .row_stride = (ptrdiff_t)heads * columns, .head_stride = columns};
}

static hga_id n_queries(const hga_py_edges *edges) { return hga_graph_nodes(edges->graph).n_queries; }

/* ---- queries and keys that are products of values ---- */

void hga_py_multiply(const hga_py_products *x, float *query, float *key)
{
    const float *values = x->values;
    for (int64_t i = 0; i < x->nodes; i++)
        for (hga_id h = 0; h < x->heads; h++, values += x->columns) {
            const float *q = x->weights[0] + h * x->columns, *k = x->weights[1] + h * x->columns;
            float of_query = 0, of_key = 0;
            for (hga_id c = 0; c < x->columns; c++) of_query += values[c] * q[c], of_key += values[c] * k[c];
            *query++ = of_query, *key++ = of_key;
        }
}

static void add_to_values(const hga_py_products *x, const float *d_query, const float *d_key, float *d_values)
{
    for (int64_t i = 0; i < x->nodes; i++)
        for (hga_id h = 0; h < x->heads; h++, d_values += x->columns) {
            const float *q = x->weights[0] + h * x->columns, *k = x->weights[1] + h * x->columns;
            const float of_query = *d_query++, of_key = *d_key++;
            for (hga_id c = 0; c < x->columns; c++) d_values[c] += of_query * q[c] + of_key * k[c];
        }
}

enum { BLOCK = 256, AT_ONCE = 64 };

/* Of n nodes, AT_ONCE columns of a head at a time. */
static void sum_block(const hga_py_products *x, const float *d, const float *values, int64_t n, float *d_weights)
{
    const int64_t row = (int64_t)x->heads * x->columns;
    for (hga_id h = 0; h < x->heads; h++)
        for (hga_id first = 0; first < x->columns; first += AT_ONCE) {
            const hga_id some = x->columns - first < AT_ONCE ? x->columns - first : AT_ONCE;
            const int64_t at = (int64_t)h * x->columns + first;
            float sum[AT_ONCE] = {0};
            for (int64_t i = 0; i < n; i++)
                for (hga_id c = 0; c < some; c++) sum[c] += d[i * x->heads + h] * values[i * row + at + c];
            for (hga_id c = 0; c < some; c++) d_weights[at + c] += sum[c];
        }
}

/* Blocks of nodes are summed by themselves: one sum of a million numbers would lose its last digits. */
static void sum_for_weights(const hga_py_products *x, const float *d, float *d_weights)
{
    const int64_t row = (int64_t)x->heads * x->columns;
    memset(d_weights, 0, sizeof(float) * (size_t)row);
    for (int64_t first = 0; first < x->nodes; first += BLOCK) {
        const int64_t n = x->nodes - first < BLOCK ? x->nodes - first : BLOCK;
        sum_block(x, d + first * x->heads, x->values + first * row, n, d_weights);
    }
}

void hga_py_multiply_back(const hga_py_products *x, const float *d_query, const float *d_key, float *d_values,
                          float *d_query_weights, float *d_key_weights)
{
    if (d_values) add_to_values(x, d_query, d_key, d_values);
    if (d_query_weights) sum_for_weights(x, d_query, d_query_weights);
    if (d_key_weights) sum_for_weights(x, d_key, d_key_weights);
}

static hga_py_products products_of(const hga_py_pass *pass, const hga_py_edge_call *call)
{
    return (hga_py_products){.nodes = n_queries(pass->edges),
                             .heads = pass->kind.heads,
                             .columns = pass->kind.dim_v,
                             .values = (const float *)call->value,
                             .weights = {(const float *)call->query, (const float *)call->key}};
}

/* Columns of an edge's row. */
static hga_id edge_columns(const hga_py_edge_kind *kind) { return kind->edge_rows ? kind->heads * kind->dim : 0; }

/* What the library reads and writes; rows of edges come as they lie in the pass. */
static void describe(const hga_py_pass *pass, const hga_py_edge_call *call, hga_io *io)
{
    const hga_py_edge_kind *kind = &pass->kind;
    int64_t queries = n_queries(pass->edges), keys = hga_graph_nodes(pass->edges->graph).n_keys;
    *io = (hga_io){.tape = pass->tape};
    const uintptr_t query = kind->of_values ? (uintptr_t)pass->products[0] : call->query;
    const uintptr_t key = kind->of_values ? (uintptr_t)pass->products[1] : call->key;
    io->query = rows_of(query, queries, kind->heads, kind->dim);
    io->key = rows_of(key, keys, kind->heads, kind->dim);
    io->value = rows_of(call->value, keys, kind->heads, kind->dim_v);
    io->out = rows_of(call->out, queries, kind->heads, kind->dim_v);
    if (call->additive)
        io->table[HGA_TABLE_ADDITIVE] =
            (hga_table){.data = (const float *)call->additive, .rows = kind->heads, .columns = kind->dim};
    const hga_table edge = {.data = pass->rows, .rows = pass->edges->n, .columns = edge_columns(kind)};
    if (kind->edge_rows) io->edge_key = edge;
    if (kind->edge_rows > 1) io->edge_value = edge;
    io->seed = call->seed;
}

/* Carves floats, where any are wanted. */
static float *carve(char **at, int64_t *bytes, int64_t floats)
{
    float *found = floats && *at ? (float *)(void *)*at : NULL;
    const int64_t all = (floats * (int64_t)sizeof *found + 63) / 64 * 64;
    *bytes += all, *at = *at ? *at + all : NULL;
    return found;
}

static int64_t floats_of_rows(const hga_py_pass *pass) { return pass->edges->n * edge_columns(&pass->kind); }

static int64_t floats_of_products(const hga_py_pass *pass)
{
    return pass->kind.of_values ? n_queries(pass->edges) * pass->kind.heads : 0;
}

/* What a pass needs beside the plan; returns the bytes. */
static int64_t lay_out(hga_py_pass *pass, char *memory)
{
    const int64_t tape = hga_plan_tape_bytes(hga_py_cached_plan(pass->cached));
    int64_t bytes = 0;
    pass->tape = carve(&memory, &bytes, (tape + 3) / (int64_t)sizeof(float));
    pass->rows = carve(&memory, &bytes, floats_of_rows(pass));
    for (int i = 0; i < 2; i++) pass->products[i] = carve(&memory, &bytes, floats_of_products(pass));
    return bytes;
}

static hga_py_memory *memory_of(const hga_py_pass *pass) { return hga_py_cached_memory(pass->cached); }

static hga_status take_workspace(const hga_py_pass *pass, hga_py_workspaces **out)
{
    return hga_py_take_workspaces(pass->cached, hga_py_cached_number(pass->cached), 1, out);
}

/* The pass's memory: rows of edges in the order of the graph, and products of values. */
static hga_status prepare(hga_py_pass *pass, const hga_py_edge_call *call)
{
    const hga_id columns = edge_columns(&pass->kind);
    const float *from = (const float *)call->edge;
    const hga_py_products products = products_of(pass, call);
    hga_status st = hga_py_take_memory(memory_of(pass), lay_out(pass, NULL), 0, &pass->memory);
    if (st) return st;
    lay_out(pass, pass->memory);
    if (pass->tape) memset(pass->tape, 0, (size_t)hga_plan_tape_bytes(hga_py_cached_plan(pass->cached)));
    for (int64_t i = 0; columns && i < pass->edges->n; i++)
        memcpy(pass->rows + i * columns, from + pass->edges->order[i] * columns, sizeof(float) * (size_t)columns);
    if (pass->kind.of_values) hga_py_multiply(&products, pass->products[0], pass->products[1]);
    return HGA_OK;
}

/* The gradients of rows, in the order in which edges came, where those that loops replaced get zeros; of values NULL:
   they have none. */
static void give_rows(const hga_py_pass *pass, const float *of_keys, const float *of_values, float *to)
{
    const hga_py_edges *edges = pass->edges;
    const hga_id columns = edge_columns(&pass->kind);
    if (edges->given > edges->n) memset(to, 0, sizeof *to * (size_t)(edges->given * columns));
    for (int64_t i = 0; i < edges->n; i++, of_keys += columns) {
        float *row = to + edges->order[i] * columns;
        for (hga_id c = 0; c < columns; c++) row[c] = of_keys[c];
        for (hga_id c = 0; of_values && c < columns; c++) row[c] += of_values[i * columns + c];
    }
}

static hga_status run(const hga_py_pass *pass, const hga_py_edge_call *call)
{
    hga_io io;
    hga_py_workspaces *workspaces;
    hga_status st = take_workspace(pass, &workspaces);
    if (st) return st;
    describe(pass, call, &io);
    memset((void *)call->out, 0, sizeof(float) * (size_t)(io.out.rows * io.out.row_stride)); /* nodes without edges */
    st = hga_plan_execute(hga_py_cached_plan(pass->cached), workspaces->workspaces[0], &io);
    hga_py_give_workspaces(pass->cached, workspaces);
    return st;
}

hga_status hga_py_attend_along(const hga_py_edge_kind *kind, const hga_py_edges *edges, const hga_py_edge_call *call,
                               hga_py_pass **out)
{
    plan_of of = {kind, edges->graph};
    hga_py_maker maker = {{-1, kind->key}, make_plan, &of};
    hga_py_pass *pass = calloc(1, sizeof *pass);
    hga_status st = pass ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for a call");
    if (!st) pass->kind = *kind, pass->edges = edges, st = hga_py_borrow(&maker, edges->graph, &pass->cached);
    if (!st) st = prepare(pass, call);
    if (!st) st = run(pass, call);
    if (st || !out) hga_py_pass_end(pass), pass = NULL;
    if (out) *out = pass;
    return st;
}

void hga_py_pass_end(hga_py_pass *pass)
{
    if (!pass) return;
    if (pass->cached) hga_py_give_memory(pass->memory), hga_py_release(pass->cached);
    free(pass);
}

/* ---- back ---- */

/* What the library computes in place of gradients that the caller wants: of rows of edges, in the order of the graph,
   and of queries and keys that are products. */
typedef struct own_gradients {
    void *memory; /* all that follows; NULL: not needed */
    float *of_keys, *of_values, *products[2];
} own_gradients;

static int64_t lay_out_gradients(const hga_py_pass *pass, const hga_py_edge_gradients *wanted, own_gradients *own,
                                 char *memory)
{
    const int64_t rows = wanted->edge ? floats_of_rows(pass) : 0;
    int64_t bytes = 0;
    own->of_keys = carve(&memory, &bytes, rows);
    own->of_values = carve(&memory, &bytes, pass->kind.edge_rows > 1 ? rows : 0);
    for (int i = 0; i < 2; i++) own->products[i] = carve(&memory, &bytes, floats_of_products(pass));
    return bytes;
}

/* From the library's gradients to the caller's. */
static void finish(const hga_py_pass *pass, const hga_py_edge_call *call, const own_gradients *own,
                   const hga_py_edge_gradients *wanted)
{
    const hga_py_products x = products_of(pass, call);
    if (pass->kind.of_values)
        hga_py_multiply_back(&x, own->products[0], own->products[1], (float *)wanted->value, (float *)wanted->query,
                             (float *)wanted->key);
    if (own->of_keys) give_rows(pass, own->of_keys, own->of_values, (float *)wanted->edge);
}

hga_status hga_py_gradient_along(const hga_py_pass *pass, const hga_py_edge_call *call, uintptr_t d_out,
                                 const hga_py_edge_gradients *wanted)
{
    const hga_py_edge_kind *kind = &pass->kind;
    const int products = kind->of_values;
    hga_py_workspaces *workspaces = NULL;
    own_gradients own = {0};
    hga_io io;
    hga_status st = hga_py_take_memory(memory_of(pass), lay_out_gradients(pass, wanted, &own, NULL), 0, &own.memory);
    if (st) return st;
    lay_out_gradients(pass, wanted, &own, own.memory);
    describe(pass, call, &io);
    const uintptr_t d_query = products ? (uintptr_t)own.products[0] : wanted->query,
                    d_key = products ? (uintptr_t)own.products[1] : wanted->key;
    hga_grad_io grad = {.d_out = rows_of(d_out, io.out.rows, kind->heads, kind->dim_v),
                        .d_query = rows_of(d_query, io.query.rows, kind->heads, kind->dim),
                        .d_key = rows_of(d_key, io.key.rows, kind->heads, kind->dim),
                        .d_value = rows_of(wanted->value, io.value.rows, kind->heads, kind->dim_v)};
    grad.d_additive = (float *)wanted->additive;
    grad.d_edge_key = own.of_keys, grad.d_edge_value = own.of_values;
    st = take_workspace(pass, &workspaces);
    if (!st) st = hga_plan_gradient(hga_py_cached_plan(pass->cached), workspaces->workspaces[0], &io, &grad);
    if (workspaces) hga_py_give_workspaces(pass->cached, workspaces);
    if (!st) finish(pass, call, &own, wanted);
    hga_py_give_memory(own.memory);
    return st;
}
