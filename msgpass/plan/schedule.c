/* schedule.c: who computes which panel, and when. Panels run as soon as what they read is there, thread by thread along
   the tokens, so that a stage finds in the cache what the one before it left; the threads meet only where one needs
   what another computed. Values do not depend on any of it.

   Panels are taken in program order. Each gets a stamp: the sweep over the tokens in which it runs, the wave within
   that sweep (waves end with a barrier), the thread, and how far along the tokens the sweep must have come. What a
   panel waits for has an earlier stamp, so sorting by stamps is an order. */
#include "plan.h"

#include <string.h>

enum {
    CELL = 16,     /* places that always have the same thread */
    WINDOW = 4096, /* tokens that a sweep may be ahead of a row before the row is left to the next sweep */
    SEVERAL = -1,  /* threads */
    PIECES = N_STORAGES
};

typedef struct stamp {
    hga_id sweep, wave, owner, at; /* sweep -1: nothing to wait for */
} stamp;

static const stamp nothing = {.sweep = -1};

/* Panels of a phase never wait for each other, though they may share a bucket. */
typedef struct trace {
    stamp before, all; /* the phases before `phase`, and with that one */
    hga_id phase;
} trace;

typedef struct entry {
    stamp when;
    wave_item item;
    hga_id last;    /* place */
    int64_t number; /* in program order */
} entry;

/* The first and the last panel, by stamps, that touch a bucket of a storage: entries, -1 before any. */
typedef struct life {
    int64_t first, last;
    uint8_t first_shared, last_shared; /* in that wave several threads touch it, in no order */
    uint8_t given;                     /* the program begins with reading it */
} life;

/* Of a level: its first bucket, and log2 of a bucket's nodes. */
typedef struct level_buckets {
    hga_id first;
    int shift;
} level_buckets;

/* The first and the last phase that use a storage; -1: none, or the caller alone. */
typedef struct users {
    int64_t first, last;
} users;

/* Storages that a panel touches: at its sources, at its rows. */
typedef struct touched {
    uint64_t sources, own, writes;
} touched;

/* The same by where the traces of their storages begin. */
typedef struct storages {
    int64_t at[N_STORAGES];
    hga_id n;
} storages;

typedef struct disputed {
    storages sources, own, writes;
} disputed;

typedef struct waving {
    hga_plan *plan;
    level_buckets *bucket;    /* [n_levels + 1] */
    hga_id level;             /* that the last node was on */
    hga_id n_places, n_cells; /* places are tokens in the order of the sweep; a cell is a few of them */
    hga_id *thread;           /* [n_cells]: whose they are */
    entry *entry;             /* [n_entries], in program order */
    int64_t n_entries;
    trace *read, *written; /* of each storage in turn: [n_traces] */
    life *life;            /* [n_traces] */
    int64_t n_traces;
    int64_t trace_at[PIECES + HGA_MAX_STAGES];                            /* storages, and the pieces of stages */
    users writers[PIECES + HGA_MAX_STAGES], all[PIECES + HGA_MAX_STAGES]; /* .. and whoever reads or writes */
    /* storages with rows that serve one node after another, .. */
    uint64_t recycled;
    lease *lease; /* .. and when: what becomes of lives */
    int64_t n_leases, lease_room;
    hga_id phase;          /* the panel at hand: its phase, .. */
    disputed waits, tells; /* .. what of its fields earlier and later phases touch, too, .. */
    stamp after;           /* .. and what it waits for, all in all */
} waving;

/* ---- panels ---- */

static hga_id phase_rows(const phase *ph, hga_id panel)
{
    return ph->n - panel * ph->panel < ph->panel ? ph->n - panel * ph->panel : ph->panel;
}

static int64_t panel_cost(const phase *ph, hga_id panel) { return ph->cost ? ph->cost[panel] : phase_rows(ph, panel); }

/* The node of row i of a phase. */
static hga_id phase_node(const hga_plan *plan, const phase *ph, hga_id i)
{
    const stage_plan *s = &plan->stage[ph->stage];
    if (ph->job == JOB_PIECES) return node_at(s, wide_of_piece(s, i)->position);
    if (ph->job == JOB_MERGE) return node_at(s, s->wide[i].position);
    return ph->by_position ? node_at(s, ph->first + i) : ph->first + i;
}

