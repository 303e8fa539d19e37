/* The order in which panels run: whatever reads a row comes after who wrote it, and the next writer after the readers;
   what shares memory is needed at different times. Told row by row, by other means. */
#include "plan.h"
#include "random_program.h"

#include "schedule.h"
#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One panel's visit to one row. */
typedef struct visit {
    int64_t row; /* storage * nodes + node */
    int64_t panel;
    hga_id phase;
    int writes;
} visit;

/* When a panel runs. */
typedef struct turn {
    hga_id wave, thread;
    int64_t at;
} turn;

typedef struct log_of_visits {
    const hga_plan *plan;
    edge **edges; /* by stage */
    int64_t *n_edges;
    visit *visit;
    int64_t n, capacity;
} log_of_visits;

static void note(log_of_visits *l, hga_id f, hga_id v, hga_id by, int64_t panel, int writes)
{
    if (f < 0) return;
    if (f < HGA_FIELD_SLOTS && l->plan->fields.storage[f].host) f = l->plan->fields.storage[f].host;
    if (l->n == l->capacity) {
        l->capacity = 2 * l->capacity + 1000;
        l->visit = realloc(l->visit, (size_t)l->capacity * sizeof *l->visit);
        assert_non_null(l->visit);
    }
    l->visit[l->n++] = (visit){(int64_t)f * (1 << 24) + v, panel, by, writes};
}

static void note_read(log_of_visits *l, const hga_stage *s, hga_id f, hga_id v, hga_id by, int64_t panel)
{
    note(l, read_storage(l->plan, s, f), v, by, panel, 0);
}

static void note_edge(log_of_visits *l, const hga_stage *s, hga_id u, hga_id by, int64_t panel)
{
    hga_message m = s->message;
    if (m == HGA_SCORE || m == HGA_ENERGY) note_read(l, s, s->key, u, by, panel);
    if (m != HGA_GATE && m != HGA_MESSAGE_USER) note_read(l, s, s->value, u, by, panel);
    if (m == HGA_GATE) note(l, s->out, u, by, panel, 0), note(l, s->keep, u, by, panel, 0);
}

