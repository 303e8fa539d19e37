/* test_allocation.c: every function that makes something is run with its first allocation failing, then its second,
   and so on until it succeeds. Each time it must say HGA_ENOMEM, give NULL and leave no block behind. Once with the
   caller's allocator, once with malloc itself, which the packages use inside. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hga.h>

#include "instruments.h"

/* ---- a fuse: the n-th allocation fails ---- */

/* `left` allocations until the one that fails, 0 when none will; what is taken and not given back. */
typedef struct fuse {
    long left, blocks;
    long long bytes;
    int blown;
} fuse;

static int blow(fuse *f)
{
    if (f->left == 0 || --f->left > 0) return 0;
    return f->blown = 1;
}

/* The size stands in front of the block, so that release can be held to it. */
enum { FRONT = 64 };

static void *fused_allocate(size_t bytes, void *context)
{
    fuse *f = context;
    void *p = NULL;
    if (blow(f) || posix_memalign(&p, FRONT, bytes + FRONT)) return NULL;
    memcpy(p, &bytes, sizeof bytes);
    f->blocks++, f->bytes += (long long)bytes;
    return (char *)p + FRONT;
}

static void fused_release(void *memory, size_t bytes, void *context)
{
    fuse *f = context;
    size_t taken;
    memcpy(&taken, (char *)memory - FRONT, sizeof taken);
    assert_int_equal(taken, bytes);
    f->blocks--, f->bytes -= (long long)bytes;
    free((char *)memory - FRONT);
}

static fuse lent;
static const hga_allocator fused = {fused_allocate, fused_release, &lent};

/* ---- the same for malloc ---- */
/* this program's is taken before the C library's. Sanitisers bring their own, so not with them. */

static _Thread_local fuse libc;
static _Thread_local int watching;

#if defined(__GLIBC__) && !defined(IS_SANITIZED)
enum { MALLOC_IS_OURS = 1 };
/* seen by the shared libraries, in a program whose symbols are hidden */
#define FOR_ALL __attribute__((visibility("default")))
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *counted(void *p)
{
    if (watching && p) libc.blocks++;
    return p;
}

FOR_ALL void *malloc(size_t bytes) { return watching && blow(&libc) ? refuse() : counted(__libc_malloc(bytes)); }

FOR_ALL void *calloc(size_t n, size_t bytes)
{
    return watching && blow(&libc) ? refuse() : counted(__libc_calloc(n, bytes));
}

FOR_ALL void *realloc(void *old, size_t bytes)
{
    if (watching && blow(&libc)) return refuse();
    return old ? __libc_realloc(old, bytes) : counted(__libc_realloc(old, bytes));
}

FOR_ALL int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (watching && blow(&libc)) return ENOMEM;
    *out = counted(__libc_memalign(alignment, bytes));
    return *out ? 0 : ENOMEM;
}

FOR_ALL void *aligned_alloc(size_t alignment, size_t bytes)
{
    return watching && blow(&libc) ? refuse() : counted(__libc_memalign(alignment, bytes));
}

FOR_ALL void free(void *memory)
{
    if (watching && memory) libc.blocks--;
    __libc_free(memory);
}
#else
enum { MALLOC_IS_OURS = 0 };
#endif

/* ---- what is tried ---- */

/* Makes one thing with allocator `a`, holds a failure to NULL, and gives everything back. */
typedef hga_status (*attempt)(const hga_allocator *a);

/* What is wrong after an attempt; NULL when nothing is. A caller's allocator is asked by us alone, so success in spite
   of it has hidden a failure. malloc is also asked by packages that can do without: stdio reads without its buffer. */
static const char *fault(const fuse *f, const fuse *before, hga_status st, int leaks)
{
    if (!leaks && (f->blocks != before->blocks || f->bytes != before->bytes)) return "memory is not given back";
    if (!f->blown) return st ? "no allocation failed" : NULL;
    if (st == HGA_OK && f == &lent) return "the failure is hidden";
    if (st != HGA_OK && st != HGA_ENOMEM) return "the status is another";
    return *hga_error_detail() ? NULL : "the detail is empty";
}