/* Where the sweep meets a token: queries and keys that are not the same tokens lie side by side. */
static hga_id place_of(const hga_nodes *n, hga_id token)
{
    if (n->key_first == n->query_first || token < n->key_first || token >= n->key_first + n->n_keys) return token;
    return (hga_id)(n->query_first + (int64_t)(token - n->key_first) * n->n_queries / n->n_keys);
}

/* The places that row i of a phase stands for; a node without tokens has that of its number among the phase's. */
static void find_places(const waving *w, const phase *ph, hga_id i, hga_id *first, hga_id *last)
{
    const hga_nodes *nodes = &w->plan->nodes;
    hga_id v = phase_node(w->plan, ph, i), a = nodes->span_first[v], b = nodes->span_last[v];
    if (a > b) a = b = (hga_id)((int64_t)i * w->n_places / ph->n);
    *first = place_of(nodes, a), *last = place_of(nodes, b);
}

/* Those of a panel: from its first row to its last, for rows mostly go with the tokens, and where they do not the order
   is merely not as good. */
static void find_panel_places(const waving *w, const phase *ph, hga_id panel, hga_id *first, hga_id *last)
{
    hga_id begin = panel * ph->panel, a, b;
    find_places(w, ph, begin, first, last);
    find_places(w, ph, begin + phase_rows(ph, panel) - 1, &a, &b);
    if (a < *first) *first = a;
    if (b > *last) *last = b;
}

/* ---- threads ---- */

/* One cut of the places into contiguous parts of about equal cost, all stages together. */
static hga_status share_places(waving *w)
{
    const hga_plan *plan = w->plan;
    hga_status st = HGA_OK;
    int64_t *cost = NULL, total = 0, sum = 0;
    HGA_TRY(hga_new(&plan->allocator, w->n_cells, sizeof *w->thread, &w->thread));
    HGA_TRY(hga_new_zero(&plan->allocator, w->n_cells, sizeof *cost, &cost));
    for (int64_t i = 0; i < w->n_entries; i++) {
        const phase *ph = &plan->phase[w->entry[i].item.phase];
        int64_t each = panel_cost(ph, w->entry[i].item.panel);
        if (!ph->part) cost[w->entry[i].when.at / CELL] += each, total += each;
    }
    for (hga_id c = 0; c < w->n_cells; c++) {
        double share = total ? ((double)sum + 0.5 * (double)cost[c]) / (double)total : 0;
        w->thread[c] = (hga_id)(share * plan->threads);
        if (w->thread[c] >= plan->threads) w->thread[c] = plan->threads - 1;
        sum += cost[c];
    }
done:
    hga_delete(&plan->allocator, cost, w->n_cells, sizeof *cost);
    return st;
}

/* ---- who read and wrote what ---- */

/* Nodes whose last readers and writers are remembered together: of one level of n, and fewer than its panels have. */
static int bucket_shift(hga_id n)
{
    int shift = 0;
    while (shift < 5 && n >> (10 + shift)) shift++;
    return shift;
}

/* Nodes come mostly one after the other, so the level is often the last one found. */
static hga_id level_of(waving *w, hga_id v)
{
    const hga_id *level = w->plan->nodes.level_ptr;
    hga_id lo = 0, hi = w->plan->nodes.n_levels;
    if (level[w->level] <= v && v < level[w->level + 1]) return w->level;
    while (hi - lo > 1) {
        hga_id mid = lo + (hi - lo) / 2;
        if (level[mid] <= v)
            lo = mid;
        else
            hi = mid;
    }
    return w->level = lo;
}

static hga_id bucket_of(waving *w, hga_id v)
{
    hga_id l = level_of(w, v);
    return w->bucket[l].first + ((v - w->plan->nodes.level_ptr[l]) >> w->bucket[l].shift);
}

