/* Choosing tiles is data: every edge of a panel is either in one tile or left to its row, told without computing
   anything. */
#include "by_hand.h"
#include "plan.h"

#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct found {
    edge *e;
    int64_t n, capacity, in_tiles, parts, chunks;
    int types; /* do scores tell them apart? */
    int some;  /* some of the rows alone are computed */
} found;

static void note(found *f, edge e)
{
    if (f->n == f->capacity) {
        f->capacity = 2 * f->capacity + 1000;
        f->e = realloc(f->e, (size_t)f->capacity * sizeof *f->e);
        assert_non_null(f->e);
    }
    f->e[f->n++] = e;
}

/* The pairs of part i of a chunk. */
static void note_part(found *f, const tile_batch *b, const tile_chunk *c, hga_id i)
{
    const tile_part *part = &c->part[i];
    assert_true(0 <= part->first && part->first < part->last && part->last <= c->columns.n);
    assert_int_equal((part->first - c->part[0].first) % SUM_ACCUMULATORS, 0); /* what is added up in which order */
    for (hga_id e = part->first; e < part->last; e++) {
        unsigned rows = c->rows[i][e], all = (1u << part->group->n_rows) - 1;
        assert_int_equal(rows & ~all, 0);
        if (part->full) assert_int_equal(rows, all);
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            int32_t type = !f->types ? 0
                           : c->types_vary >> e & 1
                               ? b->pair_type[((c->typed + i) * KERNEL_CHUNK + e) * KERNEL_TILE + r]
                               : c->columns.type[e];
            if (rows >> r & 1u)
                note(f, (edge){part->group->node[r], c->columns.src[e], type, c->columns.weight[e], 0, 0}),
                    f->in_tiles++;
        }
    }
}

/* Every column is a node that some row has an edge to: no other may be read. */
static void check_columns(const tile_chunk *c)
{
    hga_id had[KERNEL_CHUNK], n = 0;
    for (hga_id e = 0; e < c->columns.n; e++) {
        unsigned rows = 0;
        for (hga_id k = 0; k < c->n_parts; k++)
            rows |= e >= c->part[k].first && e < c->part[k].last ? c->rows[k][e] : 0u;
        if (rows) had[n++] = c->columns.src[e];
    }
    for (hga_id e = 0, i; n < c->columns.n && e < c->columns.n; e++) {
        for (i = 0; i < n && had[i] != c->columns.src[e]; i++) {}
        if (i == n) fail_msg("nobody has node %d", c->columns.src[e]);
    }
}

/* The rows of column e that are computed, of any part. */
static unsigned wanted_of(const tile_chunk *c, hga_id e)
{
    unsigned rows = 0;
    for (hga_id k = 0; k < c->n_parts; k++)
        if (e >= c->part[k].first && e < c->part[k].last) rows |= c->rows[k][e] & requested_mask(c->part[k].group);
    return rows;
}

/* What is read of types, there may be no other: a column's, which some pair has that is computed, or such pairs'. */
static void check_types(const tile_batch *b, const tile_chunk *c)
{
    for (hga_id e = 0; e < c->columns.n; e++) {
        if (c->types_vary >> e & 1) {
            for (hga_id k = 0; k < c->n_parts; k++)
                for (hga_id r = 0; e >= c->part[k].first && e < c->part[k].last && r < KERNEL_TILE; r++) {
                    unsigned wanted = c->rows[k][e] & requested_mask(c->part[k].group);
                    int32_t type = b->pair_type[((c->typed + k) * KERNEL_CHUNK + e) * KERNEL_TILE + r];
                    assert_int_equal(type >= 0, wanted >> r & 1u);
                }
            continue;
        }
        hga_id i = 0;
        while (i < c->columns.n &&
               (c->types_vary >> i & 1 || !wanted_of(c, i) || c->columns.type[i] != c->columns.type[e]))
            i++;
        if (i == c->columns.n) fail_msg("nobody has type %d", c->columns.type[e]);
    }
}

static void note_some(void *context, tile_batch *b)
{
    found *f = context;
    for (hga_id i = 0; i < b->n; i++) {
        for (hga_id e = 0; e < b->chunk[i].columns.n; e++) f->in_tiles += wanted_of(&b->chunk[i], e) != 0;
        check_types(b, &b->chunk[i]);
    }
}