static int64_t first_edge(const log_of_visits *l, hga_id stage, hga_id v)
{
    int64_t lo = 0, hi = l->n_edges[stage];
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (l->edges[stage][mid].dst < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A row that takes from its ancestor across the cut what it and its subtree have been without. */
static void note_across(log_of_visits *l, hga_id stage, hga_id v, hga_id by, int64_t panel)
{
    const hga_stage *s = &l->plan->program.stage[stage];
    const stage_plan *sp = &l->plan->stage[stage];
    hga_id u = l->plan->nodes.parent[v];
    while (u >= 0 && u < sp->cut) u = l->plan->nodes.parent[u];
    if (u >= 0) note_edge(l, s, u, by, panel);
    note(l, s->out, v, by, panel, 0), note(l, s->out, v, by, panel, 1);
    if (s->message == HGA_GATE && sp->crosses_all) note(l, s->keep, v, by, panel, 1);
}

/* Is node u a source of piece i? Of a row that has its columns alone a piece has so many of these, one after the other;
   else any of the row's may be. */
static int is_of_piece(const stage_plan *s, hga_id i, hga_id u)
{
    const long_row *row = long_row_of(s, i);
    const hga_id *order = s->relation.src_order;
    hga_pos first = (i - row->first_split) * row->cut;
    if (row->alone.first < 0) return 1;
    for (hga_pos c = first; c < first + row->cut && c < row->n_edges; c++)
        if ((order ? order[row->alone.first + c] : row->alone.first + c) == u) return 1;
    return 0;
}

/* A piece of a row, -1: all of it, leaves the row itself to the merge; a row below the cut leaves what comes across to
   another phase. */
static void note_row(log_of_visits *l, hga_id stage, hga_id v, hga_id by, int64_t panel, hga_id piece)
{
    const stage_plan *sp = &l->plan->stage[stage];
    const hga_stage *s = &l->plan->program.stage[stage];
    hga_id end = l->plan->phases.list[by].part_of_tree == TREE_BELOW ? l->plan->stage[stage].cut : INT32_MAX;
    if (l->plan->phases.list[by].part_of_tree == TREE_ACROSS) {
        note_across(l, stage, v, by, panel);
        return;
    }
    for (int64_t e = first_edge(l, stage, v); e < l->n_edges[stage] && l->edges[stage][e].dst == v; e++)
        if (l->edges[stage][e].src < end && (piece < 0 || is_of_piece(sp, piece, l->edges[stage][e].src)))
            note_edge(l, s, l->edges[stage][e].src, by, panel);
    if (s->message == HGA_SCORE) note_read(l, s, s->query, v, by, panel);
    if (s->update == HGA_UPDATE_MERGE) note(l, s->out, v, by, panel, 0);
    if (s->message == HGA_GATE)
        note(l, s->value, v, by, panel, 0), note(l, s->gate, v, by, panel, 0), note(l, s->keep, v, by, panel, 1);
    if (piece < 0) note(l, s->out, v, by, panel, 1);
}

static int is_wide(const stage_plan *s, hga_id position)
{
    int wide = 0;
    for (hga_id i = 0; i < s->n_long; i++) wide |= s->long_row[i].position == position;
    return wide;
}

/* Row i of a phase, as part of a panel. */
static void note_phase_row(log_of_visits *l, hga_id number, hga_id i, int64_t panel)
{
    const phase *ph = &l->plan->phases.list[number];
    const stage_plan *s = &l->plan->stage[ph->stage];
    hga_id position = ph->first + i;
    if (ph->job == JOB_SPLITS) {
        for (hga_id wide = 0; wide < s->n_long; wide++)
            if (i >= s->long_row[wide].first_split && i - s->long_row[wide].first_split < s->long_row[wide].n_splits)
                position = s->long_row[wide].position;
        note(l, N_STORAGES + ph->stage, i, number, panel, 1);
    }
    if (ph->job == JOB_MERGE) {
        position = s->long_row[i].position;
        for (hga_id p = 0; p < s->long_row[i].n_splits; p++)
            note(l, N_STORAGES + ph->stage, s->long_row[i].first_split + p, number, panel, 0);
    }
    int by_order = ph->by_position || ph->job == JOB_SPLITS || ph->job == JOB_MERGE;
    hga_id v = by_order && s->relation.dst_order ? s->relation.dst_order[position] : position;
    if (ph->job == JOB_ROUND) note(l, STORAGE_ROUNDED + ph->stage, v, number, panel, 1);
    if (ph->job > JOB_MERGE)
        note(l, ph->stage, v, number, panel, 0);
    else if (ph->job == JOB_MERGE)
        note(l, l->plan->program.stage[ph->stage].out, v, number, panel, 1);
    else if (ph->job == JOB_SPLITS || !is_wide(s, position))
        for (hga_id stage = ph->stage; stage < stages_end(ph); stage++)
            note_row(l, stage, v, number, panel, ph->job == JOB_SPLITS ? i : -1);
}

static int by_row(const void *x, const void *y)
{
    const visit *a = x, *b = y;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    if (a->panel != b->panel) return a->panel < b->panel ? -1 : 1;
    return a->writes - b->writes;
}

/* Each visit once, by row and panel. */
static void sort_visits(log_of_visits *l)
{
    int64_t n = 0;
    if (l->n) qsort(l->visit, (size_t)l->n, sizeof *l->visit, by_row);
    for (int64_t i = 0; i < l->n; i++)
        if (n == 0 || by_row(&l->visit[n - 1], &l->visit[i]) != 0) l->visit[n++] = l->visit[i];
    l->n = n;
}

static int comes_before(turn a, turn b)
{
    return a.wave < b.wave || (a.wave == b.wave && a.thread == b.thread && a.at < b.at);
}

/* Turns in program order, every item once: a panel, or some heads of it. */
static turn *find_turns(const hga_plan *plan, const int64_t *item_ptr)
{
    const wave_order *o = &plan->waves;
    turn *turns = memory(o->n_items, sizeof *turns);
    assert_int_equal(o->n_items, item_ptr[plan->phases.n]);
    for (int64_t i = 0; i < o->n_items; i++) turns[i].wave = -1;
    for (hga_id w = 0; w < o->n; w++)
        for (hga_id t = 0; t < plan->team.n; t++)
            for (int64_t i = o->ptr[w * plan->team.n + t]; i < o->ptr[w * plan->team.n + t + 1]; i++) {
                const wave_item *item = &o->item[i];
                int64_t panels = (int64_t)item->panel * head_ranges(&plan->phases.list[item->phase]);
                turn *s = &turns[item_ptr[item->phase] + panels + item->head_range];
                assert_int_equal(s->wave, -1);
                *s = (turn){w, t, i};
            }
    for (int64_t i = 0; i < o->n_items; i++) assert_true(turns[i].wave >= 0);
    return turns;
}

/* Of any two visits to a row from two phases, one of them a write, the earlier phase's comes first. */
static void assert_ordered(const char *name, const log_of_visits *l, const turn *turns)
{
    for (int64_t i = 0, end; i < l->n; i = end) {
        for (end = i; end < l->n && l->visit[end].row == l->visit[i].row;) end++;
        for (int64_t a = i; a < end; a++)
            for (int64_t b = a + 1; b < end; b++) {
                const visit *x = &l->visit[a], *y = &l->visit[b];
                if (x->phase == y->phase || !(x->writes || y->writes)) continue;
                if (!comes_before(turns[x->panel], turns[y->panel]))
                    fail_msg("%s: row %lld of storage %lld: phase %d before phase %d", name,
                             (long long)(x->row % (1 << 24)), (long long)(x->row >> 24), y->phase, x->phase);
            }
    }
}

/* Where a row, or its log-sum-exps, are while they are needed: visits [first, end). */
typedef struct tenant {
    const float *from, *to;
    int64_t first, end;
} tenant;

static int by_address(const void *x, const void *y)
{
    const tenant *a = x, *b = y;
    return (a->from > b->from) - (a->from < b->from);
}

static int leaves_before(const log_of_visits *l, const turn *turns, const tenant *a, const tenant *b)
{
    for (int64_t i = a->first; i < a->end; i++)
        for (int64_t j = b->first; j < b->end; j++)
            if (!comes_before(turns[l->visit[i].panel], turns[l->visit[j].panel])) return 0;
    return 1;
}

/* Rows are apart, or all that happens to one comes before all that happens to the other. */
static void assert_apart(const char *name, const log_of_visits *l, const turn *turns, const hga_workspace *workspace)
{
    tenant *t = memory(HGA_MAX_FIELDS * l->n + 1, sizeof *t);
    int64_t n = 0;
    for (int64_t i = 0, end; i < l->n; i = end) {
        for (end = i; end < l->n && l->visit[end].row == l->visit[i].row;) end++;
        hga_id f = (hga_id)(l->visit[i].row >> 24), v = (hga_id)(l->visit[i].row % (1 << 24));
        if (f >= N_STORAGES) continue;
        const bound_field *x = &workspace->field[f];
        int rounded = f >= STORAGE_ROUNDED;
        if (rounded) f -= STORAGE_ROUNDED;
        if (!program_row(&l->plan->nodes, l->plan->program.field[f].rows, v)) continue;
        if (rounded) {
            const float *row =
                l->plan->fields.bf16_rows ? (const float *)(const void *)bound_bf16(x, v) : bound_row(x, v);
            t[n++] = (tenant){row, row + l->plan->fields.storage[f].rounded.floats, i, end};
            continue;
        }
        if (!bound_is_io(x, v)) t[n++] = (tenant){bound_row(x, v), bound_row(x, v) + x->heads * x->columns, i, end};
        for (hga_id g = 1; g <= l->plan->program.n_fields; g++) {
            const bound_field *y = &workspace->field[g];
            int here =
                (g == f || l->plan->fields.storage[g].host == f) && l->plan->program.field[g].width == HGA_WIDTH_STATE;
            if (here) t[n++] = (tenant){bound_lse(y, v), bound_lse(y, v) + y->heads, i, end};
        }
    }
    if (n) qsort(t, (size_t)n, sizeof *t, by_address);
    for (int64_t i = 0; i < n; i++) {
        assert_true(t[i].from >= workspace->memory.rows &&
                    t[i].to <= workspace->memory.rows + workspace->memory.floats);
        for (int64_t j = i + 1; j < n && t[j].from < t[i].to; j++)
            if (!leaves_before(l, turns, &t[i], &t[j]) && !leaves_before(l, turns, &t[j], &t[i]))
                fail_msg("%s: row %d of field %d and row %d of field %d share memory", name,
                         (int)(l->visit[t[i].first].row % (1 << 24)), (int)(l->visit[t[i].first].row >> 24),
                         (int)(l->visit[t[j].first].row % (1 << 24)), (int)(l->visit[t[j].first].row >> 24));
    }
    free(t);
}

static void check_order(const problem *p, hga_options options)
{
    const hga_graph *g = p->graph;
    hga_plan *plan;
    hga_workspace *workspace;
    assert_ok(hga_plan_create(g, &p->program, &p->shape, &options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    assert_ok(hga_plan_execute(plan, workspace, &p->io));
    int64_t *item_ptr = memory(plan->phases.n + 1, sizeof *item_ptr), n_edges[HGA_MAX_STAGES];
    edge *edges[HGA_MAX_STAGES];
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        edges[s] = stage_edges(g, &plan->program.stage[s], &n_edges[s]);
        sort_edges(edges[s], n_edges[s]);
    }
    log_of_visits l = {.plan = plan, .edges = edges, .n_edges = n_edges};
    item_ptr[0] = 0;
    for (hga_id i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        item_ptr[i + 1] = item_ptr[i] + count_items(ph);
        for (hga_id r = 0; r < ph->n; r++)
            for (hga_id part = 0; part < head_ranges(ph); part++)
                note_phase_row(&l, i, r, item_ptr[i] + (int64_t)(r / ph->panel) * head_ranges(ph) + part);
    }
    turn *turns = find_turns(plan, item_ptr);
    sort_visits(&l);
    assert_ordered(p->name, &l, turns);
    assert_apart(p->name, &l, turns, workspace);
    for (hga_id s = 0; s < plan->program.n_stages; s++) free(edges[s]);
    free(turns), free(item_ptr), free(l.visit);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
}

/* Bits do not depend on who has which rows. */
static void check_bits(problem *p, hga_options options)
{
    float *lse, *out, *kept_lse, *kept;
    hga_options keep = {.cut_edges = options.cut_edges,
                        .precision = options.precision,
                        .generic = options.generic,
                        .keep_fields = 1,
                        .threads = 1};
    out = problem_out(p, &options, &lse), kept = problem_out(p, &keep, &kept_lse);
    assert_memory_equal(out, kept, (size_t)out_count(p) * sizeof *out);
    if (p->program.has_lse) assert_memory_equal(lse, kept_lse, (size_t)lse_count(p) * sizeof *lse);
    free(out), free(lse), free(kept), free(kept_lse);
}

static void check_orders(problem *p)
{
    for (hga_id threads = 1; threads < 6; threads += threads) {
        check_order(p, (hga_options){.threads = threads, .cut_edges = 3});
        check_order(p, (hga_options){.threads = threads + 2, .precision = HGA_PRECISION_BF16});
        check_order(p, (hga_options){.threads = threads, .keep_fields = 1});
        check_bits(p, (hga_options){.threads = threads, .cut_edges = 3});
        check_bits(p, (hga_options){.threads = threads + 1, .precision = HGA_PRECISION_BF16});
        check_bits(p, (hga_options){.threads = threads, .generic = 1});
    }
}

static void readers_follow_writers_in_random_programs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)thinned(48); seed++) {
        uint64_t rng = seed;
        problem p = {.graph = random_graph(seed, 1 + random_below(&rng, 150), 1 + (unsigned)random_below(&rng, 63)),
                     .shape = {.n_heads = 1 + (hga_id)seed % 4, .dim = 4}};
        p.program = random_program(&rng);
        snprintf(p.name, sizeof p.name, "seed %d", (int)seed);
        problem_fill(&p, seed);
        p.io.type_scale.rows = hga_graph_relation(p.graph, 0).n_types;
        float *scale = memory(p.io.type_scale.rows, sizeof *scale);
        for (hga_id i = 0; i < p.io.type_scale.rows; i++) scale[i] = 1 + (float)i / 64;
        p.io.type_scale.data = scale;
        check_orders(&p);
        free(scale);
        problem_clear(&p);
    }
}