static void wait_for(stamp *all, const stamp *one)
{
    if (one->sweep < all->sweep) return;
    if (one->sweep > all->sweep) {
        *all = *one;
        return;
    }
    if (one->wave > all->wave)
        all->wave = one->wave, all->owner = one->owner;
    else if (one->wave == all->wave && one->owner != all->owner)
        all->owner = SEVERAL;
    if (one->at > all->at) all->at = one->at;
}

static void wait_for_trace(waving *w, const trace *t)
{
    wait_for(&w->after, t->phase == w->phase ? &t->before : &t->all);
}

static void leave_trace(const waving *w, trace *t, const stamp *mine)
{
    if (t->phase != w->phase) t->before = t->all, t->phase = w->phase;
    wait_for(&t->all, mine);
}

static int compare_waves(const stamp *a, const stamp *b)
{
    return a->sweep != b->sweep ? (a->sweep < b->sweep ? -1 : 1) : (a->wave > b->wave) - (a->wave < b->wave);
}

/* Entry e, the latest of the program so far, may come earlier (sense -1) or later (1) than what is known. */
static void note_end(const waving *w, int64_t e, int sense, int64_t *known, uint8_t *shared)
{
    const stamp *mine = &w->entry[e].when, *theirs = &w->entry[*known].when;
    int order = compare_waves(mine, theirs);
    if (order == 0 && mine->owner != theirs->owner) {
        *shared = 1;
        return;
    }
    if (order != 0 && order == sense) *shared = 0;
    if (order == 0) order = mine->at < theirs->at ? -1 : 1;
    if (order == sense) *known = e;
}

static void note_life(const waving *w, life *l, int64_t e, int writes)
{
    if (l->first < 0) *l = (life){.first = e, .last = e, .given = !writes};
    note_end(w, e, -1, &l->first, &l->first_shared);
    note_end(w, e, 1, &l->last, &l->last_shared);
}

/* A panel touches traces [first, last]: mine NULL, it learns what to wait for; else it leaves its stamp. */
static void touch(waving *w, int writes, int64_t first, int64_t last, const entry *mine)
{
    trace *left = writes ? w->written : w->read;
    for (int64_t t = first; mine && t <= last; t++)
        leave_trace(w, &left[t], &mine->when), note_life(w, &w->life[t], mine->number, writes);
    for (int64_t t = first; !mine && t <= last; t++) wait_for_trace(w, &w->written[t]);
    for (int64_t t = first; !mine && writes && t <= last; t++) wait_for_trace(w, &w->read[t]);
}

static void touch_pieces(waving *w, hga_id stage, int writes, hga_id first, hga_id n, const entry *mine)
{
    int64_t at = w->trace_at[PIECES + stage] + first;
    touch(w, writes, at, at + n - 1, mine);
}

/* Those of `set` that have users before the phase at hand, or after it; and, after it, those whose lives are of
   interest. */
static storages find_storages(const waving *w, uint64_t set, const users *by, int after)
{
    storages some = {.n = 0};
    for (hga_id s = 0; set >> s; s++) {
        const users *u = &by[s];
        int others = u->last >= 0 && (after ? u->last > w->phase : u->first < w->phase);
        if (set >> s & 1u && (others || (after && w->recycled >> s & 1u))) some.at[some.n++] = w->trace_at[s];
    }
    return some;
}

/* ---- what a panel touches ---- */

/* Nodes in any order; those that come one after the other go together. */
typedef struct run {
    const storages *of;
    int writes;
    hga_id first, last;
    const entry *mine;
} run;

static void run_flush(waving *w, run *r)
{
    if (r->first > r->last) return;
    hga_id a = bucket_of(w, r->first), b = r->first == r->last ? a : bucket_of(w, r->last);
    for (hga_id i = 0; i < r->of->n; i++) touch(w, r->writes, r->of->at[i] + a, r->of->at[i] + b, r->mine);
    r->first = 0, r->last = -1;
}

static void run_add(waving *w, run *r, hga_id first, hga_id last)
{
    if (r->first <= r->last && first >= r->first && first <= r->last + 1) {
        if (last > r->last) r->last = last;
        return;
    }
    run_flush(w, r);
    r->first = first, r->last = last;
}