static void note_batch(void *context, tile_batch *b)
{
    found *f = context;
    assert_in_range(b->n, 1, BATCH_CHUNKS);
    for (hga_id i = 0; i < b->n; i++) {
        assert_in_range(b->chunk[i].columns.n, 1, KERNEL_CHUNK);
        assert_in_range(b->chunk[i].n_parts, 1, PANEL_GROUPS);
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++) note_part(f, b, &b->chunk[i], k);
        check_columns(&b->chunk[i]);
        f->chunks++, f->parts += b->chunk[i].n_parts;
    }
}

/* What a row is left with. */
static void note_rest(found *f, const worker *w, const row_group *g, hga_id r)
{
    edge_chunk c;
    edge_cursor at =
        cursor_start_beyond(&w->reader, g->node[r], g->tiled ? w->tiles.chooser.seen.tiled : NULL, 1u << g->number);
    for (cursor_next(&at, KERNEL_CHUNK, &c); c.n; cursor_next(&at, KERNEL_CHUNK, &c)) {
        assert_true(!g->tiled || g->rest);
        for (hga_id e = 0; e < c.n; e++)
            note(f, (edge){g->node[r], c.src[e], f->types ? c.type[e] : 0, c.weight[e], 0, 0});
    }
}

/* Positions [first, first + n) of the stage. */
static void choose_panel(worker *w, const stage_plan *s, hga_id first, hga_id n, found *f)
{
    hga_id node[PANEL_ROWS];
    row_panel p = {.n_groups = (n + KERNEL_TILE - 1) / KERNEL_TILE};
    tile_chooser *t = &w->tiles.chooser;
    for (hga_id i = 0; i < n; i++) node[i] = node_at(s, first + i);
    for (hga_id i = 0; f->some && i < n; i++)
        if ((first + i) % 5 % 3 != 1) node[i] = left_out(node[i]);
    for (hga_id g = 0, at = 0; g < p.n_groups; g++, at += KERNEL_TILE)
        p.group[g] = (row_group){
            .number = g, .first = first + at, .n_rows = n - at < KERNEL_TILE ? n - at : KERNEL_TILE, .node = node + at};
    reader_load(&w->reader, first, n);
    t->reader = &w->reader, t->run = f->some ? note_some : note_batch, t->context = f, t->types = f->types;
    t->leaves_out = f->some;
    choose_tiles(t, &p);
    for (hga_id g = 0; g < p.n_groups && !f->some; g++)
        for (hga_id r = 0; r < p.group[g].n_rows; r++) note_rest(f, w, &p.group[g], r);
}