static void readers_follow_writers_in_the_variants(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i, 260, 31, &(hga_shape){.n_heads = 1, .dim = 4, .pos_dim = 2}, &p);
        check_orders(&p);
        problem_clear(&p);
    }
}

/* Of two to four threads, blocks of 64 tokens in turn. */
static void readers_follow_writers_where_threads_have_blocks_in_turn(void **state)
{
    static const char *const names[] = {"fenwick", "hsa_frontier"};
    (void)state;
    assert_int_equal(setenv("HGA_TUNING", "cyclic_bytes=1024", 1), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        hga_plan *plan;
        variant_build(variant_named(names[i]), 4200, 7, &(hga_shape){.n_heads = 4, .dim = 24}, &p);
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 4}, &plan));
        assert_int_equal(plan->team.cyclic, 64);
        assert_false(plan->waves.alone);
        hga_plan_destroy(plan);
        check_orders(&p);
        problem_clear(&p);
    }
    assert_int_equal(unsetenv("HGA_TUNING"), 0);
}

/* Up and down a tree there is little to wait for: levels do not cost a barrier each. */
static void waves_are_few(void **state)
{
    (void)state;
    static const char *const names[] = {"neighbours_wide", "hsa_wide"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        hga_plan *plan;
        variant_build(variant_named(names[i]), 16384, 3, &(hga_shape){.n_heads = 1, .dim = 4}, &p);
        for (hga_id threads = 1; threads <= 4; threads++) {
            assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = threads}, &plan));
            assert_true(plan->waves.n <= 2 * (threads + 1));
            hga_plan_destroy(plan);
        }
        problem_clear(&p);
    }
}

