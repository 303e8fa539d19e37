/* variants.c: a table of the built-in variants over random parameters. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef hga_status build(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p);

/* ---- baselines ---- */

static hga_status all_pairs(hga_id n, hga_id n_keys, int causal, hga_graph **g, hga_program *p)
{
    hga_dense d;
    hga_defaults(&d);
    d.n_tokens = n, d.n_keys = n_keys, d.causal = causal;
    return hga_build_dense(&d, g, p);
}

static hga_status dense(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    (void)rng;
    return all_pairs(n, 0, 0, g, p);
}

static hga_status dense_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    (void)rng;
    return all_pairs(n, 0, 1, g, p);
}

static hga_status dense_cross(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return all_pairs(n, 1 + random_below(rng, 2 * n), 0, g, p);
}

static hga_status window(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = random_below(rng, n + 1), w.right = random_below(rng, n + 1);
    return hga_build_window(&w, g, p);
}

static hga_status window_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = random_below(rng, n + 1), w.right = 0, w.causal = 1;
    return hga_build_window(&w, g, p);
}

static hga_status window_global(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = random_below(rng, 9), w.right = random_below(rng, 9),
    w.global = 1 + random_below(rng, n < 3 ? n : 3);
    return hga_build_window(&w, g, p);
}

static hga_status window_strided(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = w.right = -1, w.stride = 2 + random_below(rng, 5), w.causal = random_below(rng, 2);
    return hga_build_window(&w, g, p);
}

/* ---- methods of the literature ---- */

static hga_status span_tree(hga_id n, uint64_t *rng, hga_bpt_rule rule, int causal, hga_graph **g, hga_program *p)
{
    hga_bpt b;
    hga_defaults(&b);
    b.n_tokens = n, b.k = 1 + random_below(rng, 6), b.clip = 1 + random_below(rng, 10), b.rule = rule,
    b.causal = causal;
    return hga_build_bpt(&b, g, p);
}

static hga_status bpt(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return span_tree(n, rng, HGA_BPT_SHIFTED, 0, g, p);
}

static hga_status bpt_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return span_tree(n, rng, HGA_BPT_SHIFTED, 1, g, p);
}

static hga_status bpt_text(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return span_tree(n, rng, HGA_BPT_TEXT, 0, g, p);
}

static hga_status bpt_algorithm1(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return span_tree(n, rng, HGA_BPT_ALGORITHM1, 0, g, p);
}

/* Blocks of 1 to 9 tokens. */
static hga_htransformer blocks(hga_id n, uint64_t *rng)
{
    hga_htransformer h;
    hga_defaults(&h);
    h.n_tokens = n, h.block = 1 + random_below(rng, 9);
    return h;
}

static hga_status neighbours(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    return hga_build_htransformer(&h, g, p);
}

static hga_status neighbours_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.causal = 1;
    return hga_build_htransformer(&h, g, p);
}

static hga_status neighbours_relative(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.relative = 1;
    return hga_build_htransformer(&h, g, p);
}

static hga_status neighbours_linear(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.linear = 1;
    return hga_build_htransformer(&h, g, p);
}

static hga_status neighbours_cross(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.n_keys = 1 + random_below(rng, 2 * n);
    return hga_build_htransformer(&h, g, p);
}

static hga_status siblings(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.structure = HGA_SIBLINGS, h.relative = 1;
    return hga_build_htransformer(&h, g, p);
}

static hga_status siblings_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.structure = HGA_SIBLINGS, h.causal = 1;
    return hga_build_htransformer(&h, g, p);
}

/* Blocks of 16 to 64 tokens: rows with many columns in common. */
static hga_status wide_blocks(hga_id n, uint64_t *rng, int causal, hga_htransformer_structure structure, hga_graph **g,
                              hga_program *p)
{
    hga_htransformer h = blocks(n, rng);
    h.block = 16 + random_below(rng, 49), h.causal = causal, h.structure = structure, h.relative = 1;
    return hga_build_htransformer(&h, g, p);
}

static hga_status neighbours_wide(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return wide_blocks(n, rng, 0, HGA_NEIGHBOURS, g, p);
}

static hga_status neighbours_causal_wide(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return wide_blocks(n, rng, 1, HGA_NEIGHBOURS, g, p);
}

static hga_status siblings_wide(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return wide_blocks(n, rng, 0, HGA_SIBLINGS, g, p);
}

static hga_status bpt_wide(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_bpt b;
    hga_defaults(&b);
    b.n_tokens = n, b.k = 16 + random_below(rng, 33), b.causal = random_below(rng, 2);
    return hga_build_bpt(&b, g, p);
}