/* Parents or children of nodes [first, first + n). */
static void add_tree_sources(waving *w, run *r, hga_id relation, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &w->plan->nodes;
    hga_id base = nodes->level_ptr[1], lowest = first > base ? first : base;
    if (relation == HGA_TREE_DOWN) {
        for (hga_id v = first; nodes->parent && v < first + n; v++)
            if (nodes->parent[v] >= 0) run_add(w, r, nodes->parent[v], nodes->parent[v]);
    } else if (nodes->child_ptr && lowest < first + n) {
        hga_id begin = nodes->child_ptr[lowest - base], end = nodes->child_ptr[first + n - base];
        if (!nodes->child_list && begin < end) run_add(w, r, begin, end - 1);
        for (hga_id i = begin; nodes->child_list && i < end; i++)
            run_add(w, r, nodes->child_list[i], nodes->child_list[i]);
    }
}

/* Sources by blocks: columns that follow each other at once, others one by one. */
typedef struct block_sources {
    waving *w;
    run *r;
    const hga_id *order;
} block_sources;

static void add_columns(const block_sources *b, hga_id first, hga_id n)
{
    if (!b->order) run_add(b->w, b->r, first, first + n - 1);
    for (hga_id c = 0; b->order && c < n; c++) run_add(b->w, b->r, b->order[first + c], b->order[first + c]);
}

static void add_segments(const hga_segments *s, void *context)
{
    const hga_segment *one = &s->first;
    if (s->src_step <= one->n_src)
        add_columns(context, one->src, (s->count - 1) * s->src_step + one->n_src);
    else
        for (hga_id i = 0; i < s->count; i++) add_columns(context, one->src + i * s->src_step, one->n_src);
}

/* Sources of row positions [first, first + n). */
static void add_sources(waving *w, run *r, hga_id stage, hga_id first, hga_id n)
{
    const hga_relation *rel = &w->plan->stage[stage].relation;
    block_sources blocks = {w, r, rel->src_order};
    if (rel->n_blocks)
        hga_graph_visit_segments(w->plan->graph, w->plan->program.stage[stage].relation, first, n, add_segments,
                                 &blocks);
    for (hga_id p = first; rel->ptr && p < first + n; p++) {
        hga_id v = node_at(&w->plan->stage[stage], p);
        for (hga_pos e = rel->ptr[v]; e < rel->ptr[v + 1]; e++) run_add(w, r, rel->src[e], rel->src[e]);
    }
}

static void touch_sources(waving *w, const phase *ph, const storages *of, hga_id panel, const entry *mine)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    hga_id relation = w->plan->program.stage[ph->stage].relation, begin = panel * ph->panel, n = phase_rows(ph, panel);
    run r = {.of = of, .last = -1, .mine = mine};
    int together = ph->job == JOB_ROWS && (ph->by_position || !s->relation.dst_order);
    if (relation < 0)
        add_tree_sources(w, &r, relation, ph->first + begin, n);
    else if (together)
        add_sources(w, &r, ph->stage, ph->first + begin, n);
    for (hga_id i = begin; !together && i < begin + n; i++) {
        hga_id v = phase_node(w->plan, ph, i);
        add_sources(w, &r, ph->stage, s->relation.dst_rank ? s->relation.dst_rank[v] : v, 1);
    }
    run_flush(w, &r);
}

static void touch_rows(waving *w, const phase *ph, const storages *of, int writes, hga_id panel, const entry *mine)
{
    run r = {.of = of, .writes = writes, .last = -1, .mine = mine};
    hga_id begin = panel * ph->panel, n = phase_rows(ph, panel);
    if (ph->by_position) {
        const hga_id *node = w->plan->stage[ph->stage].relation.dst_order + ph->first + begin;
        for (hga_id i = 0; i < n; i++) run_add(w, &r, node[i], node[i]);
    } else if (ph->job == JOB_PIECES || ph->job == JOB_MERGE) {
        for (hga_id i = begin; i < begin + n; i++) {
            hga_id v = phase_node(w->plan, ph, i);
            run_add(w, &r, v, v);
        }
    } else {
        run_add(w, &r, ph->first + begin, ph->first + begin + n - 1);
    }
    run_flush(w, &r);
}

