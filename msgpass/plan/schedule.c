/* schedule.c: list scheduling: which thread computes which panel, and when. Panels run once their inputs are present,
   thread by thread along the tokens, so that a stage finds the previous one's results in the cache; threads synchronize
   only where one depends on another's results. Values do not depend on the schedule.

   Panels are stamped in program order. A stamp is a wave (a superstep: waves end with a barrier), a thread, and how far
   along the tokens the thread must be in that wave. The panels on which a panel depends have earlier stamps, so sorting
   by stamps is a valid order. */
#include "schedule.h"
#include "slack.h"
#include "interrupt.h"
#include "owners.h"
#include "partition.h"

enum { WINDOW = 4096 /* tokens that a thread may be ahead of a row before the row is left to the next wave */ };

typedef struct scheduling {
    hga_plan *plan;
    hga_id *thread; /* [n_cells]: the thread of each cell of tokens */
    entry *entry;   /* [n_entries], in program order, then in that of the schedule */
    int64_t n_entries;
    accesses accesses;
    dependences dependences;
    live_ranges live;
} scheduling;

/* ---- positions of panels among the tokens ---- */

/* Position at which the sweep reaches a token: keys that are other tokens than the queries are mapped onto the queries'
   positions. */
static hga_id sweep_position(const hga_nodes *n, hga_id token)
{
    if (n->key_first == n->query_first || token < n->key_first || token >= n->key_first + n->n_keys) return token;
    return (hga_id)(n->query_first + (int64_t)(token - n->key_first) * n->n_queries / n->n_keys);
}

/* Position of the i-th of n things without tokens of their own. */
static hga_id index_among(const hga_nodes *nodes, int64_t i, int64_t n)
{
    if (nodes->key_first == nodes->query_first) return (hga_id)(i * nodes->level_ptr[1] / n);
    return nodes->query_first + (hga_id)(i * nodes->n_queries / n);
}

/* The range of positions of row i of a phase; a node without tokens has that of its index in the phase. */
static void sweep_positions(const hga_plan *plan, const phase *ph, hga_id i, hga_id *first, hga_id *last)
{
    const hga_nodes *nodes = &plan->nodes;
    hga_id v = phase_node(plan, ph, i), a = nodes->span_first[v], b = nodes->span_last[v];
    if (a <= b)
        *first = sweep_position(nodes, a), *last = sweep_position(nodes, b);
    else
        *first = *last = index_among(nodes, i, ph->n);
}

/* Positions of a split of a row that has its columns alone: its columns', or, where these have an order of their own,
   how far along that they are. Splits that may be computed together, shorter ones too, are consecutive. */
static void find_split_bounds(const hga_plan *plan, const stage_plan *s, const long_row *row, hga_id split,
                              hga_id *first, hga_id *last)
{
    const hga_nodes *n = &plan->nodes;
    hga_pos begin = (split - row->first_split) * row->cut, end = begin + row->cut;
    hga_id a = row->alone.first + (hga_id)begin,
           b = row->alone.first + (hga_id)(end < row->n_edges ? end : row->n_edges) - 1;
    if (s->relation.src_order) {
        *first = *last = index_among(n, a, s->relation.n_src_order);
        return;
    }
    if (s->splits_share) a -= (a - n->level_ptr[hga_graph_level(plan->graph, a)]) % SPLIT_ALONE;
    *first = sweep_position(n, n->span_first[a]), *last = sweep_position(n, n->span_last[b]);
    if (*first > *last) *last = *first;
}

/* Positions of a panel, from its first row to its last: rows mostly follow the tokens, and where they do not the order
   is merely less good. */
static void find_panel_indices(const hga_plan *plan, const phase *ph, hga_id panel, hga_id *first, hga_id *last)
{
    hga_id begin = panel * ph->panel, a, b;
    const long_row *row = ph->job == JOB_SPLITS ? long_row_of(&plan->stage[ph->stage], panel) : NULL;
    if (row && row->alone.first >= 0) {
        find_split_bounds(plan, &plan->stage[ph->stage], row, panel, first, last);
        return;
    }
    sweep_positions(plan, ph, begin, first, last);
    sweep_positions(plan, ph, begin + phase_rows(ph, panel) - 1, &a, &b);
    if (a < *first) *first = a;
    if (b > *last) *last = b;
}