/* Leaves of a binary tree of height 3, one token in eight in none of them. */
static hga_status routed(hga_id n, uint64_t *rng, hga_id heads, int causal, int coarse, hga_graph **g, hga_program *p)
{
    enum { HEIGHT = 3 };
    int64_t tokens = (int64_t)n * heads;
    int32_t *leaf = memory(2 * tokens, sizeof *leaf);
    for (int64_t i = 0; i < 2 * tokens; i++) leaf[i] = random_below(rng, 8) ? random_below(rng, 1 << HEIGHT) : -1;
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = n, t.n_tree_heads = heads, t.height = HEIGHT, t.query_leaf = leaf, t.key_leaf = leaf + tokens,
    t.causal = causal;
    hga_status st = coarse ? hga_build_treeformer_coarse(&t, g, p) : hga_build_treeformer_fine(&t, g, p);
    free(leaf);
    return st;
}

static hga_status fine(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p) { return routed(n, rng, 1, 0, 0, g, p); }

static hga_status fine_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return routed(n, rng, 1, 1, 0, g, p);
}

static hga_status fine_per_head(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return routed(n, rng, 3, 0, 0, g, p);
}

static hga_status coarse(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return routed(n, rng, 1, 0, 1, g, p);
}

static hga_status families(hga_id n, uint64_t *rng, int causal, int self, hga_hsa_mode mode, hga_graph **g,
                           hga_program *p)
{
    hga_hsa h;
    hga_defaults(&h);
    hga_id *parent = random_tree(next_random(rng), n, &h.n_parent);
    h.parent = parent, h.causal = causal, h.self = self, h.mode = mode;
    hga_status st = hga_build_hsa(&h, g, p);
    free(parent);
    return st;
}

static hga_status hsa(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return families(n, rng, 0, 0, HGA_HSA_FRONTIER, g, p);
}

static hga_status hsa_self(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return families(n, rng, 0, 1, HGA_HSA_FRONTIER, g, p);
}

static hga_status hsa_causal_self(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return families(n, rng, 1, 1, HGA_HSA_SELF, g, p);
}

static hga_status hsa_frontier(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return families(n, rng, 1, 0, HGA_HSA_FRONTIER, g, p);
}

static hga_status hsa_hopping(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_id branching[2] = {2 + random_below(rng, 7), 2 + random_below(rng, 3)};
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = n, h.branching = branching, h.n_branching = 2;
    return hga_build_hsa(&h, g, p);
}

static hga_status hsa_wide(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_id branching[2] = {20 + random_below(rng, 20), 3};
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = n, h.branching = branching, h.n_branching = 2, h.self = random_below(rng, 2);
    return hga_build_hsa(&h, g, p);
}

static hga_status hsa_frontier_wide(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_id branching[2] = {20 + random_below(rng, 20), 3};
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = n, h.branching = branching, h.n_branching = 2, h.causal = 1, h.mode = HGA_HSA_FRONTIER;
    return hga_build_hsa(&h, g, p);
}

/* ---- partitions ---- */

static hga_status fenwick(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    (void)rng;
    return hga_build_fenwick(&(hga_fenwick){.n_tokens = n}, g, p);
}

/* Three branches of any widths and dilations, dividing each other or not. */
static hga_status branches(hga_id n, uint64_t *rng, int causal, hga_graph **g, hga_program *p)
{
    hga_id segments[3], dilations[3];
    for (int i = 0; i < 3; i++) segments[i] = 1 + random_below(rng, n + 9), dilations[i] = 1 + random_below(rng, 9);
    hga_dilated d = {.n_tokens = n, .segments = segments, .n_segments = 1 + random_below(rng, 3), .causal = causal};
    d.dilations = dilations, d.n_dilations = d.n_segments;
    return hga_build_dilated(&d, g, p);
}

static hga_status dilated(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p) { return branches(n, rng, 0, g, p); }

static hga_status dilated_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return branches(n, rng, 1, g, p);
}

static hga_status dilated_standard(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    (void)rng;
    return hga_build_dilated(&(hga_dilated){.n_tokens = n}, g, p);
}

/* Segments of random lengths, some of them on one side only, and one token in eight in none. */
static int32_t *cut(hga_id n, uint64_t *rng)
{
    int32_t *segment = memory(n, sizeof *segment), at = 0;
    for (hga_id i = 0; i < n; i++) {
        if (random_below(rng, 6) == 0) at += 1 + random_below(rng, 2);
        segment[i] = random_below(rng, 8) ? at : -1;
    }
    return segment;
}

