/* fast_solver.c: a head at a time, as two solvers: subtree by subtree, or stage by stage. What is made once,
   threads, memory; then each head group is a pass. */
#include "carve.h"
#include "estimate.h"
#include "gradient_rows.h"
#include "fast_attend.h"
#include "fast_columns.h"
#include "fast.h"
#include "fast_states.h"
#include "fast_trees.h"
#include "fast_threads.h"
#include "plan.h"
#include "thread_binding.h"
#include "workspace_base.h"

/* ---- what is made once ---- */

/* Does a row of the stage ever have its edges read? All do but sums of children, and attention in tiles. */
static int reads_rows(const hga_plan *plan, hga_id stage)
{
    const hga_stage *s = &plan->program.stage[stage];
    if (!kind_attends(plan->stage[stage].kind)) return !is_of_children(s);
    return has_energies(&plan->program, s->out) || rows_are_whole(plan);
}

static hga_status list_stage(const hga_plan *plan, hga_id stage, int64_t bytes, row_list *out)
{
    edge_rows rows = {0};
    rows_open(&rows, plan, stage);
    hga_status st = edges_list(&rows, plan->program.field[plan->program.stage[stage].out].rows, bytes, out);
    edges_close(&rows);
    return st;
}

/* Lists the rows of stages that run row by row, if a sixteenth of the tensors' bytes is enough for each list. */
static hga_status list_stages(const hga_plan *plan, made_fast *made)
{
    hga_status st = HGA_OK;
    const hga_shape *shape = &plan->shape;
    int64_t bytes = (int64_t)plan->nodes.n * shape->n_heads * (shape->dim + shape->dim_v) * (int64_t)sizeof(float) / 4;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, HGA_MAX_STAGES, sizeof *made->lists, &made->lists));
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (reads_rows(plan, s)) HGA_TRY(list_stage(plan, s, bytes, &made->lists[s]));
done:
    return st;
}

/* Divides rows into ranges for so many head groups: subtrees, or the rows of each stage that attends. */
static hga_status cut_stages(const hga_plan *plan, const subtrees *trees, hga_id head_groups, row_ranges **out)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, HGA_MAX_STAGES, sizeof **out, out));
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (trees ? s == trees->last_attended : kind_attends(plan->stage[s].kind))
            HGA_TRY(row_ranges_create(plan, s, trees, head_groups, &(*out)[s]));
done:
    return st;
}

static void find_widest(const hga_plan *plan, made_fast *made)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        int64_t n = edges_most(plan->graph, plan->program.stage[s].relation);
        if (reads_rows(plan, s) && n > made->widest) made->widest = n;
        if (n > made->of_biased) made->of_biased = n;
    }
}

/* Frees what the solver made for a plan. */
static void drop_fast(const hga_plan *plan, void *what)
{
    made_fast *x = what;
    const hga_allocator *a = &plan->memory.allocator;
    for (int i = 0; i < 2; i++) {
        for (hga_id s = 0; x->row_ranges[i] && s < plan->program.n_stages; s++)
            row_ranges_clear(plan, &x->row_ranges[i][s]);
        hga_delete(a, x->row_ranges[i], HGA_MAX_STAGES, sizeof *x->row_ranges[i]);
    }
    for (hga_id s = 0; x->lists && s < plan->program.n_stages; s++) edges_unlist(plan->graph, a, &x->lists[s]);
    hga_delete(a, x->lists, HGA_MAX_STAGES, sizeof *x->lists);
    last_uses_clear(plan, &x->last_uses);
    subtrees_clear(plan, &x->trees);
    hga_delete(a, x, 1, sizeof *x);
}

/* Makes the subtrees, or sets *why there are none; and row ranges for head groups of key/value heads and of query
   heads. */
static hga_status make_trees(const hga_plan *plan, void **out, const char **why, reason *buffer)
{
    hga_status st = HGA_OK;
    made_fast *x = NULL;
    const hga_shape *s = &plan->shape;
    (void)buffer;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *x, &x));
    HGA_TRY(subtrees_create(plan, &x->trees, why));
    if (*why) goto done;
    HGA_TRY(cut_stages(plan, &x->trees, s->n_kv_heads, &x->row_ranges[0]));
    if (s->n_heads > s->n_kv_heads) HGA_TRY(cut_stages(plan, &x->trees, s->n_heads, &x->row_ranges[1]));
    find_widest(plan, x);
    *out = x;
