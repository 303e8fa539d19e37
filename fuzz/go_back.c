/* go_back.c: gradients of a program, fast and plain, which must agree. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GIVEN = 6 + HGA_MAX_USER_TENSORS, MOST_WANTED = 10 + HGA_MAX_USER_TENSORS };

/* Where gradients go, and what is given for them; arrays are packed. */
typedef struct way {
    hga_io io;
    hga_grad_io grad;
    float *given[MOST_GIVEN], *wanted[MOST_WANTED];
    int64_t n[MOST_WANTED];
    int n_given, n_wanted;
} way;

static float *room(int64_t n)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    if (!x) fuzz_fail("no memory for %lld numbers", (long long)n);
    memset(x, 0xff, (size_t)(n > 0 ? n : 1) * sizeof *x); /* NaN */
    return x;
}

static hga_tensor given(way *w, int64_t rows, int64_t columns)
{
    float *x = w->given[w->n_given++] = room(rows * columns);
    uint64_t z = (uint64_t)w->n_given;
    for (int64_t i = 0; i < rows * columns; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((int64_t)(z >> 33) - ((int64_t)1 << 30)) * 0x1p-30f;
    }
    return (hga_tensor){.data = x, .rows = rows};
}

static float *wanted(way *w, int64_t n)
{
    w->n[w->n_wanted] = n;
    return w->wanted[w->n_wanted++] = room(n);
}

static hga_tensor wanted_rows(way *w, int64_t rows, int64_t columns)
{
    return (hga_tensor){.data = wanted(w, rows * columns), .rows = rows};
}

static int64_t columns_of(const hga_shape *s, hga_width width)
{
    int64_t values = s->dim_v ? s->dim_v : s->dim, kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    switch (width) {
    case HGA_WIDTH_KEY: return (int64_t)s->n_heads * s->dim;
    case HGA_WIDTH_KV_KEY: return kv * s->dim;
    case HGA_WIDTH_VALUE: return kv * values;
    case HGA_WIDTH_SCALAR: return s->n_heads;
    default: return s->n_heads * values;
    }
}

/* The same numbers in every way: tensors of as many rows as `like` has, and its tables. */
static way make_way(const hga_program *p, const hga_shape *s, const hga_io *like, hga_id n_nodes)
{
    way w = {.io = *like};
    int user = 0;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        int64_t columns = columns_of(s, p->field[f].width);
        switch (p->field[f].binding) {
        case HGA_IO_QUERY:
            w.io.query = given(&w, like->query.rows, columns);
            w.grad.d_query = wanted_rows(&w, like->query.rows, columns);
            break;
        case HGA_IO_KEY:
            w.io.key = given(&w, like->key.rows, columns), w.grad.d_key = wanted_rows(&w, like->key.rows, columns);
            break;
        case HGA_IO_VALUE:
            w.io.value = given(&w, like->value.rows, columns);
            w.grad.d_value = wanted_rows(&w, like->value.rows, columns);
            break;
        case HGA_IO_USER:
            w.io.user[user] = given(&w, like->user[user].rows, columns);
            w.grad.d_user[user] = wanted_rows(&w, like->user[user].rows, columns), user++;
            break;
        case HGA_IO_OUT:
            w.io.out = given(&w, like->out.rows, columns), w.grad.d_out = given(&w, like->out.rows, columns);
            if (p->has_lse) w.grad.d_lse = given(&w, like->out.rows, s->n_heads);
            break;
        default: break;
        }
    }
    w.io.lse = (hga_tensor){0};
    if (like->rel_key) w.grad.d_rel_key = wanted(&w, (int64_t)like->n_rel_key * s->dim);
    if (like->rel_bias) w.grad.d_rel_bias = wanted(&w, (int64_t)like->n_rel_bias * s->n_heads);
    if (like->edge_bias) w.grad.d_edge_bias = wanted(&w, like->n_edge_bias * like->edge_bias_heads);
    if (like->node_pos) w.grad.d_node_pos = wanted(&w, (int64_t)like->n_node_pos * s->pos_dim);
    if (like->type_scale) w.grad.d_type_scale = wanted(&w, like->n_type_scale);
    w.grad.d_log_mass = wanted(&w, n_nodes), w.grad.d_scale = wanted(&w, 1);
    return w;
}

static void clear_way(way *w)
{
    for (int i = 0; i < w->n_given; i++) free(w->given[i]);
    for (int i = 0; i < w->n_wanted; i++) free(w->wanted[i]);
    free(w->io.tape);
}