/* What was found, without the edges. */
static found look_at(const hga_graph *g, const hga_program *p, hga_id stage, const char *name, found f)
{
    hga_plan *plan;
    hga_workspace *own;
    const int types = f.types;
    int64_t n_want;
    assert_ok(hga_plan_create(g, p, &(hga_shape){.n_heads = 1, .dim = 1}, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    worker *w = &own->team.worker[0];
    worker_begin(w);
    reader_open(&w->reader, plan, stage);
    for (int64_t i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        for (hga_id at = 0; ph->job == JOB_ROWS && at < ph->n; at += ph->panel)
            choose_panel(w, &plan->stage[stage], ph->first + at, ph->n - at < ph->panel ? ph->n - at : ph->panel, &f);
    }
    edge *want = all_edges(g, p->stage[stage].relation, &n_want);
    if (f.some) n_want = 0;
    for (int64_t i = 0; i < n_want; i++)
        want[i].pos_of = want[i].src_pos_of = 0, want[i].type = types ? want[i].type : 0;
    sort_edges(f.e, f.n);
    sort_edges(want, n_want);
    assert_same_edges(name, f.e, f.n, want, n_want);
    for (int64_t i = 0; i < n_want; i++) assert_true(f.e[i].weight == want[i].weight);
    free(want), free(f.e);
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    f.e = NULL;
    return f;
}

static found check_relation(const hga_graph *g, const hga_program *p, hga_id stage, const char *name, int types)
{
    return look_at(g, p, stage, name, (found){.types = types});
}

/* One stage that attends relation 0 from every node. */
static hga_program attend_everywhere(void)
{
    static const struct {
        const char *name;
        hga_width width;
        hga_binding bound;
    } fields[] = {{"q", HGA_WIDTH_KEY, HGA_IO_QUERY},
                  {"k", HGA_WIDTH_KV_KEY, HGA_IO_KEY},
                  {"v", HGA_WIDTH_VALUE, HGA_IO_VALUE},
                  {"o", HGA_WIDTH_STATE, HGA_IO_OUT}};
    hga_program p;
    hga_id f[4];
    hga_program_init(&p);
    for (int i = 0; i < 4; i++)
        assert_ok(hga_program_add_field(&p, fields[i].name, fields[i].width, fields[i].bound, HGA_ROWS_NODES,
                                        HGA_ROWS_NODES, &f[i]));
    assert_ok(hga_program_attend(&p, 0, f[0], f[1], f[2], f[3], 0));
    return p;
}

static void every_edge_is_in_one_tile_or_left_to_its_row(void **state)
{
    (void)state;
    hga_program p = attend_everywhere();
    int64_t in_tiles = 0;
    char name[32];
    for (unsigned with = 1; with < 64; with++)
        for (hga_id n = 30; n <= 600; n *= 20) {
            hga_graph *g = random_graph(with + 7, n, with);
            snprintf(name, sizeof name, "%d tokens with %u", n, with);
            in_tiles += check_relation(g, &p, 0, name, 1).in_tiles;
            if (with % 4 == 1) in_tiles += check_relation(g, &p, 0, name, 0).in_tiles;
            hga_graph_destroy(g);
        }
    assert_true(in_tiles > 0);
}

/* Where a few rows are computed, no type is read that only others' pairs have. */
static void types_of_rows_that_are_left_out_are_not_read(void **state)
{
    (void)state;
    hga_program p = attend_everywhere();
    int64_t in_tiles = 0;
    for (unsigned with = 1; with < 64; with++) {
        hga_graph *g = random_graph(with + 7, 600, with | WITH_TYPES);
        in_tiles += look_at(g, &p, 0, "some rows", (found){.types = 1, .some = 1}).in_tiles;
        hga_graph_destroy(g);
    }
    for (const char *const *words = (const char *const[]){"bpt k=3", "bpt k=9 rule=text", "bpt k=40", NULL}; *words;
         words++) {
        hga_graph *g;
        hga_program bpt;
        assert_ok(hga_build(*words, 500, &g, &bpt));
        in_tiles += look_at(g, &bpt, 0, *words, (found){.types = 1, .some = 1}).in_tiles;
        hga_graph_destroy(g);
    }
    assert_true(in_tiles > 1000);
}

/* A band of 200 to either side, windows that move on by one, blocks beside each other: nearly all goes into tiles. */
static void wide_and_narrow_blocks_go_into_tiles(void **state)
{
    (void)state;
    static const char *const names[] = {"window", "neighbours_wide", "siblings_wide", "bpt_wide", "fine_causal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem v;
        variant_build(variant_named(names[i]), 1500, 5, &(hga_shape){.n_heads = 1, .dim = 4}, &v);
        hga_program p = attend_everywhere();
        assert_true(check_relation(v.graph, &p, 0, names[i], 1).in_tiles > 0);
        problem_clear(&v);
    }
}

/* Rows that move through the spans of a tree: neighbours have most columns in common. */
static void long_runs_are_chunks_that_groups_share(void **state)
{
    (void)state;
    hga_program p = attend_everywhere();
    hga_graph *g;
    hga_program as_built;
    assert_ok(hga_build("bpt k=64", 1500, &g, &as_built));
    found shared = check_relation(g, &p, 0, "spans", 0), own = check_relation(g, &p, 0, "spans with types", 1);
    if (shared.parts < 2 * shared.chunks || own.parts > 2 * own.chunks)
        fail_msg("%lld parts in %lld chunks, with types %lld in %lld", (long long)shared.parts,
                 (long long)shared.chunks, (long long)own.parts, (long long)own.chunks);
    hga_graph_destroy(g);
}

/* Blocks with holes between them, more than a group has parts for. */
static void more_long_runs_than_there_is_room_for(void **state)
{
    (void)state;
    enum { BLOCKS = SHARED_PARTS + 20, STRIDE = 70, COLUMNS = 60, ROWS = 100 };
    hga_program p = attend_everywhere();
    hga_block block[BLOCKS];
    for (hga_id i = 0; i < BLOCKS; i++) block[i] = (hga_block){.n_dst = ROWS, .src = i * STRIDE, .n_src = COLUMNS};
    hga_graph *g = blocks_over(BLOCKS * STRIDE + ROWS, block, BLOCKS);
    found f = check_relation(g, &p, 0, "blocks", 0);
    assert_true(f.parts > f.chunks);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_is_in_one_tile_or_left_to_its_row),
        cmocka_unit_test(types_of_rows_that_are_left_out_are_not_read),
        cmocka_unit_test(wide_and_narrow_blocks_go_into_tiles),
        cmocka_unit_test(long_runs_are_chunks_that_groups_share),
        cmocka_unit_test(more_long_runs_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