static uint64_t halves_of(uint64_t fields) { return fields << STORAGE_HALVES; }

/* The job on a field: rounding turns rows into halves, or changes them where they are. */
static touched find_field(const hga_plan *plan, const phase *ph)
{
    uint64_t rows = UINT64_C(1) << ph->stage;
    if (ph->job == JOB_ROUND)
        return (touched){.own = rows, .writes = plan->home[ph->stage].halves.n ? halves_of(rows) : rows};
    return ph->job == JOB_COPY ? (touched){.writes = rows} : (touched){.own = rows};
}

/* The storages that a phase reads at the sources and at the row, and writes there. */
static touched find_touched(const hga_plan *plan, const phase *ph)
{
    if (ph->job > JOB_MERGE) return find_field(plan, ph);
    const hga_stage *s = &plan->program.stage[ph->stage];
    stage_kind kind = plan->stage[ph->stage].kind;
    const stage_rule *rule = &program_rules[kind];
    touched t = {.writes = ph->job == JOB_PIECES ? 0 : s->writes};
    if (ph->job == JOB_MERGE) return t;
    t.sources = kind == KIND_USER ? s->reads : program_fields(s, rule->source_reads);
    t.own = kind == KIND_USER ? s->reads : program_fields(s, rule->own_reads | rule->lone_reads);
    if (plan->halves && (kind == KIND_ATTEND || kind == KIND_ATTEND_MORE)) t.sources = halves_of(t.sources);
    return t;
}

/* Of the fields that a phase reads, those that others write; of those that it writes, those that others read or write.
   */
static disputed find_disputed(const waving *w, touched t, int after)
{
    return (disputed){find_storages(w, t.sources, w->writers, after), find_storages(w, t.own, w->writers, after),
                      find_storages(w, t.writes, w->all, after)};
}

static void touch_panel(waving *w, const phase *ph, hga_id panel, const entry *mine)
{
    const disputed *d = mine ? &w->tells : &w->waits;
    const stage_plan *s = &w->plan->stage[ph->stage];
    if (d->sources.n) touch_sources(w, ph, &d->sources, panel, mine);
    if (d->own.n) touch_rows(w, ph, &d->own, 0, panel, mine);
    if (d->writes.n) touch_rows(w, ph, &d->writes, 1, panel, mine);
    if (ph->job == JOB_PIECES) touch_pieces(w, ph->stage, 1, panel, 1, mine);
    if (ph->job == JOB_MERGE) touch_pieces(w, ph->stage, 0, s->wide[panel].first_piece, s->wide[panel].n_pieces, mine);
}

/* ---- lives ---- */

/* Where in the order a wave begins and ends. */
static int64_t wave_begin(const waving *w, const int64_t *wave_of, int64_t item)
{
    return w->plan->waves.ptr[wave_of[item] * w->plan->threads];
}
static int64_t wave_end(const waving *w, const int64_t *wave_of, int64_t item)
{
    return w->plan->waves.ptr[(wave_of[item] + 1) * w->plan->threads] - 1;
}

/* What several threads touch in the first wave of its life is taken before any of them could have given a row back in
   that wave; what in the last one another thread touches is given back when all have ended. */
static lease lease_of(const waving *w, const life *l, const int64_t *rank, const int64_t *wave_of)
{
    int64_t begin = rank[l->first], end = rank[l->last];
    lease x = {.thread = w->entry[begin].when.owner, .begin = begin, .end = end};
    if (l->first_shared) x.begin = wave_begin(w, wave_of, begin);
    if (l->last_shared || w->entry[end].when.owner != x.thread) x.end = wave_end(w, wave_of, end);
    if (l->given) x.begin = 0, x.end = -1;
    return x;
}