/* Lists entries in program order, at the position of their first token. */
static hga_status list_entries(scheduling *x)
{
    const hga_plan *plan = x->plan;
    for (int64_t i = 0; i < plan->phases.n; i++) x->n_entries += count_items(&plan->phases.list[i]);
    hga_status st = hga_new(&plan->memory.allocator, x->n_entries, sizeof *x->entry, &x->entry);
    entry *e = x->entry;
    for (int64_t i = 0; !st && i < plan->phases.n; i++)
        for (int64_t k = 0; k < count_items(&plan->phases.list[i]); k++, e++) {
            hga_id parts = head_ranges(&plan->phases.list[i]), p = (hga_id)(k / parts);
            *e = (entry){.item = {(hga_id)i, p, (hga_id)(k % parts)}, .number = e - x->entry};
            find_panel_indices(plan, &plan->phases.list[i], p, &e->when.at, &e->last);
            if ((st = interrupted_at(k))) return st;
        }
    return st;
}

/* Partitions the positions into contiguous parts of about equal cost, all stages together; on a rank, of the work at
   its own tokens. */
static hga_status share_bounds(scheduling *x)
{
    const hga_plan *plan = x->plan;
    hga_id n_cells = cells_of(plan);
    hga_status st = HGA_OK;
    int64_t *cost = NULL;
    HGA_TRY(hga_new(&plan->memory.allocator, n_cells, sizeof *x->thread, &x->thread));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, n_cells, sizeof *cost, &cost));
    for (int64_t i = 0; i < x->n_entries; i++) {
        const phase *ph = &plan->phases.list[x->entry[i].item.phase];
        if (!ph->owner && owns_token(plan, x->entry[i].last))
            cost[x->entry[i].when.at / CELL] += item_cost(ph, x->entry[i].item.panel);
    }
    share_by_cost(n_cells, cost, plan->team.n, x->thread);
done:
    hga_delete(&plan->memory.allocator, cost, n_cells, sizeof *cost);
    return st;
}

/* ---- stamps ---- */

static hga_id thread_at(const scheduling *x, hga_id index)
{
    const hga_plan *plan = x->plan;
    return plan->team.cyclic ? index / plan->team.cyclic % plan->team.n : x->thread[index / CELL];
}

/* Where threads have blocks dealt cyclically, a block of each is a round, and none begins before its wave: no thread
   runs ahead of those that will read its results. */
static void await_round(const hga_plan *plan, hga_id first, hga_id last, stamp *mine)
{
    const hga_id round = plan->team.cyclic ? last / plan->team.cyclic / plan->team.n : 0;
    if (mine->wave < round) mine->wave = round, mine->at = first;
}

/* A panel that depends on another thread runs a wave later. So does one behind its own thread's position: the thread
   passes its tokens once a wave. Panels that belong to several threads are few, and stay in the wave. */
static void stamp_entry(const scheduling *x, entry *e, const stamp *after)
{
    const phase *ph = &x->plan->phases.list[e->item.phase];
    stamp *mine = &e->when;
    hga_id first = mine->at, last = e->last;
    int shared = thread_at(x, first) != thread_at(x, last);
    mine->owner =
        ph->owner ? ph->owner[(int64_t)e->item.panel * head_ranges(ph) + e->item.head_range] : thread_at(x, first);
    if (after->wave < 0) {
        mine->wave = 0;
    } else if (after->owner == mine->owner && (shared || after->at - last <= WINDOW + (last - first))) {
        mine->wave = after->wave;
        mine->at = after->at > first ? after->at : first;
    } else {
        mine->wave = after->wave + 1;
    }
    await_round(x->plan, first, last, mine);
}

/* A stamped panel, to be noted by those that come after it. */
typedef struct stamp_telling {
    scheduling *x;
    const entry *mine;
} stamp_telling;

static void tell(void *context, int writes, int64_t first, int64_t last)
{
    const stamp_telling *t = context;
    dependences_note(&t->x->dependences, t->mine->item.phase, &t->mine->when, writes, first, last);
    if (t->x->accesses.recycled) live_ranges_note(&t->x->live, t->x->entry, t->mine->number, writes, first, last);
}