static hga_status segments(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    int32_t *query = cut(n, rng);
    hga_status st = hga_build_segments(&(hga_segmented){.n_tokens = n, .query_segment = query}, g, p);
    free(query);
    return st;
}

static hga_status segments_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    int32_t *query = cut(n, rng);
    hga_status st = hga_build_segments(&(hga_segmented){.n_tokens = n, .query_segment = query, .causal = 1}, g, p);
    free(query);
    return st;
}

static hga_status segments_cross(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    hga_segmented s = {.n_tokens = n, .n_keys = 1 + random_below(rng, 2 * n)};
    int32_t *query = cut(n, rng), *key = cut(s.n_keys, rng);
    s.query_segment = query, s.key_segment = key;
    hga_status st = hga_build_segments(&s, g, p);
    free(query), free(key);
    return st;
}

/* ---- grids and drafts ---- */

/* A grid of n tokens of one to three axes, kernels and dilations of any size. */
static hga_status grid(hga_id n, uint64_t *rng, int causal, hga_graph **g, hga_program *p)
{
    hga_id shape[3] = {1, 1, n}, kernel[3], dilation[3], axes[3], each = 1 + random_below(rng, 3);
    for (int a = 0; a < 2; a++)
        for (hga_id d = 1 + random_below(rng, 12); d > 0; d--)
            if (shape[2] % d == 0) {
                shape[a] = d, shape[2] /= d;
                break;
            }
    for (int a = 0; a < 3; a++)
        kernel[a] = 1 + random_below(rng, 9), dilation[a] = random_below(rng, 2) ? 1 : 1 + random_below(rng, 4),
        axes[a] = causal || random_below(rng, 3) == 0;
    hga_neighbourhood x = {.n_tokens = n, .kernel = kernel, .n_kernel = 1, .dilation = dilation, .n_dilation = 1};
    x.causal = axes, x.n_causal = 1;
    if (each == 3) x.shape = shape, x.n_axes = x.n_kernel = x.n_dilation = x.n_causal = 3;
    if (each == 2) shape[1] *= shape[2], x.shape = shape, x.n_axes = x.n_kernel = 2;
    return hga_build_neighbourhood(&x, g, p);
}

static hga_status neighbourhood(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return grid(n, rng, 0, g, p);
}

static hga_status neighbourhood_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return grid(n, rng, 1, g, p);
}

static hga_status draft(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    int32_t *parent = memory(n, sizeof *parent);
    for (hga_id i = 0; i < n; i++) parent[i] = random_below(rng, i + 1) - 1;
    hga_draft d = {.n_tokens = n, .prefix = random_below(rng, 4) ? random_below(rng, 3 * n) : 0, .parent = parent};
    hga_status st = hga_build_draft(&d, g, p);
    free(parent);
    return st;
}

/* Each query block has its own blocks, and one in four of the others, or of those before. */
static hga_status blocks_by_content(hga_id n, uint64_t *rng, int causal, hga_id choosers, hga_graph **g, hga_program *p)
{
    hga_routed r;
    hga_defaults(&r);
    r.n_tokens = n, r.n_choosers = choosers, r.causal = causal, r.block = 1 + random_below(rng, 12);
    r.query_block = random_below(rng, 2) ? 1 : 1 + random_below(rng, 20), r.slots = (n + r.block - 1) / r.block;
    hga_id rows = choosers * ((n + r.query_block - 1) / r.query_block), each = rows / choosers;
    int32_t *choice = memory((int64_t)rows * r.slots, sizeof *choice);
    for (hga_id i = 0; i < rows; i++) {
        hga_id first = i % each * r.query_block, last = first + r.query_block - 1, at = 0;
        if (last >= n) last = n - 1;
        for (hga_id j = 0; j <= (causal ? last / r.block : r.slots - 1); j++)
            if ((j >= first / r.block && j <= last / r.block) || random_below(rng, 4) == 0)
                choice[i * r.slots + at++] = j;
        while (at < r.slots) choice[i * r.slots + at++] = -1;
    }
    r.choice = choice;
    hga_status st = hga_build_routed(&r, g, p);
    free(choice);
    return st;
}

static hga_status chosen(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return blocks_by_content(n, rng, 0, 1, g, p);
}

static hga_status chosen_causal(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return blocks_by_content(n, rng, 1, 1, g, p);
}

