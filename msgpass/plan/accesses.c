/* accesses.c: which rows a panel reads at its sources, reads at its own nodes, and writes. Rows are tracked as buckets
   of neighbours, and only those of storages that other phases use, too. */
#include "plan.h"
#include "schedule.h"

hga_id phase_node(const hga_plan *plan, const phase *ph, hga_id i)
{
    const stage_plan *s = &plan->stage[ph->stage];
    if (ph->job == JOB_SPLITS) return node_at(s, long_row_of(s, i)->position);
    if (ph->job == JOB_MERGE) return node_at(s, s->long_row[i].position);
    return ph->by_position ? node_at(s, ph->first + i) : ph->first + i;
}

/* ---- buckets ---- */

/* Nodes of one level of n whose last readers and writers are tracked together. Panels begin at multiples of sixteen of
   their level, so that smaller buckets would distinguish little more, and dominate the planning of short sequences; for
   long levels buckets twice as large suffice. For levels of long spans buckets are smaller: a panel that depends on one
   of their nodes would wait for all tokens of the others, which would have left the cache when their rows are read
   again; and where threads have blocks dealt cyclically, for the other threads. */
enum { BUCKET_SHIFT = 4, LONG_LEVEL = 1 << 14, BUCKET_TOKENS = 256 };
_Static_assert(1 << BUCKET_SHIFT == (int)KERNEL_TILE, "a bucket is a group of rows");
static int bucket_shift(const hga_plan *plan, hga_id n)
{
    const int64_t n_tokens = plan->nodes.level_ptr[1],
                  most = plan->team.cyclic && plan->team.cyclic < BUCKET_TOKENS ? plan->team.cyclic : BUCKET_TOKENS;
    int shift = n < LONG_LEVEL ? BUCKET_SHIFT : BUCKET_SHIFT + 1;
    while (n > 0 && n < n_tokens && shift > 0 && (n_tokens << shift) / n > most) shift--;
    return shift;
}

/* Nodes mostly come in order, so the level is often the last one found. */
static hga_id level_of(accesses *a, hga_id v)
{
    const hga_id *level = a->plan->nodes.level_ptr;
    hga_id lo = 0, hi = a->plan->nodes.n_levels;
    if (level[a->level] <= v && v < level[a->level + 1]) return a->level;
    while (hi - lo > 1) {
        hga_id mid = lo + (hi - lo) / 2;
        if (level[mid] <= v)
            lo = mid;
        else
            hi = mid;
    }
    return a->level = lo;
}

static hga_id bucket_of(accesses *a, hga_id v)
{
    hga_id l = level_of(a, v);
    return a->bucket[l].first + ((v - a->plan->nodes.level_ptr[l]) >> a->bucket[l].shift);
}

bucket_span accesses_buckets(accesses *a, hga_id storage, hga_id first, hga_id last)
{
    return (bucket_span){a->at[storage] + bucket_of(a, first), a->at[storage] + bucket_of(a, last)};
}

/* ---- runs of nodes ---- */

/* A panel's visit to rows of some sets. Nodes come in any order; consecutive ones are reported as one run. */
typedef struct visit {
    const hga_plan *plan;
    accesses *to;
    const row_sets *of;
    int writes;
    hga_id first, last;
    access_function each;
    node_function nodes; /* or nodes are reported themselves */
    void *context;
    run_list *runs; /* runs are stored here instead */
} visit;

static void tell_run(const visit *r, bucket_run x)
{
    for (hga_id i = 0; i < r->of->n; i++) r->each(r->context, r->writes, r->of->at[i] + x.first, r->of->at[i] + x.last);
}

/* Appends a run of buckets; adjacent and overlapping runs are joined. */
static void keep_run(run_list *l, bucket_run x)
{
    enum { CAPACITY = sizeof l->run / sizeof *l->run };
    bucket_run *last = l->n ? &l->run[l->n - 1] : NULL;
    if (last && x.first >= last->first && x.first <= last->last + 1)
        last->last = x.last > last->last ? x.last : last->last;
    else if (l->n < CAPACITY)
        l->run[l->n++] = x;
    else
        l->found = RUNS_TOO_MANY;
}

/* Reports or stores the run of nodes collected so far, and begins another. */
static void visit_flush(visit *r)
{
    if (r->first > r->last) return;
    if (r->nodes) {
        r->nodes(r->context, r->first, r->last);
    } else {
        bucket_run x = {bucket_of(r->to, r->first), 0};
        x.last = r->first == r->last ? x.first : bucket_of(r->to, r->last);
        r->runs ? keep_run(r->runs, x) : tell_run(r, x);
    }
    r->first = 0, r->last = -1;
}