/* A token attends soon after its spans are there: threads need no room for all of them, which they would have to read
   from memory once more. */
static void tokens_attend_when_their_spans_are_there(void **state)
{
    enum { TOKENS = 16384, HEADS = 2, DIM = 32 };
    (void)state;
    problem p;
    hga_plan *plan;
    variant_build(variant_named("fenwick"), TOKENS, 3, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &p);
    assert_int_equal(setenv("HGA_TUNING", "cyclic_bytes=131072", 1), 0);
    for (hga_id threads = 1; threads <= 4; threads++) {
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = threads}, &plan));
        assert_true(plan->most.workspace_floats < TOKENS * HEADS * 2 * DIM / 8 * threads);
        hga_plan_destroy(plan);
    }
    assert_int_equal(unsetenv("HGA_TUNING"), 0);
    problem_clear(&p);
}

/* All rows wait for all rounded keys: once, and then the threads attend side by side. */
static void threads_wait_together(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_dense(&(hga_dense){.n_tokens = 16384}, &g, &program));
    for (hga_id threads = 2; threads <= 4; threads *= 2) {
        hga_plan *plan;
        hga_options options = {.threads = threads, .precision = HGA_PRECISION_BF16};
        assert_ok(hga_plan_create(g, &program, &(hga_shape){.n_heads = 1, .dim = 4}, &options, &plan));
        assert_int_equal(plan->waves.n, 2);
        hga_plan_destroy(plan);
    }
    hga_graph_destroy(g);
}