/* Once more after a call without tables, whatever that gives: the same bits, though a workspace keeps what it found. */
static hga_status go_back_again(const hga_plan *plan, hga_workspace *workspace, way *w)
{
    hga_io io = w->io;
    hga_grad_io bare = {.d_out = w->grad.d_out, .d_query = w->grad.d_query, .d_key = w->grad.d_key};
    float *first[MOST_WANTED];
    hga_status st = HGA_OK;
    for (int i = 0; i < w->n_wanted; i++) {
        size_t bytes = (size_t)w->n[i] * sizeof(float);
        if (!(first[i] = malloc(bytes + 1))) fuzz_fail("no memory for a gradient");
        memcpy(first[i], w->wanted[i], bytes);
    }
    io.rel_key = io.rel_bias = io.edge_bias = NULL;
    HGA_TRY(hga_plan_gradient(plan, workspace, &io, &bare));
    HGA_TRY(hga_plan_gradient(plan, workspace, &w->io, &w->grad));
    for (int i = 0; i < w->n_wanted; i++)
        if (memcmp(first[i], w->wanted[i], (size_t)w->n[i] * sizeof(float)) != 0)
            fuzz_fail("gradient %d has other bits in a second call", i);
done:
    for (int i = 0; i < w->n_wanted; i++) free(first[i]);
    return st;
}

/* Forward and back; *fast: whether it went the fast way. */
static hga_status go(const hga_graph *g, const hga_program *p, const hga_shape *s, hga_options options, way *w,
                     int *fast)
{
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_status st;
    options.gradient = 1, options.allocator = &a;
    HGA_TRY(hga_plan_create(g, p, s, &options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    *fast = hga_plan_gradient_plain(plan) == NULL;
    if (!(w->io.tape = malloc((size_t)hga_plan_tape_bytes(plan)))) fuzz_fail("no memory for a tape");
    HGA_TRY(hga_plan_execute(plan, workspace, &w->io));
    HGA_TRY(hga_plan_gradient(plan, workspace, &w->io, &w->grad));
    HGA_TRY(go_back_again(plan, workspace, w));
done:
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    fuzz_memory_end(&memory, "a gradient");
    if (st && !hga_error_detail()[0]) fuzz_fail("%s without a word", hga_status_name(st));
    return st;
}

/* Of the size of the gradient they are in; of what is no number nobody says more. */
static void compare(const char *what, const way *a, const way *b, double tolerance)
{
    for (int i = 0; i < a->n_wanted; i++) {
        double size = 1;
        for (int64_t j = 0; j < a->n[i]; j++) size = fmax(size, fabs((double)a->wanted[i][j]));
        for (int64_t j = 0; j < a->n[i] && isfinite(size); j++) {
            float x = a->wanted[i][j], y = b->wanted[i][j];
            int same = memcmp(&x, &y, sizeof x) == 0 || !isfinite(x) ||
                       (tolerance > 0 && fabs((double)x - (double)y) <= tolerance * size);
            if (!same)
                fuzz_fail("%s: number %lld of gradient %d is %.9g, then %.9g", what, (long long)j, i, (double)x,
                          (double)y);
        }
    }
}

/* Of graphs of an odd number of nodes, the gradients of some rows of the output alone. */
static void ask_for_rows(hga_id n_nodes, way *w, hga_options *options)
{
    int64_t rows = w->io.out.rows;
    if (n_nodes % 2 == 0 || rows < 2) return;
    options->ranges = 1, options->keep_fields = 0;
    w->io.first_row = n_nodes % rows, w->io.n_rows = 1 + (rows - w->io.first_row) / 2;
}

long fuzz_n_back;

void fuzz_go_back(const hga_graph *g, const hga_program *p, const hga_shape *s, const hga_io *like, hga_options options)
{
    int fast, plain;
    hga_id n = hga_graph_nodes(g).n;
    hga_options one = options, generic = options;
    options.precision = one.precision = generic.precision = HGA_PRECISION_F32; /* what rounds has no one gradient */
    one.threads = 1, generic.generic = 1;
    way a = make_way(p, s, like, n), b = make_way(p, s, like, n), c = make_way(p, s, like, n);
    ask_for_rows(n, &a, &options), ask_for_rows(n, &b, &one), ask_for_rows(n, &c, &generic);
    hga_status st = go(g, p, s, options, &a, &fast), same = go(g, p, s, one, &b, &fast),
               definition = go(g, p, s, generic, &c, &plain);
    if (st != same || st != definition)
        fuzz_fail("gradients: %s, on one thread %s, plain %s", hga_status_name(st), hga_status_name(same),
                  hga_status_name(definition));
    if (!st) {
        fuzz_n_back += fast;
        compare("a gradient on one thread", &a, &b, 0);
        compare("the plain gradient", &c, &a, 2e-3);
    }
    clear_way(&a), clear_way(&b), clear_way(&c);
}