static void visit_add(visit *r, hga_id first, hga_id last)
{
    if (r->first <= r->last && first >= r->first && first <= r->last + 1) {
        if (last > r->last) r->last = last;
        return;
    }
    visit_flush(r);
    r->first = first, r->last = last;
}

/* ---- sources ---- */

/* Visits the ancestors of nodes [first, first + n). Where children are contiguous in the order of their parents,
   parents of neighbours are, too, except for nodes without children; and siblings have one ancestor across the cut. */
static void visit_above(visit *r, const phase *ph, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &r->plan->nodes;
    hga_id cut = r->plan->stage[ph->stage].cut, last = first + n - 1, before = -1, u;
    if (!nodes->parent || n <= 0) return;
    if (!nodes->child_list && nodes->parent[last] >= 0 && ph->part_of_tree == TREE_WHOLE) {
        visit_add(r, nodes->parent[first], nodes->parent[last]);
        return;
    }
    for (hga_id v = first; v <= last; v++) {
        if (nodes->parent[v] == before) continue;
        before = nodes->parent[v];
        if ((u = node_above(nodes, ph->part_of_tree, cut, v)) >= 0) visit_add(r, u, u);
    }
}

/* Visits the parents, or the ancestors that replace them, or the children of nodes [first, first + n). */
static void visit_tree(visit *r, const phase *ph, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &r->plan->nodes;
    hga_id relation = r->plan->program.stage[ph->stage].relation;
    hga_id base = nodes->level_ptr[1], lowest = first > base ? first : base;
    if (relation == HGA_TREE_DOWN) {
        visit_above(r, ph, first, n);
    } else if (nodes->child_ptr && lowest < first + n) {
        hga_id begin = nodes->child_ptr[lowest - base], end = nodes->child_ptr[first + n - base];
        if (!nodes->child_list && begin < end) visit_add(r, begin, end - 1);
        for (hga_id i = begin; nodes->child_list && i < end; i++)
            visit_add(r, nodes->child_list[i], nodes->child_list[i]);
    }
}

/* Sources of blocks: contiguous columns at once, others one by one. */
typedef struct block_sources {
    visit *r;
    const hga_id *order;
} block_sources;

static void visit_columns(const block_sources *b, hga_id first, hga_id n)
{
    if (!b->order) visit_add(b->r, first, first + n - 1);
    for (hga_id c = 0; b->order && c < n; c++) visit_add(b->r, b->order[first + c], b->order[first + c]);
}

static void visit_segments(const hga_segments *s, void *context)
{
    const hga_segment *one = &s->first;
    if (s->src_step <= one->n_src)
        visit_columns(context, one->src, (s->count - 1) * s->src_step + one->n_src);
    else
        for (hga_id i = 0; i < s->count; i++) visit_columns(context, one->src + i * s->src_step, one->n_src);
}

/* Visits the sources of row positions [first, first + n). */
static void visit_positions(visit *r, hga_id stage, hga_id first, hga_id n)
{
    const hga_plan *plan = r->plan;
    const hga_relation *rel = &plan->stage[stage].relation;
    block_sources blocks = {r, rel->src_order};
    if (rel->n_blocks)
        hga_graph_visit_segments(plan->graph, plan->program.stage[stage].relation, first, n, visit_segments, &blocks);
    for (hga_id p = first; rel->ptr && p < first + n; p++) {
        hga_id v = node_at(&plan->stage[stage], p);
        for (hga_pos e = rel->ptr[v]; e < rel->ptr[v + 1]; e++) visit_add(r, rel->src[e], rel->src[e]);
    }
}

/* Visits the sources of splits [begin, begin + n): the split's own columns for rows that have their columns alone, all
   of the row's for others. */
static void visit_splits(visit *r, const phase *ph, hga_id begin, hga_id n)
{
    const stage_plan *s = &r->plan->stage[ph->stage];
    const block_sources blocks = {r, s->relation.src_order};
    for (hga_id i = begin, end; i < begin + n; i = end) {
        const long_row *row = long_row_of(s, i);
        end = row->first_split + row->n_splits < begin + n ? row->first_split + row->n_splits : begin + n;
        if (row->alone.first < 0) {
            visit_positions(r, ph->stage, row->position, 1);
            continue;
        }
        hga_pos first = (i - row->first_split) * row->cut, last = (end - row->first_split) * row->cut;
        visit_columns(&blocks, row->alone.first + (hga_id)first,
                      (hga_id)((last < row->n_edges ? last : row->n_edges) - first));
    }
    visit_flush(r);
}