/* In program order stamps each panel after those on which it depends, and notes its accesses. */
static hga_status stamp_entries(scheduling *x)
{
    phase_accesses waits = {0}, tells = {0};
    hga_status st = HGA_OK;
    for (int64_t i = 0; i < x->n_entries && !st; i++) {
        entry *e = &x->entry[i];
        hga_id number = e->item.phase;
        if (i == 0 || number != x->entry[i - 1].item.phase)
            waits = accesses_of(&x->accesses, number, 0), tells = accesses_of(&x->accesses, number, 1);
        stamp after = dependences_of(&x->dependences, &x->accesses, &waits, number, e->item.panel);
        stamp_entry(x, e, &after);
        accesses_visit(&x->accesses, &tells, e->item.panel, tell, &(stamp_telling){x, e});
        st = interrupted();
    }
    return st;
}

static void tell_again(void *context, int writes, int64_t first, int64_t last)
{
    const stamp_telling *t = context;
    live_ranges_note(&t->x->live, t->x->entry, t->mine->number, writes, first, last);
}

/* Delays panels that can wait, in favour of those on which others depend; live ranges then change. */
static hga_status even_out(scheduling *x)
{
    int moved;
    phase_accesses tells = {0};
    hga_status st = slack_use(&x->accesses, x->entry, x->n_entries, &moved);
    if (st || !moved || !x->accesses.recycled) return st;
    live_ranges_forget(&x->live);
    for (int64_t i = 0; i < x->n_entries; i++) {
        const entry *e = &x->entry[i];
        if (i == 0 || e->item.phase != x->entry[i - 1].item.phase) tells = accesses_of(&x->accesses, e->item.phase, 1);
        accesses_visit(&x->accesses, &tells, e->item.panel, tell_again, &(stamp_telling){x, e});
        if ((st = interrupted())) return st;
    }
    return HGA_OK;
}

/* ---- sorting ---- */

/* Whether `a` runs before `b`, which comes later in the program. */
static int comes_first(const stamp *a, const stamp *b)
{
    if (a->wave != b->wave) return a->wave < b->wave;
    if (a->owner != b->owner) return a->owner < b->owner;
    return a->at <= b->at;
}

static int64_t run_end(const entry *e, int64_t i, int64_t n)
{
    for (i++; i < n && comes_first(&e[i - 1].when, &e[i].when);) i++;
    return i < n ? i : n;
}

/* Merges neighbouring runs two by two; returns how many are left. */
static int64_t merge_runs(const entry *from, int64_t n, entry *to)
{
    int64_t runs = 0;
    for (int64_t a = 0, end; a < n; a = end, runs++) {
        int64_t middle = run_end(from, a, n), b = middle;
        end = b < n ? run_end(from, b, n) : n;
        for (int64_t at = a; at < end; at++)
            to[at] = b == end || (a < middle && comes_first(&from[a].when, &from[b].when)) ? from[a++] : from[b++];
    }
    return runs;
}

/* Merge sort: a phase runs along the tokens, so that the entries are a few sorted runs. */
static hga_status sort_entries(scheduling *x)
{
    entry *other = NULL;
    if (run_end(x->entry, 0, x->n_entries) == x->n_entries) return HGA_OK;
    hga_status st = hga_new(&x->plan->memory.allocator, x->n_entries, sizeof *other, &other);
    for (int64_t runs = 2; !st && runs > 1;) {
        runs = merge_runs(x->entry, x->n_entries, other);
        entry *sorted = other;
        other = x->entry, x->entry = sorted;
    }
    hga_delete(&x->plan->memory.allocator, other, x->n_entries, sizeof *other);
    return st;
}

/* ---- the plan's waves ---- */

/* Multiplications below which a wave is not worth waking and synchronizing the other threads: some tens of
   microseconds. */
static const double ALONE = 1e6;

static int is_small(const hga_plan *plan)
{
    const wave_order *o = &plan->waves;
    const hga_shape *s = &plan->shape;
    int64_t cost = 0;
    for (int64_t i = 0; i < (int64_t)o->n * plan->team.n; i++) cost += o->cost[i];
    return (double)cost * s->n_heads * (s->dim + s->dim_v) < ALONE * o->n;
}