done:
    if (x && (st || *why)) drop_fast(plan, x);
    return st;
}

/* Makes the row ranges of stages, after which panel columns leave, and the lists of rows that are read edge by edge. */
static hga_status make_stages(const hga_plan *plan, void **out, const char **why, reason *buffer)
{
    hga_status st = HGA_OK;
    made_fast *x = NULL;
    (void)why, (void)buffer;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *x, &x));
    HGA_TRY(cut_stages(plan, NULL, plan->shape.n_kv_heads, &x->row_ranges[0]));
    HGA_TRY(last_uses_create(plan, x->row_ranges[0], &x->last_uses));
    if (plan->shape.n_heads > 1) HGA_TRY(list_stages(plan, x));
    find_widest(plan, x);
    *out = x;
done:
    if (x && st) drop_fast(plan, x);
    return st;
}

/* ---- threads ---- */

/* The head groups of this call. */
static hga_id first_head_group(const hga_plan *plan, const call_needs *needs)
{
    return first_here(plan, needs, needs->head_groups);
}
static hga_id count_head_groups(const hga_plan *plan, const call_needs *needs)
{
    return heads_here(plan, needs, needs->head_groups);
}

/* How many head groups run in parallel, one thread each from beginning to end; all threads share each remaining head
   group by row ranges, if there are several ranges. */
static hga_id head_groups_alone(const hga_plan *plan, const made_fast *made, const call_needs *needs)
{
    const row_ranges *x = row_ranges_for(made, plan, needs);
    hga_id head_groups = count_head_groups(plan, needs);
    int cut = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) cut |= x[s].n > 1;
    return cut ? head_groups / needs->threads * needs->threads : head_groups;
}

/* The threads of a call: each one's memory, and passes, one for each head group of [first, team_stride) that runs in
   parallel; [team_stride, end) follow. */
typedef struct gradient_team {
    hga_id threads, passes, first, team_stride, end;
    fast_thread *thread;
    fast_pass *pass;
} gradient_team;

/* Head groups in parallel take about twice the memory of the tensors and their gradients at most: where several
   query heads read one key/value head the tensors are smaller. */
static gradient_team team_of(const hga_plan *plan, const made_fast *made, const call_needs *needs)
{
    hga_id threads = needs->threads, team_stride = head_groups_alone(plan, made, needs),
           head_groups = count_head_groups(plan, needs),
           heads = heads_here(plan, needs, plan->shape.n_heads + plan->shape.n_kv_heads), most = (heads + 1) / 2,
           passes = threads, first = first_head_group(plan, needs);
    if (passes > team_stride) passes = team_stride > 1 ? team_stride : 1;
    if (passes > most) passes = most;
    return (gradient_team){.threads = team_stride == head_groups ? passes : threads,
                           .passes = passes,
                           .first = first,
                           .team_stride = first + team_stride,
                           .end = first + head_groups};
}

static void lay_out_team(const hga_plan *plan, const made_fast *made, const call_needs *needs, gradient_team *all,
                         carver *arena)
{
    fast_thread l;
    fast_pass p;
    all->thread = carve(arena, all->threads, sizeof *all->thread);
    all->pass = carve(arena, all->passes, sizeof *all->pass);
    for (hga_id t = 0; t < all->threads; t++)
        fast_thread_lay_out(plan, made, needs, all->thread ? &all->thread[t] : &l, arena);
    for (hga_id t = 0; t < all->passes; t++) fast_lay_out(plan, made, needs, all->pass ? &all->pass[t] : &p, arena);
}

static int64_t fast_bytes(const hga_plan *plan, const void *made, const call_needs *needs)
{
    gradient_team all = team_of(plan, made, needs);
    carver arena = {0};
    lay_out_team(plan, made, needs, &all, &arena);
    return arena.used;
}

static hga_status cache(const hga_plan *plan, const void *made, const call_needs *needs, hga_workspace *workspace)
{
    return keep_panels(plan, workspace, team_of(plan, made, needs).threads);
}

static int64_t cached_bytes(const hga_plan *plan, const void *made, const call_needs *needs)
{
    return team_of(plan, made, needs).threads * panel_bytes(plan);
}