static hga_status chosen_per_head(hga_id n, uint64_t *rng, hga_graph **g, hga_program *p)
{
    return blocks_by_content(n, rng, 1, 3, g, p);
}

static const struct variant {
    const char *name;
    build *build;
    int positions, one_head; /* takes position embeddings; rows are folded heads */
} table[] = {
    {"dense", dense, 0, 0},
    {"dense_causal", dense_causal, 0, 0},
    {"dense_cross", dense_cross, 0, 0},
    {"window", window, 0, 0},
    {"window_causal", window_causal, 0, 0},
    {"window_global", window_global, 0, 0},
    {"window_strided", window_strided, 0, 0},
    {"bpt", bpt, 0, 0},
    {"bpt_causal", bpt_causal, 0, 0},
    {"bpt_text", bpt_text, 0, 0},
    {"bpt_algorithm1", bpt_algorithm1, 0, 0},
    {"neighbours", neighbours, 0, 0},
    {"neighbours_causal", neighbours_causal, 0, 0},
    {"neighbours_relative", neighbours_relative, 0, 0},
    {"neighbours_linear", neighbours_linear, 0, 0},
    {"neighbours_cross", neighbours_cross, 0, 0},
    {"siblings", siblings, 0, 0},
    {"siblings_causal", siblings_causal, 0, 0},
    {"fine", fine, 0, 0},
    {"fine_causal", fine_causal, 0, 0},
    {"fine_per_head", fine_per_head, 0, 1},
    {"coarse", coarse, 0, 0},
    {"hsa", hsa, 1, 0},
    {"hsa_self", hsa_self, 1, 0},
    {"hsa_causal_self", hsa_causal_self, 1, 0},
    {"hsa_frontier", hsa_frontier, 1, 0},
    {"hsa_hopping", hsa_hopping, 1, 0},
    {"neighbours_wide", neighbours_wide, 0, 0},
    {"neighbours_causal_wide", neighbours_causal_wide, 0, 0},
    {"siblings_wide", siblings_wide, 0, 0},
    {"bpt_wide", bpt_wide, 0, 0},
    {"hsa_wide", hsa_wide, 1, 0},
    {"hsa_frontier_wide", hsa_frontier_wide, 1, 0},
    {"fenwick", fenwick, 0, 0},
    {"dilated", dilated, 0, 0},
    {"dilated_causal", dilated_causal, 0, 0},
    {"dilated_standard", dilated_standard, 0, 0},
    {"segments", segments, 0, 0},
    {"segments_causal", segments_causal, 0, 0},
    {"segments_cross", segments_cross, 0, 0},
    {"neighbourhood", neighbourhood, 0, 0},
    {"neighbourhood_causal", neighbourhood_causal, 0, 0},
    {"draft", draft, 0, 0},
    {"chosen", chosen, 0, 0},
    {"chosen_causal", chosen_causal, 0, 0},
    {"chosen_per_head", chosen_per_head, 0, 1},
};

int n_variants(void) { return (int)(sizeof table / sizeof *table); }

const char *variant_name(int i) { return table[i].name; }

int variant_named(const char *name)
{
    for (int i = 0; i < n_variants(); i++)
        if (strcmp(table[i].name, name) == 0) return i;
    fail_msg("no variant is named %s", name);
    return -1;
}

/* type_scale for every type, where a stage scales by type. */
static void fill_type_scale(problem *p, uint64_t seed)
{
    const hga_stage *s = find_stage(&p->program, HGA_SCALED);
    if (!s) return;
    int32_t n = hga_graph_relation(p->graph, s->relation).n_types;
    assert_true(p->n_owned < 16);
    p->io.type_scale.data = p->owned[p->n_owned++] = random_floats(seed, 1, n);
    p->io.type_scale.rows = n;
}

void variant_build(int i, hga_id n, uint64_t seed, const hga_shape *shape, problem *out)
{
    uint64_t rng = seed;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s of %d tokens, seed %llu", table[i].name, n, (unsigned long long)seed);
    hga_status st = table[i].build(n, &rng, &out->graph, &out->program);
    if (st) fail_msg("%s: %s, %s", out->name, hga_status_name(st), hga_error_detail());
    out->shape = *shape;
    if (!table[i].positions) out->shape.pos_dim = 0;
    if (table[i].one_head) out->shape.n_heads = out->shape.n_kv_heads = 1;
    problem_fill(out, seed * 16 + 1);
    problem_fill_tables(out, seed * 16 + 5, 0, 0, 0);
    fill_type_scale(out, seed * 16 + 9);
}