/* Stores the plan's items in order, contiguous for each thread of a wave, with the sum of their costs. */
static hga_status store_order(scheduling *x)
{
    wave_order *o = &x->plan->waves;
    hga_id threads = x->plan->team.n;
    hga_status st = HGA_OK;
    HGA_TRY(sort_entries(x));
    o->n = x->n_entries ? x->entry[x->n_entries - 1].when.wave + 1 : 0;
    HGA_TRY(hga_new(&x->plan->memory.allocator, x->n_entries, sizeof *o->item, &o->item));
    o->n_items = x->n_entries;
    HGA_TRY(hga_new_zero(&x->plan->memory.allocator, (int64_t)o->n * threads + 1, sizeof *o->ptr, &o->ptr));
    HGA_TRY(hga_new_zero(&x->plan->memory.allocator, (int64_t)o->n * threads, sizeof *o->cost, &o->cost));
    for (int64_t i = 0; i < x->n_entries; i++) {
        const entry *e = &x->entry[i];
        int64_t share = (int64_t)e->when.wave * threads + e->when.owner;
        o->item[i] = e->item;
        o->ptr[share + 1]++;
        o->cost[share] += item_cost(&x->plan->phases.list[e->item.phase], e->item.panel);
    }
    for (int64_t i = 0; i < (int64_t)o->n * threads; i++) o->ptr[i + 1] += o->ptr[i];
    o->alone = is_small(x->plan);
done:
    return st;
}

/* Stores where each thread's tokens begin: cells are divided in order. */
static hga_status store_tokens(const scheduling *x)
{
    hga_plan *plan = x->plan;
    hga_id n = plan->nodes.level_ptr[1], cell = 0;
    hga_status st =
        hga_new(&plan->memory.allocator, (int64_t)plan->team.n + 1, sizeof *plan->waves.token, &plan->waves.token);
    for (hga_id t = 0; !st && t <= plan->team.n; t++) {
        while (cell < cells_of(plan) && x->thread[cell] < t) cell++;
        int64_t token = (int64_t)cell * CELL;
        int all = t == plan->team.n || (t > 0 && plan->waves.alone) || token > n;
        plan->waves.token[t] = all ? n : (hga_id)token;
    }
    if (!st) owners_meet_panels(plan);
    return st;
}

static void clear_scheduling(scheduling *x)
{
    const hga_allocator *a = &x->plan->memory.allocator;
    accesses_close(&x->accesses);
    dependences_close(a, &x->dependences);
    live_ranges_close(a, &x->live);
    hga_delete(a, x->thread, cells_of(x->plan), sizeof *x->thread);
    hga_delete(a, x->entry, x->n_entries, sizeof *x->entry);
}

/* Orders the panels of all phases, then assigns slots to recycled rows of the workspace in that order. */
hga_status waves_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    scheduling x = {.plan = plan, .accesses.plan = plan};
    HGA_TRY(accesses_open(&x.accesses, plan, slots_recycle));
    HGA_TRY(dependences_open(&plan->memory.allocator, x.accesses.n_buckets, &x.dependences));
    HGA_TRY(live_ranges_open(&plan->memory.allocator, x.accesses.recycled ? x.accesses.n_buckets : 0, &x.live));
    HGA_TRY(list_entries(&x));
    HGA_TRY(share_bounds(&x));
    HGA_TRY(stamp_entries(&x));
    HGA_TRY(even_out(&x));
    HGA_TRY(interrupted());
    HGA_TRY(store_order(&x));
    HGA_TRY(store_tokens(&x));
    HGA_TRY(interrupted());
    if (x.accesses.recycled) {
        HGA_TRY(live_ranges_find(&x.live, &x.accesses, x.entry, x.n_entries));
        HGA_TRY(slots_assign(plan, x.live.range, x.live.n, x.n_entries));
    }
done:
    clear_scheduling(&x);
    return st;
}

/* Sum of the longest shares of all waves as a fraction of the total cost. */
double waves_longest_shares(const hga_plan *plan)
{
    const wave_order *o = &plan->waves;
    int64_t all = 0, longest = 0;
    for (hga_id wave = 0; wave < o->n; wave++) {
        int64_t most = 0;
        for (const int64_t *c = o->cost + (int64_t)wave * plan->team.n, *end = c + plan->team.n; c < end; c++)
            all += *c, most = *c > most ? *c : most;
        longest += most;
    }
    return all ? (double)longest / (double)all : 1;
}

void waves_clear(hga_plan *plan)
{
    wave_order *o = &plan->waves;
    int64_t shares = (int64_t)o->n * plan->team.n;
    hga_delete(&plan->memory.allocator, o->item, o->n_items, sizeof *o->item);
    hga_delete(&plan->memory.allocator, o->ptr, shares + 1, sizeof *o->ptr);
    hga_delete(&plan->memory.allocator, o->cost, shares, sizeof *o->cost);
    hga_delete(&plan->memory.allocator, o->token, (int64_t)plan->team.n + 1, sizeof *o->token);
    *o = (wave_order){0};
}