/* Buckets that live alike go together. */
static hga_status add_lease(waving *w, lease x)
{
    lease *last = w->n_leases ? &w->lease[w->n_leases - 1] : NULL;
    if (last && last->storage == x.storage && last->first + last->n == x.first && last->thread == x.thread &&
        last->begin == x.begin && last->end == x.end) {
        last->n += x.n;
        return HGA_OK;
    }
    hga_status st =
        hga_grow(&w->plan->allocator, &w->lease, &w->lease_room, w->n_leases, w->n_leases + 1, sizeof *w->lease);
    if (!st) w->lease[w->n_leases++] = x;
    return st;
}

static hga_status lease_storage(waving *w, hga_id s, const int64_t *rank, const int64_t *wave_of)
{
    const hga_id *level = w->plan->nodes.level_ptr;
    hga_status st = HGA_OK;
    for (hga_id l = 0; l < w->plan->nodes.n_levels; l++)
        for (hga_id v = level[l], each = 1 << w->bucket[l].shift; v < level[l + 1]; v += each) {
            const life *mine = &w->life[w->trace_at[s] + bucket_of(w, v)];
            if (mine->first < 0) continue;
            lease x = lease_of(w, mine, rank, wave_of);
            x.storage = s, x.first = v, x.n = level[l + 1] - v < each ? level[l + 1] - v : each;
            HGA_TRY(add_lease(w, x));
        }
done:
    return st;
}

/* Once entries are in order. */
static hga_status lease_rows(waving *w)
{
    const wave_order *o = &w->plan->waves;
    hga_status st = HGA_OK;
    int64_t *rank = NULL, *wave_of = NULL;
    HGA_TRY(hga_new(&w->plan->allocator, w->n_entries, sizeof *rank, &rank));
    HGA_TRY(hga_new(&w->plan->allocator, w->n_entries, sizeof *wave_of, &wave_of));
    for (int64_t i = 0; i < w->n_entries; i++) rank[w->entry[i].number] = i;
    for (hga_id wave = 0; wave < o->n; wave++)
        for (int64_t i = o->ptr[wave * w->plan->threads]; i < o->ptr[(wave + 1) * w->plan->threads]; i++)
            wave_of[i] = wave;
    for (hga_id s = 0; w->recycled >> s; s++)
        if (w->recycled >> s & 1u) HGA_TRY(lease_storage(w, s, rank, wave_of));
    HGA_TRY(slots_assign(w->plan, w->lease, w->n_leases));
done:
    hga_delete(&w->plan->allocator, rank, w->n_entries, sizeof *rank);
    hga_delete(&w->plan->allocator, wave_of, w->n_entries, sizeof *wave_of);
    return st;
}

/* ---- stamps ---- */

/* A panel that waits for another thread runs in the next wave, wherever it is: were those behind the sweep left to the
   next one, threads that wait for each other would take turns. Of the rest, a panel behind the sweep is left to the
   next one, but for those that belong to several threads: few, and the others' next sweep begins with them. */
static void stamp_entry(waving *w, entry *e)
{
    const phase *ph = &w->plan->phase[e->item.phase];
    stamp *mine = &e->when;
    hga_id first = mine->at, last = e->last;
    mine->owner = ph->part ? ph->part[e->item.panel] : w->thread[first / CELL];
    w->after = nothing;
    touch_panel(w, ph, e->item.panel, NULL);
    int shared = w->thread[first / CELL] != w->thread[last / CELL];
    if (w->after.sweep < 0) {
        mine->sweep = mine->wave = 0;
    } else if (w->after.owner != mine->owner) {
        mine->sweep = w->after.sweep, mine->wave = w->after.wave + 1;
    } else if (shared || w->after.at - last <= WINDOW + (last - first)) {
        mine->sweep = w->after.sweep, mine->wave = w->after.wave;
        mine->at = w->after.at > first ? w->after.at : first;
    } else {
        mine->sweep = w->after.sweep + 1, mine->wave = 0;
    }
    touch_panel(w, ph, e->item.panel, e);
}