static void assert_even(const char *name, const hga_graph *g, const hga_program *p)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(g, p, &(hga_shape){.n_heads = 1, .dim = 4}, &(hga_options){.threads = 2}, &plan));
    double longest = waves_longest_shares(plan);
    if (longest < 0.5 || longest > 0.55) fail_msg("%s: the longest shares are %g of all", name, longest);
    hga_plan_destroy(plan);
}

/* Whoever waits for the top of a tree waits in one wave: two threads share the way down, each half of the work. */
static void two_threads_go_down_side_by_side(void **state)
{
    (void)state;
    static const char *const names[] = {"hsa_wide", "hsa_frontier_wide"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        variant_build(variant_named(names[i]), 65536, 3, &(hga_shape){.n_heads = 1, .dim = 4}, &p);
        assert_even(names[i], p.graph, &p.program);
        problem_clear(&p);
    }
}

/* So do they where tokens go to the leaves of a tree in no order. */
static void two_threads_share_what_is_in_no_order(void **state)
{
    (void)state;
    enum { TOKENS = 65536, HEIGHT = 8 };
    hga_graph *g;
    hga_program p;
    int32_t *leaf = memory(TOKENS, sizeof *leaf);
    for (uint32_t i = 0; i < TOKENS; i++) leaf[i] = (int32_t)((i * 2654435761u) >> (32 - HEIGHT));
    hga_treeformer t = {.n_queries = TOKENS, .n_tree_heads = 1, .height = HEIGHT, .query_leaf = leaf};
    assert_ok(hga_build_treeformer_coarse(&t, &g, &p));
    assert_even("coarse", g, &p);
    free(leaf);
    hga_graph_destroy(g);
}

/* Leaves of one tree, in each of which one token is a key: tokens in order, or in none. */
static void build_leaves(int in_order, hga_graph **g, hga_program *p)
{
    enum { TOKENS = 16384, HEIGHT = 7, EACH = TOKENS >> HEIGHT };
    int32_t *leaf = memory(TOKENS, sizeof *leaf), *key = memory(TOKENS, sizeof *key);
    for (hga_id i = 0; i < TOKENS; i++) {
        leaf[i] = in_order ? i / EACH : (int32_t)(((uint32_t)i * 2654435761u) >> (32 - HEIGHT));
        key[i] = i % EACH ? -1 : i / EACH;
    }
    hga_treeformer t = {.n_queries = TOKENS, .n_tree_heads = 1, .height = HEIGHT, .query_leaf = leaf, .key_leaf = key};
    assert_ok(hga_build_treeformer_fine(&t, g, p));
    free(leaf), free(key);
}