/* The n-th allocation fails, for every n until there are not so many. `leaks`: what is inside leaks by itself. */
static void fail_each(fuse *f, const hga_allocator *a, attempt make, int leaks)
{
    int n_faults = 0;
    long n = 0;
    do {
        fuse before = *f;
        f->blown = 0, f->left = ++n;
        watching = f == &libc;
        hga_status st = make(a);
        watching = 0, f->left = 0;
        const char *what = fault(f, &before, st, leaks);
        if (!what) continue;
        n_faults++;
        print_error("allocation %ld fails: %s; %s, %s; %+ld blocks\n", n, what, hga_status_name(st), hga_error_detail(),
                    f->blocks - before.blocks);
    } while (f->blown && n_faults < 10);
    assert_int_equal(n_faults, 0);
    assert_true(n > 1);
}

static void every_allocation(attempt make) { fail_each(&lent, &fused, make, 0); }

/* The packages keep things for good when they are first used, so once beforehand. */
static void every_malloc(attempt make, int leaks)
{
    if (!MALLOC_IS_OURS) skip();
    assert_int_equal(make(NULL), HGA_OK);
    fail_each(&libc, NULL, make, leaks);
}

static hga_status settle(hga_status st, hga_graph **g)
{
    if (st && *g) fail_msg("%s, and yet a graph", hga_status_name(st));
    hga_graph_destroy(*g);
    return st;
}

/* A graph at the outset of an attempt; wild is not NULL. */
#define NOWHERE ((void *)(uintptr_t)64)

static hga_status make_dense(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_dense(&(hga_dense){.n_tokens = 30, .n_keys = 20, .allocator = a}, &g, &p), &g);
}

static hga_status make_window(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(
        hga_build_window(&(hga_window){.n_tokens = 50, .left = 6, .right = 4, .global = 2, .stride = 2, .allocator = a},
                         &g, &p),
        &g);
}

static hga_status make_bpt(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_bpt(&(hga_bpt){.n_tokens = 45, .k = 2, .clip = 3, .allocator = a}, &g, &p), &g);
}

static hga_status make_htransformer(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_htransformer(&(hga_htransformer){.n_tokens = 45, .block = 3, .allocator = a}, &g, &p), &g);
}

static hga_status make_htransformer_causal(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_htransformer h = {
        .n_tokens = 45, .block = 4, .structure = HGA_SIBLINGS, .causal = 1, .relative = 1, .allocator = a};
    return settle(hga_build_htransformer(&h, &g, &p), &g);
}

static hga_status make_htransformer_linear(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(
        hga_build_htransformer(
            &(hga_htransformer){.n_tokens = 45, .n_keys = 33, .block = 4, .linear = 1, .allocator = a}, &g, &p),
        &g);
}

static const int32_t leaf_of[12] = {3, 1, 0, -1, 2, 2, 1, 0, 3, 3, 1, 0};

static hga_status make_treeformer_fine(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_treeformer t = {.n_queries = 12, .n_tree_heads = 1, .height = 2, .query_leaf = leaf_of, .allocator = a};
    return settle(hga_build_treeformer_fine(&t, &g, &p), &g);
}

static hga_status make_treeformer_coarse(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_treeformer t = {.n_queries = 6, .n_tree_heads = 2, .height = 2, .query_leaf = leaf_of, .allocator = a};
    return settle(hga_build_treeformer_coarse(&t, &g, &p), &g);
}

static hga_status make_hsa_windows(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(
        hga_build_hsa(&(hga_hsa){.n_tokens = 40, .branching = (const hga_id[]){2, 3}, .n_branching = 2, .allocator = a},
                      &g, &p),
        &g);
}

/* Two trees: 6 (0 1 5 (2 3)) and 7 (4). */
static const hga_id parent_of[8] = {6, 6, 5, 5, 7, 6, -1, -1};

static hga_status make_hsa_parent(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_id node_of[8];
    hga_hsa h = {.parent = parent_of, .n_parent = 8, .causal = 1, .self = 0, .node_of = node_of, .allocator = a};
    return settle(hga_build_hsa(&h, &g, &p), &g);
}

static hga_status make_fenwick(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_fenwick(&(hga_fenwick){.n_tokens = 45, .allocator = a}, &g, &p), &g);
}

static hga_status make_dilated(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const hga_id segments[] = {4, 9}, dilations[] = {1, 2};
    hga_dilated d = {.n_tokens = 30, .segments = segments, .n_segments = 2, .dilations = dilations, .n_dilations = 2};
    d.allocator = a;
    return settle(hga_build_dilated(&d, &g, &p), &g);
}