/* Visits the sources of the phase's rows [begin, begin + n). */
static void visit_sources_of(visit *r, const phase *ph, hga_id begin, hga_id n)
{
    const hga_plan *plan = r->plan;
    const stage_plan *s = &plan->stage[ph->stage];
    hga_id relation = plan->program.stage[ph->stage].relation;
    int together = ph->by_position || !s->relation.dst_order;
    if (ph->job == JOB_SPLITS) {
        visit_splits(r, ph, begin, n);
        return;
    }
    if (relation < 0)
        visit_tree(r, ph, ph->first + begin, n);
    else if (together)
        visit_positions(r, ph->stage, ph->first + begin, n);
    if (program_rules[s->kind].reads.child) visit_tree(r, ph, ph->first + begin, n);
    for (hga_id i = begin; !together && i < begin + n; i++)
        visit_positions(r, ph->stage, s->relation.dst_rank[phase_node(plan, ph, i)], 1);
    visit_flush(r);
}

static void visit_sources(visit *r, const phase *ph, hga_id panel)
{
    visit_sources_of(r, ph, panel * ph->panel, phase_rows(ph, panel));
}

void accesses_sources(const hga_plan *plan, const phase *ph, hga_id first, hga_id n, node_function each, void *context)
{
    visit r = {.plan = plan, .last = -1, .nodes = each, .context = context};
    visit_sources_of(&r, ph, first, n);
}

/* ---- the panel's own rows, and splits ---- */

/* Whether a panel's rows are not contiguous: positions of an order, splits and merges; rows of a stage by node are
   contiguous. */
static int is_scattered(const phase *ph)
{
    return ph->job <= JOB_MERGE && (ph->by_position || ph->job == JOB_SPLITS || ph->job == JOB_MERGE);
}

/* Visits a panel's own rows: one run of nodes, or node by node where an order scatters them. */
static void visit_panel(visit *r, const phase *ph, hga_id panel)
{
    hga_id begin = panel * ph->panel, n = phase_rows(ph, panel);
    int scattered = is_scattered(ph) && !r->to->one_bucket;
    for (hga_id i = begin; scattered && i < begin + n; i++) {
        hga_id v = phase_node(r->plan, ph, i);
        visit_add(r, v, v);
    }
    if (!scattered) visit_add(r, ph->first + begin, ph->first + begin + n - 1);
    visit_flush(r);
}

/* Whether a panel's rows are in more runs than a list of runs can hold. */
static int is_everywhere(accesses *a, const phase *ph, hga_id panel)
{
    run_list l = {.found = RUNS_LISTED};
    visit_panel(&(visit){.plan = a->plan, .to = a, .last = -1, .runs = &l}, ph, panel);
    return l.found == RUNS_TOO_MANY;
}

/* Trees that depend on content scatter each panel's rows over all tokens. Buckets then distinguish nothing, and noting
   each row's takes longer than the rest of a plan's update: a flat graph has one for all. */
static int rows_are_everywhere(accesses *a)
{
    const phase *ph = a->plan->phases.list;
    int64_t left = a->plan->phases.n; /* none, and no list, if every block is empty */
    if (a->recycled || plan_is_shared(a->plan) || a->plan->nodes.n_levels > 1) return 0;
    while (left > 0 && !(ph->job == JOB_ROWS && is_scattered(ph))) ph++, left--;
    if (left == 0 || ph->n_panels < 2) return 0;
    return is_everywhere(a, ph, 0) && is_everywhere(a, ph, ph->n_panels / 2 - 1);
}

/* ---- a panel ---- */

typedef void (*row_finder)(visit *r, const phase *ph, hga_id panel);

/* Reports the rows that `find` finds; they are found once for several visits to one panel. */
static void visit_found(visit *r, const row_sets *sets, const phase *ph, hga_id panel, run_list *l, row_finder find)
{
    r->of = sets;
    if (l->found == RUNS_UNKNOWN) {
        r->runs = l, l->found = RUNS_LISTED, l->n = 0;
        find(r, ph, panel);
        r->runs = NULL;
    }
    if (l->found == RUNS_TOO_MANY) find(r, ph, panel);
    for (hga_id i = 0; l->found == RUNS_LISTED && i < l->n; i++) tell_run(r, l->run[i]);
}