static void stamp_entries(waving *w)
{
    for (int64_t i = 0; i < w->n_entries; i++) {
        entry *e = &w->entry[i];
        const phase *ph = &w->plan->phase[e->item.phase];
        if (i == 0 || e->item.phase != w->phase) {
            touched t = find_touched(w->plan, ph);
            w->phase = e->item.phase;
            w->waits = find_disputed(w, t, 0), w->tells = find_disputed(w, t, 1);
        }
        stamp_entry(w, e);
    }
}

/* ---- in order ---- */

/* Does `a` run before `b`, which comes later in the program? */
static int comes_first(const stamp *a, const stamp *b)
{
    if (a->sweep != b->sweep) return a->sweep < b->sweep;
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

/* A phase goes along the tokens, so that the entries are a few runs that are in order already. */
static hga_status sort_entries(waving *w)
{
    entry *other = NULL;
    if (run_end(w->entry, 0, w->n_entries) == w->n_entries) return HGA_OK;
    hga_status st = hga_new(&w->plan->allocator, w->n_entries, sizeof *other, &other);
    for (int64_t runs = 2; !st && runs > 1;) {
        runs = merge_runs(w->entry, w->n_entries, other);
        entry *sorted = other;
        other = w->entry, w->entry = sorted;
    }
    hga_delete(&w->plan->allocator, other, w->n_entries, sizeof *other);
    return st;
}

/* Multiplications below which a wave does not pay for waking and meeting the other threads: some tens of microseconds.
   */
static const double ALONE = 1e6;

static int is_small(const waving *w)
{
    const hga_shape *s = &w->plan->shape;
    int64_t cost = 0;
    for (int64_t i = 0; i < w->n_entries; i++)
        cost += panel_cost(&w->plan->phase[w->entry[i].item.phase], w->entry[i].item.panel);
    return (double)cost * s->n_heads * (s->dim + s->dim_v) < ALONE * w->plan->waves.n;
}

static hga_status store_order(waving *w)
{
    wave_order *o = &w->plan->waves;
    hga_id threads = w->plan->threads;
    hga_status st = HGA_OK;
    HGA_TRY(sort_entries(w));
    for (int64_t i = 0; i < w->n_entries; i++) {
        const stamp *a = &w->entry[i].when, *b = i ? &w->entry[i - 1].when : &nothing;
        o->sweeps += a->sweep != b->sweep;
        o->n += a->sweep != b->sweep || a->wave != b->wave;
    }
    HGA_TRY(hga_new(&w->plan->allocator, w->n_entries, sizeof *o->item, &o->item));
    o->n_items = w->n_entries;
    HGA_TRY(hga_new_zero(&w->plan->allocator, (int64_t)o->n * threads + 1, sizeof *o->ptr, &o->ptr));
    int64_t wave = -1;
    for (int64_t i = 0; i < w->n_entries; i++) {
        const stamp *a = &w->entry[i].when, *b = i ? &w->entry[i - 1].when : &nothing;
        wave += a->sweep != b->sweep || a->wave != b->wave;
        o->item[i] = w->entry[i].item;
        o->ptr[wave * threads + a->owner + 1]++;
    }
    for (int64_t i = 0; i < (int64_t)o->n * threads; i++) o->ptr[i + 1] += o->ptr[i];
    o->alone = is_small(w);
done:
    return st;
}

/* ---- all together ---- */

static void note_user(users *of, int64_t by)
{
    if (of->last < 0) of->first = by;
    of->last = by;
}

static void note_users(users *of, uint64_t set, int64_t by)
{
    for (hga_id s = 0; set >> s; s++)
        if (set >> s & 1u) note_user(&of[s], by);
}

static void find_users(waving *w)
{
    for (int s = 0; s < PIECES + HGA_MAX_STAGES; s++) w->writers[s] = w->all[s] = (users){-1, -1};
    for (int64_t i = 0; i < w->plan->n_phases; i++) {
        const phase *ph = &w->plan->phase[i];
        touched t = find_touched(w->plan, ph);
        note_users(w->writers, t.writes, i);
        note_users(w->all, t.sources | t.own | t.writes, i);
        if (ph->job == JOB_PIECES) note_user(&w->writers[PIECES + ph->stage], i);
        if (ph->job == JOB_PIECES || ph->job == JOB_MERGE) note_user(&w->all[PIECES + ph->stage], i);
    }
    for (hga_id s = 0; s < N_STORAGES; s++)
        if (w->writers[s].last >= 0 && slots_recycle(w->plan, s)) w->recycled |= UINT64_C(1) << s;
}

/* Entries in program order, at the place of their first token. */
static hga_status list_entries(waving *w)
{
    for (int64_t i = 0; i < w->plan->n_phases; i++) w->n_entries += w->plan->phase[i].n_panels;
    hga_status st = hga_new(&w->plan->allocator, w->n_entries, sizeof *w->entry, &w->entry);
    entry *e = w->entry;
    for (int64_t i = 0; !st && i < w->plan->n_phases; i++)
        for (hga_id p = 0; p < w->plan->phase[i].n_panels; p++, e++) {
            *e = (entry){.item = {(hga_id)i, p}, .number = e - w->entry};
            find_panel_places(w, &w->plan->phase[i], p, &e->when.at, &e->last);
        }
    return st;
}

static hga_status make_traces(waving *w)
{
    const hga_plan *plan = w->plan;
    hga_id levels = plan->nodes.n_levels;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(&plan->allocator, (int64_t)levels + 1, sizeof *w->bucket, &w->bucket));
    for (hga_id l = 0; l < levels; l++) {
        hga_id n = plan->nodes.level_ptr[l + 1] - plan->nodes.level_ptr[l];
        w->bucket[l].shift = bucket_shift(n);
        w->bucket[l + 1].first = w->bucket[l].first + (n >> w->bucket[l].shift) + 1;
    }
    for (hga_id s = 0; s < PIECES + HGA_MAX_STAGES; s++) {
        w->trace_at[s] = w->n_traces;
        int recycled = s < PIECES && w->recycled >> s & 1u;
        if (recycled || (w->writers[s].last >= 0 && w->all[s].first < w->all[s].last))
            w->n_traces += s < PIECES ? w->bucket[levels].first : plan->stage[s - PIECES].n_pieces;
    }
    HGA_TRY(hga_new(&plan->allocator, w->n_traces, sizeof *w->read, &w->read));
    HGA_TRY(hga_new(&plan->allocator, w->n_traces, sizeof *w->written, &w->written));
    HGA_TRY(hga_new(&plan->allocator, w->n_traces, sizeof *w->life, &w->life));
    for (int64_t i = 0; i < w->n_traces; i++)
        w->read[i] = w->written[i] = (trace){nothing, nothing, -1}, w->life[i].first = -1;
done:
    return st;
}

