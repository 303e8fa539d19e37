/* subtree_cases.h: what tests of gradients by subtrees share: shapes, neighbours, a program over a tree, and that it
   has the plain gradients wherever its tree is cut. */
#ifndef HGA_SUBTREE_CASES_H
#define HGA_SUBTREE_CASES_H

#include "slopes.h"
#include "subtrees.h"

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 16},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                   {.n_heads = 3, .dim = 32, .dim_v = 16, .pos_dim = 2}};

/* Neighbours on each level, as blocks of so many rows. */
static inline void add_near(hga_builder *b, hga_id relation, hga_id levels, const hga_id *ptr, hga_id rows)
{
    hga_id before = rows / 2;
    for (hga_id l = 0; l < levels; l++)
        for (hga_id first = ptr[l]; first < ptr[l + 1]; first += rows) {
            hga_id n = ptr[l + 1] - first < rows ? ptr[l + 1] - first : rows,
                   from = first - ptr[l] < before ? ptr[l] : first - before;
            assert_ok(hga_builder_add_block(b, relation, first, n, from, first + n - from, 0));
        }
}

/* Coarsened queries, keys and values, as many of them as `sums` has bits, attend to the near and then to others too;
   states are merged down. */
static inline void describe(hga_program *p, int sums, int relations, int spreads, hga_field_rows out)
{
    hga_id f[5];
    const hga_width width[] = {HGA_WIDTH_KEY, HGA_WIDTH_KV_KEY, HGA_WIDTH_VALUE};
    const hga_binding input[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE};
    const char *const names[] = {"query", "key", "value"};
    hga_program_init(p);
    for (int i = 0; i < 3; i++) {
        hga_field_rows io = sums >> i & 1 ? HGA_ROWS_QUERIES : HGA_ROWS_NODES;
        assert_ok(hga_program_add_field(p, names[i], width[i], input[i], io, HGA_ROWS_NODES, &f[i]));
    }
    assert_ok(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, out, HGA_ROWS_NODES, &f[3]));
    for (int i = 0; i < 3; i++)
        if (sums >> i & 1) assert_ok(hga_program_coarsen(p, f[i]));
    for (hga_id r = 0; r < relations; r++) {
        assert_ok(hga_program_attend(p, r, f[0], f[1], f[2], f[3], r == 0));
        if (r == 0) continue;
        hga_stage more = p->stage[--p->n_stages];
        more.update = HGA_UPDATE_MERGE;
        assert_ok(hga_program_add_stage(p, &more));
    }
    if (spreads) assert_ok(hga_program_spread(p, HGA_TREE_DOWN, f[3]));
    p->has_lse = 1;
}

static inline void assert_cuts_are_plain(problem *p, uint64_t seed)
{
    static const int64_t sizes[] = {0, 1, 9, 40};
    slope plain = slope_create(p, seed), fast = slope_create(p, seed);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        slope_run(&fast, (hga_options){.threads = 1, .gradient_subtree = sizes[i]});
        assert_same_slopes(&plain, &fast, 2e-5);
        slope_run(&fast, (hga_options){.threads = 1, .gradient_subtree = sizes[i], .gradient_row_ranges = 3});
        assert_same_slopes(&plain, &fast, 2e-5);
    }
    slope_clear(&plain), slope_clear(&fast);
}

#endif