/* Forgets the runs of another panel; where there were too many, so there are for the phase's next panels. */
static void open_panel(accesses *a, const phase *ph, hga_id panel)
{
    run_list *lists[] = {&a->sources, &a->own};
    for (int i = 0; i < 2; i++)
        if (ph != a->of || (panel != a->panel && lists[i]->found != RUNS_TOO_MANY)) lists[i]->found = RUNS_UNKNOWN;
    a->of = ph, a->panel = panel;
}

/* Calls `each` with the buckets that a panel reads and writes, and those of long rows' splits. */
void accesses_visit(accesses *a, const phase_accesses *of, hga_id panel, access_function each, void *context)
{
    const phase *ph = of->of;
    visit r = {.plan = a->plan, .to = a, .last = -1, .each = each, .context = context};
    int64_t splits = ph->job <= JOB_MERGE ? a->at[SPLITS + ph->stage] : 0;
    open_panel(a, ph, panel);
    if (of->sources.n) visit_found(&r, &of->sources, ph, panel, &a->sources, visit_sources);
    if (of->own.n) visit_found(&r, &of->own, ph, panel, &a->own, visit_panel);
    r.writes = 1;
    if (of->writes.n) visit_found(&r, &of->writes, ph, panel, &a->own, visit_panel);
    if (ph->job == JOB_SPLITS) each(context, 1, splits + panel, splits + panel);
    if (ph->job == JOB_MERGE) {
        const long_row *row = &a->plan->stage[ph->stage].long_row[panel];
        each(context, 0, splits + row->first_split, splits + row->first_split + row->n_splits - 1);
    }
}

/* ---- which storages ---- */

/* The storages of a job on a field. */
static storages_touched find_field(const phase *ph)
{
    uint64_t rows = UINT64_C(1) << ph->stage;
    return (storages_touched){.own = rows, .writes = ph->job == JOB_ROUND ? rows << STORAGE_ROUNDED : 0};
}

/* The storages that the phase reads at the stage's sources and at its own rows, and those that it writes. */
static storages_touched find_storages(const hga_plan *plan, const phase *ph, hga_id stage)
{
    const hga_stage *s = &plan->program.stage[stage];
    stage_kind kind = plan->stage[stage].kind;
    const stage_rule *rule = &program_rules[kind];
    storages_touched t = {.writes = ph->job == JOB_SPLITS ? 0 : s->writes};
    if (ph->job == JOB_MERGE) return t;
    int user = kind == KIND_USER;
    t.sources = read_storages(plan, s, user ? s->reads : program_fields(s, rule->reads.source | rule->reads.child));
    t.own = read_storages(plan, s, user ? s->reads : program_fields(s, rule->reads.own | rule->reads.lone));
    /* across the cut a row reads its own row before it writes it */
    if (ph->part_of_tree == TREE_ACROSS)
        t.own = t.writes = plan->stage[stage].crosses_all ? s->writes : UINT64_C(1) << s->out;
    return t;
}

/* Replaces aliases by their hosts, whose rows they use. */
static uint64_t with_hosts(const hga_plan *plan, uint64_t set)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (plan->fields.storage[f].host && set >> f & 1u)
            set = (set & ~(UINT64_C(1) << f)) | UINT64_C(1) << plan->fields.storage[f].host;
    return set;
}

storages_touched accesses_touched(const hga_plan *plan, const phase *ph, hga_id stage)
{
    if (ph->job > JOB_MERGE) return find_field(ph);
    storages_touched t = find_storages(plan, ph, stage);
    return (storages_touched){with_hosts(plan, t.sources), with_hosts(plan, t.own), with_hosts(plan, t.writes)};
}

static storages_touched find_touched(const hga_plan *plan, const phase *ph)
{
    storages_touched all = {0};
    for (hga_id s = ph->stage; s < stages_end(ph); s++) {
        storages_touched t = accesses_touched(plan, ph, s);
        all.sources |= t.sources, all.own |= t.own, all.writes |= t.writes;
    }
    return all;
}