static void clear(waving *w)
{
    const hga_allocator *a = &w->plan->allocator;
    hga_delete(a, w->bucket, (int64_t)w->plan->nodes.n_levels + 1, sizeof *w->bucket);
    hga_delete(a, w->thread, w->n_cells, sizeof *w->thread);
    hga_delete(a, w->entry, w->n_entries, sizeof *w->entry);
    hga_delete(a, w->read, w->n_traces, sizeof *w->read);
    hga_delete(a, w->written, w->n_traces, sizeof *w->written);
    hga_delete(a, w->life, w->n_traces, sizeof *w->life);
    hga_delete(a, w->lease, w->lease_room, sizeof *w->lease);
}

hga_status waves_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    waving w = {.plan = plan, .n_places = plan->nodes.level_ptr[1]};
    w.n_cells = w.n_places / CELL + 1;
    find_users(&w);
    HGA_TRY(list_entries(&w));
    HGA_TRY(share_places(&w));
    HGA_TRY(make_traces(&w));
    stamp_entries(&w);
    HGA_TRY(store_order(&w));
    if (w.recycled) HGA_TRY(lease_rows(&w));
done:
    clear(&w);
    return st;
}

void waves_clear(hga_plan *plan)
{
    wave_order *o = &plan->waves;
    hga_delete(&plan->allocator, o->item, o->n_items, sizeof *o->item);
    hga_delete(&plan->allocator, o->ptr, (int64_t)o->n * plan->threads + 1, sizeof *o->ptr);
    *o = (wave_order){0};
}