/* The threads that use the rows of a pass clear them: its own thread, or all of them if they share the pass. */
static void clear_padding(const gradient_team *all)
{
    if (!fast_has_padding(all->pass)) return;
#pragma omp parallel num_threads(all->threads) if (all->threads > 1)
    {
        binding old;
        binding_take(all->pass->plan, &old);
#pragma omp for schedule(static, 1) nowait
        for (hga_id t = 0; t < all->threads; t++)
            if (all->passes == 1)
                fast_clear(all->pass, t, all->threads);
            else if (t < all->passes)
                fast_clear(&all->pass[t], 0, 1);
        topology_unbind(&old);
    }
}

static void team_begin(const gradient_call *c, hga_workspace *workspace, gradient_team *all)
{
    struct panel **panel = cached_panels_of(workspace);
    for (hga_id t = 0; t < all->threads; t++) panel_open(c, panel[t]), fast_thread_begin(c, panel[t], &all->thread[t]);
    clear_padding(all);
    for (hga_id t = 0; t < all->passes; t++) {
        fast_begin(c, &all->thread[t], all->passes == 1 ? all->threads : 1, &all->pass[t]);
        all->pass[t].heads.groups = (head_group_walk){all->first + t, all->passes, all->team_stride};
    }
}

/* ---- head groups ---- */

/* Runs head groups in parallel. Each is a key/value head, and they share nothing but tables. */
static void run_teams(const gradient_team *all)
{
#pragma omp parallel num_threads(all->passes) if (all->passes > 1)
    {
        binding old;
        binding_take(all->pass->plan, &old);
#pragma omp for schedule(static, 1) nowait
        for (hga_id t = 0; t < all->passes; t++)
            for (hga_id head_group = all->first + t; head_group < all->team_stride && !all->pass[t].status;
                 head_group += all->passes) {
                all->pass[t].status = fast_gradient(&all->pass[t], head_group);
                if (!all->pass[t].status) all->pass[t].status = fast_end(&all->pass[t]);
            }
        topology_unbind(&old);
    }
}

/* Runs head groups in parallel where a key/value head has several: their gradients of it are added in order. */
static void go_in_order(const gradient_team *all)
{
#pragma omp parallel num_threads(all->passes) if (all->passes > 1)
    {
        binding old;
        binding_take(all->pass->plan, &old);
#pragma omp for ordered schedule(static, 1) nowait
        for (hga_id head_group = all->first; head_group < all->team_stride; head_group++) {
            fast_pass *p = &all->pass[(head_group - all->first) % all->passes];
            if (!p->status) p->status = fast_gradient(p, head_group);
#pragma omp ordered
            if (!p->status) p->status = fast_end(p);
        }
        topology_unbind(&old);
    }
}

static hga_status run_head_group(fast_pass *p, hga_id head_group)
{
    hga_status st = fast_gradient(p, head_group);
    if (!st) st = fast_end(p);
    return st == HGA_ENOMEM ? hga_fail(st, "the gradient's rows found no memory")
                            : st; /* another thread set the message */
}

/* Runs all head groups. Bits do not depend on which thread runs which head group or row range: sums of tables are
   separate and added in the order of the head groups, and row ranges are added in their own. */
static hga_status run_head_groups(const gradient_call *c, gradient_team *all)
{
    hga_status st = HGA_OK;
    (c->needs.head_groups == c->plan->shape.n_kv_heads ? run_teams : go_in_order)(all);
    for (hga_id t = 0; t < all->passes; t++) /* another thread set the message */
        if (all->pass[t].status) HGA_TRY(hga_fail(all->pass[t].status, "the gradient's rows found no memory"));
    all->pass[0].team.n = all->threads, all->pass[0].heads.groups = (head_group_walk){all->team_stride, 1, all->end};
    for (hga_id head_group = all->team_stride; head_group < all->end; head_group++)
        HGA_TRY(run_head_group(&all->pass[0], head_group));
done:
    return st;
}

static void bind_made(gradient_call *c, const made_fast *made)
{
    c->row_ranges = row_ranges_for(made, c->plan, &c->needs), c->lists = made->lists;
    c->last_uses = &made->last_uses, c->subtrees = &made->trees;
}