/* Those of `set` that have users before the phase, or after it; with `after` also recycled ones. */
static row_sets find_sets(const accesses *a, uint64_t set, const users *by, hga_id number, int after)
{
    row_sets some;
    some.n = 0;
    for (; set; set &= set - 1) {
        int s = __builtin_ctzll(set);
        const users *u = &by[s];
        int others = u->last >= 0 && (after ? u->last > number : u->first < number);
        if (others || (after && a->recycled >> s & 1u)) some.at[some.n++] = a->at[s];
    }
    return some;
}

/* Of the fields that a phase reads, those that others write; of those that it writes, those that others read or write.
   */
phase_accesses accesses_of(const accesses *a, hga_id number, int after)
{
    const phase *ph = &a->plan->phases.list[number];
    storages_touched t = a->touched[number];
    return (phase_accesses){ph, find_sets(a, t.sources, a->writers, number, after),
                            find_sets(a, t.own, a->writers, number, after),
                            find_sets(a, t.writes, a->all, number, after)};
}

/* ---- opening ---- */

static void note_user(users *of, int64_t by)
{
    if (of->last < 0) of->first = by;
    of->last = by;
}

static void note_users(users *of, uint64_t set, int64_t by)
{
    for (; set; set &= set - 1) note_user(&of[__builtin_ctzll(set)], by);
}

/* Finds the first and the last phase that write each storage, or use it at all, and the storages whose rows are
   recycled. */
static void find_users(accesses *a, int (*recycles)(const hga_plan *, hga_id))
{
    for (int s = 0; s < N_ROW_SETS; s++) a->writers[s] = a->all[s] = (users){-1, -1};
    for (int64_t i = 0; i < a->plan->phases.n; i++) {
        const phase *ph = &a->plan->phases.list[i];
        storages_touched t = a->touched[i] = find_touched(a->plan, ph);
        note_users(a->writers, t.writes, i);
        note_users(a->all, t.sources | t.own | t.writes, i);
        if (ph->job == JOB_SPLITS) note_user(&a->writers[SPLITS + ph->stage], i);
        if (ph->job == JOB_SPLITS || ph->job == JOB_MERGE) note_user(&a->all[SPLITS + ph->stage], i);
    }
    const users *used = plan_is_shared(a->plan) ? a->all : a->writers; /* other ranks write what this one only reads */
    for (hga_id s = 0; s < N_STORAGES; s++)
        if (used[s].last >= 0 && recycles(a->plan, s)) a->recycled |= UINT64_C(1) << s;
}

/* Buckets for the sets that some write and others read, or that are recycled. */
static void number_buckets(accesses *a)
{
    const hga_plan *plan = a->plan;
    hga_id levels = plan->nodes.n_levels;
    for (hga_id s = 0; s < N_ROW_SETS; s++) {
        int recycled = s < SPLITS && a->recycled >> s & 1u;
        a->at[s] = a->n_buckets;
        if (recycled || (a->writers[s].last >= 0 && a->all[s].first < a->all[s].last))
            a->n_buckets += s < SPLITS ? a->bucket[levels].first : plan->stage[s - SPLITS].n_splits;
    }
}

/* Cuts levels into buckets, and numbers the buckets of storages that several phases use. */
hga_status accesses_open(accesses *a, const hga_plan *plan, int (*recycles)(const hga_plan *, hga_id))
{
    hga_id levels = plan->nodes.n_levels;
    hga_status st = HGA_OK;
    a->plan = plan, a->of = NULL, a->n_phases = plan->phases.n;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, (int64_t)levels + 1, sizeof *a->bucket, &a->bucket));
    HGA_TRY(hga_new(&plan->memory.allocator, a->n_phases, sizeof *a->touched, &a->touched));
    for (hga_id l = 0; l < levels; l++) {
        hga_id n = plan->nodes.level_ptr[l + 1] - plan->nodes.level_ptr[l];
        a->bucket[l].shift = bucket_shift(plan, n);
        a->bucket[l + 1].first = a->bucket[l].first + (n >> a->bucket[l].shift) + 1;
    }
    find_users(a, recycles);
    a->one_bucket = rows_are_everywhere(a);
    if (a->one_bucket) a->bucket[0].shift = 31, a->bucket[1].first = 1;
    number_buckets(a);
done:
    return st;
}

void accesses_close(accesses *a)
{
    hga_delete(&a->plan->memory.allocator, a->bucket, (int64_t)a->plan->nodes.n_levels + 1, sizeof *a->bucket);
    hga_delete(&a->plan->memory.allocator, a->touched, a->n_phases, sizeof *a->touched);
}