static hga_status make_segments(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const int32_t query[] = {0, 0, -1, 1}, key[] = {0, -1, 1, 1, 2};
    hga_segmented s = {.n_tokens = 4, .n_keys = 5, .query_segment = query, .key_segment = key, .allocator = a};
    return settle(hga_build_segments(&s, &g, &p), &g);
}

/* By hand: three levels, orders, blocks, and explicit edges with types, weights and a duplicate. */
static hga_status make_by_hand(const hga_allocator *a)
{
    hga_status st;
    hga_builder *b = NOWHERE;
    hga_graph *g = NULL;
    hga_id relation, sparse;
    const hga_id order[] = {4, 2, 0, 1, 3};
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_builder_add_level(b, 5, NULL));
    HGA_TRY(hga_builder_add_level(b, 2, NULL));
    HGA_TRY(hga_builder_add_level(b, 1, NULL));
    HGA_TRY(hga_builder_set_families(b, 5, 0, 5, 3));
    HGA_TRY(hga_builder_set_children(b, 7, 5, 2));
    HGA_TRY(hga_builder_set_mass(b, 2, 2));
    HGA_TRY(hga_builder_add_relation(b, "near", &relation));
    HGA_TRY(hga_builder_set_order(b, relation, order, 5, order, 5));
    HGA_TRY(hga_builder_add_blocks(b, relation,
                                   &(hga_block){.dst = 0, .n_dst = 2, .src = 0, .n_src = 3, .type = 1, .type_src = 1}));
    HGA_TRY(hga_builder_add_relation(b, "sparse", &sparse));
    for (hga_id i = 0; i < 40; i++)
        HGA_TRY(hga_builder_add_edge(b, sparse, i % 8, i * 3 % 8, i % 2, 1 + (float)(i % 8)));
    g = NOWHERE;
    HGA_TRY(hga_builder_finish(b, &g));
done:
    hga_builder_destroy(b);
    return settle(st, &g);
}

/* ---- from a graph made beforehand; it lives by `fused`, so what is made from it does too ---- */

static hga_graph *given, *other, *wide, *near; /* wide: rows of more edges than a piece; near: a few */
static hga_program program, wide_program, near_program;
static hga_plan *plan;

static hga_status make_transpose(const hga_allocator *a)
{
    (void)a;
    hga_graph *g = NOWHERE;
    return settle(hga_graph_transpose(given, &g), &g);
}

static hga_status make_compress(const hga_allocator *a)
{
    (void)a;
    hga_graph *g = NOWHERE;
    return settle(hga_graph_compress(given, &g), &g);
}

static hga_status make_concat(const hga_allocator *a)
{
    (void)a;
    hga_graph *g = NOWHERE;
    hga_node_map map = {0};
    hga_status st = hga_graph_concat((const hga_graph *const[]){given, other, given}, 3, &g, &map);
    hga_node_map_clear(&map);
    return settle(st, &g);
}

static hga_status make_rows(const hga_allocator *a)
{
    (void)a;
    hga_csr rows = {0};
    hga_status st = HGA_OK;
    for (hga_id r = 0; !st && r < hga_graph_nodes(given).n_relations; r++) {
        st = hga_graph_rows(given, r, 0, hga_graph_nodes(given).n, &rows);
        hga_csr_clear(&rows);
    }
    return st;
}

static const char graph_file[] = "test_allocation.json";

static hga_status make_read(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    char *text = NOWHERE;
    hga_status st = hga_graph_read_json(a, graph_file, &g, &text);
    if (st && text) fail_msg("%s, and yet a program", hga_status_name(st));
    hga_text_free(text);
    return settle(st, &g);
}

/* One file of each kind that other programs write: that fuzzer's seeds without their first line, which names the kind.
   */
#define IMPORTS(each) each(mtx) each(csv) each(graphml) each(gml) each(graph) each(npy) each(npz)

static void bring(const char *kind)
{
    char from[512], to[64], line[64];
    snprintf(from, sizeof from, HGA_CORPUS "/import/%s", kind);
    snprintf(to, sizeof to, "test_allocation.%s", kind);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in), assert_non_null(out);
    assert_non_null(fgets(line, sizeof line, in));
    for (int byte; (byte = fgetc(in)) != EOF;) fputc(byte, out);
    assert_int_equal(fclose(in) | fclose(out), 0);
}

