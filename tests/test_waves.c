/* The order in which panels run: whatever reads a row comes after who wrote it, and the next writer after the readers. Told row by row, by other means. */
#include "random_program.h"

#include "engine.h"

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
typedef struct slot {
    hga_id wave, thread;
    int64_t at;
} slot;

typedef struct log_of_visits {
    const hga_plan *plan;
    edge **edges; /* by stage */
    int64_t *n_edges;
    visit *visit;
    int64_t n, room;
} log_of_visits;

static void note(log_of_visits *l, hga_id f, hga_id v, hga_id by, int64_t panel, int writes)
{
    hga_id heir = f < HGA_MAX_FIELDS ? l->plan->home[f].heir_of : -1;
    if (f < 0) return;
    if (l->n == l->room) {
        l->room = 2 * l->room + 1000;
        l->visit = realloc(l->visit, (size_t)l->room * sizeof *l->visit);
        assert_non_null(l->visit);
    }
    l->visit[l->n++] = (visit){(int64_t)(heir >= 0 ? heir : f) * (1 << 24) + v, panel, by, writes};
}

static void note_edge(log_of_visits *l, const hga_stage *s, hga_id u, hga_id by, int64_t panel)
{
    hga_message m = s->message;
    if (m == HGA_SCORE || m == HGA_ENERGY) note(l, s->key, u, by, panel, 0);
    if (m != HGA_GATE && m != HGA_MESSAGE_USER) note(l, s->value, u, by, panel, 0);
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

static void note_row(log_of_visits *l, hga_id stage, hga_id v, hga_id by, int64_t panel)
{
    const hga_stage *s = &l->plan->program.stage[stage];
    for (int64_t e = first_edge(l, stage, v); e < l->n_edges[stage] && l->edges[stage][e].dst == v; e++)
        note_edge(l, s, l->edges[stage][e].src, by, panel);
    if (s->message == HGA_SCORE) note(l, s->query, v, by, panel, 0);
    if (s->update == HGA_UPDATE_MERGE) note(l, s->out, v, by, panel, 0);
    if (s->message == HGA_GATE) note(l, s->value, v, by, panel, 0), note(l, s->gate, v, by, panel, 0), note(l, s->keep, v, by, panel, 1);
    note(l, s->out, v, by, panel, 1);
}

static int is_wide(const stage_plan *s, hga_id position)
{
    int wide = 0;
    for (hga_id i = 0; i < s->n_wide; i++) wide |= s->wide[i].position == position;
    return wide;
}

/* Row i of a phase, as part of a panel. */
static void note_phase_row(log_of_visits *l, hga_id number, hga_id i, int64_t panel)
{
    const phase *ph = &l->plan->phase[number];
    const stage_plan *s = &l->plan->stage[ph->stage];
    hga_id position = ph->first + i;
    if (ph->job == JOB_PIECES) {
        for (hga_id wide = 0; wide < s->n_wide; wide++)
            if (i >= s->wide[wide].first_piece && i - s->wide[wide].first_piece < s->wide[wide].n_pieces) position = s->wide[wide].position;
        note(l, HGA_MAX_FIELDS + ph->stage, i, number, panel, 1);
    }
    if (ph->job == JOB_MERGE) {
        position = s->wide[i].position;
        for (hga_id p = 0; p < s->wide[i].n_pieces; p++) note(l, HGA_MAX_FIELDS + ph->stage, s->wide[i].first_piece + p, number, panel, 0);
    }
    int by_order = ph->by_position || ph->job == JOB_PIECES || ph->job == JOB_MERGE;
    hga_id v = by_order && s->relation.dst_order ? s->relation.dst_order[position] : position;
    if (ph->job > JOB_MERGE)
        note(l, ph->stage, v, number, panel, ph->job != JOB_LSE);
    else if (ph->job == JOB_MERGE)
        note(l, l->plan->program.stage[ph->stage].out, v, number, panel, 1);
    else if (ph->job == JOB_PIECES || !is_wide(s, position))
        note_row(l, ph->stage, v, number, panel);
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

static int comes_before(slot a, slot b) { return a.wave < b.wave || (a.wave == b.wave && a.thread == b.thread && a.at < b.at); }

/* Slots in program order, every panel once. */
static slot *find_slots(const hga_plan *plan, const int64_t *panel_ptr)
{
    const wave_order *o = &plan->waves;
    slot *slots = memory(o->n_items, sizeof *slots);
    assert_int_equal(o->n_items, panel_ptr[plan->n_phases]);
    for (int64_t i = 0; i < o->n_items; i++) slots[i].wave = -1;
    for (hga_id w = 0; w < o->n; w++)
        for (hga_id t = 0; t < plan->threads; t++)
            for (int64_t i = o->ptr[w * plan->threads + t]; i < o->ptr[w * plan->threads + t + 1]; i++) {
                slot *s = &slots[panel_ptr[o->item[i].phase] + o->item[i].panel];
                assert_int_equal(s->wave, -1);
                *s = (slot){w, t, i};
            }
    for (int64_t i = 0; i < o->n_items; i++) assert_true(slots[i].wave >= 0);
    return slots;
}

/* Of any two visits to a row from two phases, one of them a write, the earlier phase's comes first. */
static void assert_ordered(const char *name, const log_of_visits *l, const slot *slots)
{
    for (int64_t i = 0, end; i < l->n; i = end) {
        for (end = i; end < l->n && l->visit[end].row == l->visit[i].row;) end++;
        for (int64_t a = i; a < end; a++)
            for (int64_t b = a + 1; b < end; b++) {
                const visit *x = &l->visit[a], *y = &l->visit[b];
                if (x->phase == y->phase || !(x->writes || y->writes)) continue;
                if (!comes_before(slots[x->panel], slots[y->panel]))
                    fail_msg("%s: row %lld of storage %lld: phase %d before phase %d", name, (long long)(x->row % (1 << 24)),
                             (long long)(x->row >> 24), y->phase, x->phase);
            }
    }
}

static void check_order(const char *name, const hga_graph *g, const hga_program *program, hga_options options)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(g, program, &(hga_shape){.n_heads = 2, .dim = 4}, &options, &plan));
    int64_t *panel_ptr = memory(plan->n_phases + 1, sizeof *panel_ptr), n_edges[HGA_MAX_STAGES];
    edge *edges[HGA_MAX_STAGES];
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        edges[s] = stage_edges(g, &plan->program.stage[s], &n_edges[s]);
        sort_edges(edges[s], n_edges[s]);
    }
    log_of_visits l = {.plan = plan, .edges = edges, .n_edges = n_edges};
    panel_ptr[0] = 0;
    for (hga_id i = 0; i < plan->n_phases; i++) {
        const phase *ph = &plan->phase[i];
        panel_ptr[i + 1] = panel_ptr[i] + ph->n_panels;
        for (hga_id r = 0; r < ph->n; r++) note_phase_row(&l, i, r, panel_ptr[i] + r / ph->panel);
    }
    slot *slots = find_slots(plan, panel_ptr);
    sort_visits(&l);
    assert_ordered(name, &l, slots);
    for (hga_id s = 0; s < plan->program.n_stages; s++) free(edges[s]);
    free(slots), free(panel_ptr), free(l.visit);
    hga_plan_destroy(plan);
}