static int64_t count_buckets(const hga_graph *g, const hga_program *p)
{
    hga_plan *plan;
    accesses a = {0};
    assert_ok(hga_plan_create(g, p, &(hga_shape){.n_heads = 1, .dim = 4}, &(hga_options){.gradient = 1}, &plan));
    assert_ok(accesses_open(&a, plan, slots_recycle));
    int64_t n = a.n_buckets;
    accesses_close(&a);
    hga_plan_destroy(plan);
    return n;
}

/* Rows that a panel has here and there are told together: plans of trees that content decides on are made anew in every
   call. */
static void rows_in_no_order_are_told_together(void **state)
{
    (void)state;
    for (int in_order = 0; in_order < 2; in_order++) {
        hga_graph *g;
        hga_program program;
        build_leaves(in_order, &g, &program);
        if (in_order)
            assert_true(count_buckets(g, &program) > 500);
        else
            assert_int_equal(count_buckets(g, &program), 1);
        hga_graph_destroy(g);
    }
}

static void readers_follow_writers_in_no_order(void **state)
{
    (void)state;
    problem p = {.name = "leaves in no order", .shape = {.n_heads = 2, .dim = 4}};
    build_leaves(0, &p.graph, &p.program);
    p.program.has_lse = 1;
    assert_int_equal(count_buckets(p.graph, &p.program), 1);
    problem_fill(&p, 5);
    check_orders(&p);
    problem_clear(&p);
}

/* Few tokens make few panels, whose heads are shared out: each thread has two items to take, where there are heads. */
static void threads_share_the_heads_of_short_texts(void **state)
{
    (void)state;
    for (hga_id n = 16; n <= 512; n *= 2) {
        hga_graph *g;
        hga_program p;
        hga_plan *plan;
        assert_ok(hga_build("dense", n, &g, &p));
        for (hga_id threads = 2; threads <= 4; threads++) {
            assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 8, .dim = 16}, &(hga_options){.threads = threads},
                                      &plan));
            hga_id attending = 0;
            while (plan->phases.list[attending].job != JOB_ROWS) attending++;
            assert_true(count_items(&plan->phases.list[attending]) >= 2 * threads);
            hga_plan_destroy(plan);
        }
        hga_graph_destroy(g);
    }
}

/* Whatever the hierarchy, waiting leaves two threads at least 1.9 times as fast as one, by what panels cost. */
static void two_threads_are_nearly_twice_as_fast(void **state)
{
    (void)state;
    static const char *const words[] = {
        "window",
        "dilated",
        "bpt k=4",
        "bpt k=64",
        "htransformer block=16",
        "htransformer block=64 causal=1",
        "hsa branching=4",
        "fenwick",
        "hsa branching=2,4,8,16",
        "hsa branching=4 causal=1",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hga_graph *g;
        hga_program p;
        hga_plan *plan;
        assert_ok(hga_build(words[i], 65536, &g, &p));
        assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 8, .dim = 64}, &(hga_options){.threads = 2}, &plan));
        double faster = 1 / waves_longest_shares(plan);
        if (faster < 1.9) fail_msg("%s: two threads are at most %.2f times as fast", words[i], faster);
        hga_plan_destroy(plan), hga_graph_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_follow_writers_in_random_programs),
        cmocka_unit_test(readers_follow_writers_in_the_variants),
        cmocka_unit_test(readers_follow_writers_where_threads_have_blocks_in_turn),
        cmocka_unit_test(waves_are_few),
        cmocka_unit_test(tokens_attend_when_their_spans_are_there),
        cmocka_unit_test(threads_wait_together),
        cmocka_unit_test(two_threads_go_down_side_by_side),
        cmocka_unit_test(two_threads_share_what_is_in_no_order),
        cmocka_unit_test(rows_in_no_order_are_told_together),
        cmocka_unit_test(readers_follow_writers_in_no_order),
        cmocka_unit_test(threads_share_the_heads_of_short_texts),
        cmocka_unit_test(two_threads_are_nearly_twice_as_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