/* A call: carves memory, starts passes and threads, and runs all head groups. */
static hga_status go_fast(gradient_call *c, const void *what, hga_workspace *workspace, void *memory)
{
    const made_fast *made = what;
    carver arena = {.base = memory};
    gradient_team all = team_of(c->plan, made, &c->needs);
    lay_out_team(c->plan, made, &c->needs, &all, &arena);
    bind_made(c, made);
    for (hga_id f = 1; c->requested.n && f <= c->plan->program.n_fields; f++)
        if (program_is_input(c->plan->program.field[f].binding)) range_clear(c, f);
    team_begin(c, workspace, &all);
    hga_status st = run_head_groups(c, &all);
    if (st) workspace_forget(workspace); /* the cache may be incomplete */
    return st;
}

/* Threads that run whole head groups find every row range, the others their own. */
static hga_status find(gradient_call *c, const void *what, hga_workspace *workspace, void *memory)
{
    const made_fast *made = what;
    hga_status st = HGA_OK;
    carver arena = {.base = memory};
    gradient_team all = team_of(c->plan, made, &c->needs);
    lay_out_team(c->plan, made, &c->needs, &all, &arena);
    bind_made(c, made);
    struct panel **panel = cached_panels_of(workspace);
    for (hga_id t = 0; t < all.threads; t++) {
        int whole = t < all.passes && all.team_stride > all.first;
        panel_open(c, panel[t]), fast_thread_begin(c, panel[t], &all.thread[t]);
        all.pass[0].call = c, all.pass[0].rows.lists = c->lists,
        all.pass[0].heads.n = c->plan->shape.n_heads / c->needs.head_groups;
        all.pass[0].heads.groups = whole ? (head_group_walk){all.first + t, all.passes, all.team_stride}
                                         : (head_group_walk){all.first, 1, all.end};
        HGA_TRY(fast_find(&all.pass[0], &all.thread[t], whole ? 0 : t, whole ? 1 : all.threads));
    }
done:
    if (st) workspace_forget(workspace);
    return st;
}

/* ---- the two solvers ---- */

/* Sinks need no case of their own: a row's log-sum-exp includes its sink, one more term of the denominator, for
   scores and merged states alike. */
static const char *refuses_stages(const hga_plan *plan, unsigned features, reason *buffer)
{
    const char *why = edge_features_named(features);
    if (scores_are_sums(plan) && features & CALL_HAS_TYPE_KEYS) return "additive scores have relative keys";
    return why ? why : must_be_plain(plan, buffer);
}

static const char *refuses_trees(const hga_plan *plan, unsigned features, reason *buffer)
{
    const char *why = refuses_stages(plan, features, buffer);
    return why ? why : subtrees_refuse(plan, buffer);
}

/* Of edges listed one by one in a single stage: what else there is has no other solver to be compared with. A head's
   keys and values, and their gradients, are read and written in the order of the edges. */
static double estimate_stages(const hga_plan *plan)
{
    const hga_relation *r = &plan->stage[0].relation;
    if (plan->program.n_stages != 1 || plan->stage[0].kind != KIND_ATTEND || !r->ptr || r->n_blocks) return 0;
    const double columns = (double)plan->shape.dim + plan->shape.dim_v, rows = plan->nodes.level_ptr[1];
    const double far = doublings(rows * columns * 2 * sizeof(float)), moved = far * far * columns;
    const double shared = (double)plan->shape.n_kv_heads / plan->shape.n_heads;
    return plan->shape.n_heads *
           ((double)r->n_edges * (19 + 0.0091 * shared * moved) + rows * (104 + 0.12 * columns + 0.091 * moved));
}

const solver subtrees_solver = {.name = "a subtree at a time, a head at a time",
                                .by_heads = 1,
                                .reads_out = 1,
                                .refuses = refuses_trees,
                                .make = make_trees,
                                .drop = drop_fast,
                                .bytes = fast_bytes,
                                .cache = cache,
                                .cached_bytes = cached_bytes,
                                .find = find,
                                .go = go_fast};
const solver stages_solver = {.name = "a head at a time",
                              .reads_out = 1,
                              .refuses = refuses_stages,
                              .estimate = estimate_stages,
                              .skips = runs_by_panels,
                              .make = make_stages,
                              .drop = drop_fast,
                              .bytes = fast_bytes,
                              .cache = cache,
                              .cached_bytes = cached_bytes,
                              .find = find,
                              .go = go_fast};