static void check_orders(const char *name, const hga_graph *g, const hga_program *program)
{
    for (hga_id threads = 1; threads < 6; threads += threads) {
        check_order(name, g, program, (hga_options){.threads = threads, .cut_edges = 3});
        check_order(name, g, program, (hga_options){.threads = threads + 2, .precision = HGA_PRECISION_BF16, .partition_metis = 1});
    }
}

static void readers_follow_writers_in_random_programs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        uint64_t rng = seed;
        hga_graph *g = random_graph(seed, 1 + random_below(&rng, 150), 1 + (unsigned)random_below(&rng, 63));
        hga_program p = random_program(&rng);
        char name[64];
        snprintf(name, sizeof name, "seed %d", (int)seed);
        check_orders(name, g, &p);
        hga_graph_destroy(g);
    }
}

static void readers_follow_writers_in_the_variants(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 260, 31, &(hga_shape){.n_heads = 1, .dim = 4, .pos_dim = 2}, &p);
        check_orders(p.name, p.graph, &p.program);
        problem_clear(&p);
    }
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
            assert_true(plan->waves.sweeps <= 3);
            assert_true(plan->waves.n <= 3 * (threads + 1));
            hga_plan_destroy(plan);
        }
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_follow_writers_in_random_programs),
        cmocka_unit_test(readers_follow_writers_in_the_variants),
        cmocka_unit_test(waves_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