#define MAKE_IMPORT(kind)                                                               \
    static hga_status make_import_##kind(const hga_allocator *a)                        \
    {                                                                                   \
        hga_graph *g = NOWHERE;                                                         \
        return settle(hga_graph_read(a, "test_allocation." #kind, NULL, &g, NULL), &g); \
    }
IMPORTS(MAKE_IMPORT)

static const char mapped_file[] = "test_allocation_mapped.csv";

/* Under a tree of its own, tokens in the tree's order, with a map. */
static hga_status make_mapped(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_node_map map = {0};
    const hga_id parents[7] = {4, 5, 4, 5, 6, 6, -1};
    const hga_import wish = {.parents = parents, .n_parents = 7, .depth_first = 1, .node_map = &map};
    hga_status st = hga_graph_read_csv(a, mapped_file, &wish, &g);
    if (st && (map.n_graphs || map.id)) fail_msg("%s, and yet a map", hga_status_name(st));
    hga_node_map_clear(&map);
    return settle(st, &g);
}

static hga_status make_program_text(const hga_allocator *a)
{
    (void)a;
    char *text = NOWHERE;
    hga_status st = hga_program_to_json(&program, given, &text);
    if (st && text) fail_msg("%s, and yet a text", hga_status_name(st));
    hga_text_free(text);
    return st;
}

static char *program_text;

static hga_status make_program_back(const hga_allocator *a)
{
    (void)a;
    hga_program p;
    return hga_program_from_json(program_text, given, &p);
}

static hga_status make_written(const hga_allocator *a)
{
    (void)a;
    return hga_graph_write_json(given, "\"program\": {}", "test_allocation_written.json");
}

static hga_status make_influence(const hga_allocator *a)
{
    (void)a;
    hga_id token, sees;
    return hga_program_influence(&program, given, &token, &sees);
}

static hga_status make_coverage(const hga_allocator *a)
{
    (void)a;
    hga_coverage coverage;
    return hga_program_coverage(&program, given, 0, &coverage);
}

static hga_status make_levels(const hga_allocator *a)
{
    (void)a;
    hga_coverage coverage;
    hga_levels_count levels;
    hga_status st = hga_program_coverage_levels(&program, given, 0, &coverage, &levels);
    hga_levels_count_clear(&levels);
    return st;
}

static hga_status make_layers(const hga_allocator *a)
{
    (void)a;
    hga_id layers;
    return hga_program_layers(&near_program, near, 0, 100, &layers);
}

static hga_status look_away(const hga_patch *patch, void *context)
{
    (void)patch, (void)context;
    return HGA_OK;
}

static hga_status make_pattern(const hga_allocator *a)
{
    (void)a;
    return hga_program_pattern(&program, given, look_away, NULL);
}

static hga_status see_nothing(const hga_seen *seen, void *context)
{
    (void)seen, (void)context;
    return HGA_OK;
}

static hga_status make_row(const hga_allocator *a)
{
    (void)a;
    return hga_program_row(&program, given, 1, see_nothing, NULL);
}

static const hga_shape shape = {.n_heads = 2, .dim = 8};

static hga_status make_weights(const hga_allocator *a)
{
    (void)a;
    static float zeros[1 << 16];
    static double weight[1 << 10];
    hga_io io = {.query = {.data = zeros}, .key = {.data = zeros}};
    assert_true(hga_graph_nodes(given).n <= 1 << 10);
    return hga_program_weights(&program, given, &shape, &io, 1, 1, NULL, NULL, weight);
}

static hga_options options_of(const hga_allocator *a)
{
    return (hga_options){.threads = 1, .cut_edges = 64, .allocator = a};
}

static hga_status make_plan(const hga_allocator *a)
{
    hga_options options = options_of(a);
    hga_plan *made = NOWHERE;
    hga_status st = hga_plan_create(given, &program, &shape, &options, &made);
    if (st && made) fail_msg("%s, and yet a plan", hga_status_name(st));
    hga_plan_destroy(made);
    return st;
}

static hga_status make_wide_plan(const hga_allocator *a)
{
    hga_options options = options_of(a);
    hga_plan *made = NOWHERE;
    hga_status st = hga_plan_create(wide, &wide_program, &shape, &options, &made);
    if (st && made) fail_msg("%s, and yet a plan", hga_status_name(st));
    hga_plan_destroy(made);
    return st;
}

/* An update that fails leaves a plan that can be destroyed. */
static hga_status make_update(const hga_allocator *a)
{
    hga_options options = options_of(a);
    hga_plan *made = NULL;
    hga_status st = hga_plan_create(given, &program, &shape, &options, &made);
    if (!st) st = hga_plan_update(made, other);
    hga_plan_destroy(made);
    return st;
}

static hga_status make_state(const hga_allocator *a)
{
    (void)a;
    hga_workspace *state = NOWHERE;
    hga_status st = hga_workspace_create(plan, &state);
    if (st && state) fail_msg("%s, and yet a state", hga_status_name(st));
    hga_workspace_destroy(state);
    return st;
}

static hga_status make_explain(const hga_allocator *a)
{
    (void)a;
    char *text = NOWHERE;
    hga_status st = hga_plan_explain(plan, &text);
    if (st && text) fail_msg("%s, and yet a text", hga_status_name(st));
    hga_text_free(text);
    return st;
}

static hga_status make_attention(const hga_allocator *a)
{
    static float x[100][2][8], out[100][2][8];
    hga_options options = options_of(a);
    hga_io io = {.query = {.data = x, .rows = 100},
                 .key = {.data = x, .rows = 100},
                 .value = {.data = x, .rows = 100},
                 .out = {.data = out, .rows = 100}};
    return hga_attention(given, &program, &shape, &options, &io);
}

/* What some rows of the output need is found where there is room for it. */
static hga_status make_ranges(const hga_allocator *a)
{
    hga_options options = options_of(a);
    options.ranges = 1;
    hga_plan *made = NOWHERE;
    hga_workspace *own = NULL;
    hga_status st = hga_plan_create(given, &program, &shape, &options, &made);
    if (st && made) fail_msg("%s, and yet a plan", hga_status_name(st));
    if (!st) st = hga_plan_update(made, other);
    if (!st) st = hga_workspace_create(made, &own);
    hga_workspace_destroy(own), hga_plan_destroy(made);
    return st;
}

static hga_status make_sixteen(const hga_allocator *a)
{
    static float x[100][2][8], out[100][2][8];
    hga_options options = options_of(a);
    hga_io io = {.query = {.data = x, .rows = 100, .dtype = HGA_F16},
                 .key = {.data = x, .rows = 100},
                 .value = {.data = x, .rows = 100},
                 .out = {.data = out, .rows = 100, .dtype = HGA_BF16}};
    return hga_attention(given, &program, &shape, &options, &io);
}

/* A tree's gradient and what coarse attention asks of its paths. */
static hga_status make_route_gradient(const hga_allocator *a)
{
    static const float x[4] = {1, 2, 3, 4}, weights[6] = {1, -1, 1, 1, 2, 1}, bias[3] = {0}, given_path[2] = {1, 1};
    static const int32_t leaf[2] = {0, 3};
    float d_weights[6];
    hga_router r = {.height = 2, .dim = 2, .n_heads = 1, .weights = weights, .bias = bias};
    return hga_route_gradient(&r, &(hga_route_grad){.x = x,
                                                    .n = 2,
                                                    .row_stride = 2,
                                                    .leaf = leaf,
                                                    .d_path = given_path,
                                                    .d_weights = d_weights,
                                                    .allocator = a});
}

static hga_status make_coarse_gradient(const hga_allocator *a)
{
    static const float x[2] = {1, 2}, alpha[3] = {1, 1, 1};
    static const int32_t leaf[2] = {0, 3};
    float d_query[6];
    hga_treeformer t = {.n_queries = 2, .n_tree_heads = 1, .height = 2, .query_leaf = leaf, .allocator = a};
    return hga_coarse_gradient(
        &t, &(hga_coarse_grad){.dim_v = 1, .value = x, .d_out = x, .alpha = alpha, .d_query = d_query});
}

/* What a batch runs on is made; running it takes nothing. */
static hga_status make_batch(const hga_allocator *a)
{
    static float x[100][2][8], out[2][100][2][8];
    hga_options options = options_of(a);
    hga_plan *made = NULL;
    hga_workspace *own[2] = {NULL, NULL};
    hga_io io[2];
    for (int i = 0; i < 2; i++)
        io[i] = (hga_io){.query = {.data = x, .rows = 100},
                         .key = {.data = x, .rows = 100},
                         .value = {.data = x, .rows = 100},
                         .out = {.data = out[i], .rows = 100}};
    hga_status st = hga_plan_create(given, &program, &shape, &options, &made);
    for (int i = 0; !st && i < 2; i++) st = hga_workspace_create(made, &own[i]);
    long blocks = lent.blocks;
    if (!st) st = hga_plan_execute_batch(made, own, io, 2);
    assert_int_equal(lent.blocks, blocks);
    for (int i = 0; i < 2; i++) hga_workspace_destroy(own[i]);
    hga_plan_destroy(made);
    return st;
}

/* ---- trees found in data ---- */

static hga_status settle_tree(hga_status st, hga_tree *t)
{
    if (st && t->parent) fail_msg("%s, and yet a tree", hga_status_name(st));
    hga_tree_clear(t);
    return st;
}

static hga_status make_tree_text(const hga_allocator *a)
{
    static const char text[] = "CHAPTER I\n\nIt was late. Nobody came, or so it seemed.\n\nThen somebody "
                               "did.\n\nCHAPTER II\n\nHe knocked. Twice!\n";
    hga_tree t = {0};
    return settle_tree(hga_tree_text(a, text, sizeof text - 1, NULL, 0, &t), &t);
}

static hga_status make_tree_html(const hga_allocator *a)
{
    static const char text[] = "<title>A page</title><h1>One</h1><p>It was late. Nobody came.<ul><li>a<li>b c</ul>";
    hga_tree t = {0};
    return settle_tree(hga_tree_html(a, text, sizeof text - 1, &t), &t);
}

static hga_status make_tree_markdown(const hga_allocator *a)
{
    static const char text[] = "# One\n\nIt was late. Nobody came.\n\n- a\n- b c\n";
    hga_tree t = {0};
    return settle_tree(hga_tree_markdown(a, text, sizeof text - 1, &t), &t);
}

static hga_status make_tree_linkage(const hga_allocator *a)
{
    hga_tree t = {0};
    return settle_tree(hga_tree_linkage(a, (const double[]){0, 2, .5, 2, 1, 3, .7, 3}, 2, &t), &t);
}

static hga_status make_names(const hga_allocator *a)
{
    hga_builder *b = NULL;
    hga_graph *g = NULL, *named = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_builder_add_level(b, 3, NULL));
    HGA_TRY(hga_builder_finish(b, &g));
    st = hga_graph_set_names(g, (const char *const[]){"a", NULL, "c"}, 3, &named);
    if (st && named) fail_msg("%s, and yet a graph", hga_status_name(st));
done:
    hga_builder_destroy(b);
    hga_graph_destroy(g), hga_graph_destroy(named);
    return st;
}

static hga_status make_tree_grid(const hga_allocator *a)
{
    hga_tree t = {0};
    hga_id cell[30];
    return settle_tree(hga_tree_grid(a, 5, 6, (const hga_id[]){2, 2}, 2, cell, &t), &t);
}

static hga_status make_tree_set(const hga_allocator *a)
{
    hga_tree t = {0};
    return settle_tree(hga_tree_set(a, 7, &t), &t);
}

static hga_status make_tree_record(const hga_allocator *a)
{
    hga_tree t = {0};
    return settle_tree(hga_tree_record(a, 3, (const hga_id[]){1, 4, 2}, &t), &t);
}

/* ---- the facts ---- */

static int prepare(void **state)
{
    (void)state;
    hga_status st;
    hga_options options = options_of(&fused);
    const hga_hsa h = {.parent = parent_of, .n_parent = 8, .allocator = &fused};
    hga_htransformer h1d = {.n_tokens = 45, .block = 4, .causal = 1, .relative = 1, .allocator = &fused};
    HGA_TRY(hga_build_htransformer(&h1d, &other, &program));
    h1d.relative = 0;
    HGA_TRY(hga_build_htransformer(&h1d, &given, &program));
    HGA_TRY(hga_build_window(&(hga_window){.n_tokens = 40, .left = 2, .right = 2, .stride = 1, .allocator = &fused},
                             &near, &near_program));
    HGA_TRY(hga_build_dense(&(hga_dense){.n_tokens = 150, .allocator = &fused}, &wide, &wide_program));
    HGA_TRY(hga_program_to_json(&program, given, &program_text));
    HGA_TRY(hga_plan_create(given, &program, &shape, &options, &plan));
#define BRING(kind) bring(#kind);
    IMPORTS(BRING)
    FILE *pairs = fopen(mapped_file, "wb");
    assert_non_null(pairs);
    fputs("0,1\n2,3\n", pairs);
    assert_int_equal(fclose(pairs), 0);
    hga_graph *tree = NULL;
    hga_program unused;
    HGA_TRY(hga_build_hsa(&h, &tree, &unused));
    st = hga_graph_write_json(tree, "\"program\": {}", graph_file);
    hga_graph_destroy(tree);
done:
    if (st) print_error("%s: %s\n", hga_status_name(st), hga_error_detail());
    return st ? -1 : 0;
}

/* With everything given back nothing is left. */
static int clear(void **state)
{
    (void)state;
    hga_plan_destroy(plan);
    hga_graph_destroy(given);
    hga_graph_destroy(other);
    hga_graph_destroy(wide);
    hga_graph_destroy(near);
    hga_text_free(program_text);
    remove(graph_file);
#define FORGET(kind) remove("test_allocation." #kind);
    IMPORTS(FORGET)
    remove("test_allocation_written.json"), remove(mapped_file);
    return lent.blocks || lent.bytes ? -1 : 0;
}

#define BY_ALLOCATOR(what)                                                     \
    static void every_failing_allocation_of_##what##_is_reported(void **state) \
    {                                                                          \
        (void)state;                                                           \
        every_allocation(make_##what);                                         \
    }
#define BY_MALLOC(what)                                                    \
    static void every_failing_malloc_of_##what##_is_reported(void **state) \
    {                                                                      \
        (void)state;                                                       \
        every_malloc(make_##what, 0);                                      \
    }

/* What takes a caller's allocator, or makes from what has one; and what runs through a package's own malloc (CXSparse,
   jansson, ICU). */
#define IMPORT_FACTS(fact)                                                                                      \
    fact(import_mtx) fact(import_csv) fact(import_graphml) fact(import_gml) fact(import_graph) fact(import_npy) \
        fact(import_npz) fact(mapped)
#define ALLOCATOR_FACTS(fact)                                                                                       \
    fact(dense) fact(fenwick) fact(dilated) fact(segments) fact(window) fact(bpt) fact(htransformer)                \
        fact(htransformer_causal) fact(htransformer_linear) fact(treeformer_fine) fact(treeformer_coarse)           \
            fact(hsa_windows) fact(hsa_parent) fact(by_hand) fact(transpose) fact(compress) fact(concat) fact(rows) \
                fact(read) fact(plan) fact(wide_plan) fact(update) fact(state) fact(attention) fact(sixteen)        \
                    fact(batch) fact(ranges) fact(route_gradient) fact(coarse_gradient) fact(tree_text)             \
                        fact(tree_grid) fact(tree_set) fact(tree_record) fact(tree_html) fact(tree_markdown)        \
                            fact(tree_linkage) fact(names) IMPORT_FACTS(fact)
#define MALLOC_FACTS(fact)                                                                                           \
    fact(dense) fact(window) fact(bpt) fact(htransformer) fact(hsa_parent) fact(treeformer_coarse) fact(by_hand)     \
        fact(transpose) fact(compress) fact(concat) fact(read) fact(written) fact(program_text) fact(program_back)   \
            fact(influence) fact(layers) fact(row) fact(coverage) fact(levels) fact(pattern) fact(weights)           \
                fact(explain) fact(import_mtx) fact(import_csv) fact(import_gml) fact(import_graph) fact(import_npy) \
                    fact(mapped)

/* libzip does not always say that its own malloc failed, and libxml2 leaks and prints then: .npz and .graphml are
   among the first alone. */
ALLOCATOR_FACTS(BY_ALLOCATOR)
MALLOC_FACTS(BY_MALLOC)

/* ICU 72 does not free its own objects when an allocation fails in ubrk_open, so only the status is held to anything
   here. */
static void every_failing_malloc_inside_icu_is_reported(void **state)
{
    (void)state;
    every_malloc(make_tree_text, 1);
}

#define ALLOCATOR_ROW(what) cmocka_unit_test(every_failing_allocation_of_##what##_is_reported),
#define MALLOC_ROW(what)    cmocka_unit_test(every_failing_malloc_of_##what##_is_reported),

int main(void)
{
    const struct CMUnitTest facts[] = {ALLOCATOR_FACTS(ALLOCATOR_ROW) MALLOC_FACTS(MALLOC_ROW)
                                           cmocka_unit_test(every_failing_malloc_inside_icu_is_reported)};
    return cmocka_run_group_tests(facts, prepare, clear);
}
