/* fast_subtrees.c: the gradients of a head subtree by subtree: up the tree first, each subtree's rows loaded,
   coarsened and their adjoints merged while they are in cache, then down again from the top. */
#include "fast_attend.h"
#include "fast.h"
#include "fast_states.h"
#include "fast_trees.h"
#include "thread_binding.h"

#include <math.h>
#include <omp.h>

static const subtrees *trees_of(const fast_pass *p) { return p->call->subtrees; }

static row_range level_range(const fast_pass *p, hga_id l)
{
    return (row_range){p->nodes.level_ptr[l], p->nodes.level_ptr[l + 1]};
}

static row_range top_of(const fast_pass *p)
{
    return (row_range){p->nodes.level_ptr[trees_of(p)->n_levels], p->nodes.n};
}

/* ---- up ---- */

/* Loads the caller's rows, and the output's gradients. */
static void load_nodes(fast_pass *p, int kv, row_range nodes)
{
    const subtrees *t = trees_of(p);
    if (kv) load_range(p, t->key, nodes);
    if (kv) load_range(p, t->value, nodes);
    if (!kv && !p->field[t->query].by_row) load_range(p, t->query, nodes);
    if (!kv && !p->field[t->out].by_row) seed_range(p, nodes);
}

/* Sums up children, and merges their adjoints. */
static void join_children(fast_pass *p, int kv, row_range nodes)
{
    const subtrees *t = trees_of(p);
    for (hga_id f = 1; f <= p->program->n_fields; f++)
        if (t->sum[f] >= 0 && is_kv(p, f) == kv) sum_families(p, f, nodes);
    if (!kv && t->spreads) merge_families(p, t->out, nodes);
}

static void raise_subtree(fast_pass *p, int kv, hga_id i)
{
    const subtrees *t = trees_of(p);
    for (hga_id l = 0; l < t->n_levels; l++) {
        load_nodes(p, kv, subtree_level(t, i, l));
        if (l) join_children(p, kv, subtree_level(t, i, l));
    }
}

static void raise_top(fast_pass *p, int kv)
{
    load_nodes(p, kv, top_of(p));
    join_children(p, kv, top_of(p));
}

/* Calls `act` for each subtree, in parallel where there are threads. */
static void each_subtree(fast_pass *p, void (*act)(fast_pass *p, int kv, hga_id i), int kv)
{
    hga_id n = trees_of(p)->n, threads = p->team.n < n ? p->team.n : n;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(p->plan, &old);
#pragma omp for schedule(static) nowait
        for (hga_id i = 0; i < n; i++) {
            fast_pass one = *p;
            if (threads > 1) one.own.numbers = p->team.thread[omp_get_thread_num()].numbers;
            act(&one, kv, i);
        }
        topology_unbind(&old);
    }
}

/* Raises the subtrees from *p->raised to `end`; number n is the top. Keys and values are raised, too, unless they
   are still there from an earlier head. */
static void raise_until(fast_pass *p, hga_id end)
{
    hga_id n = trees_of(p)->n;
    for (; *p->raised < end; ++*p->raised)
        for (int kv = p->heads.head == p->heads.first || p->field[trees_of(p)->key].value_index; kv >= 0; kv--)
            if (*p->raised == n)
                raise_top(p, kv);
            else
                raise_subtree(p, kv, *p->raised);
}

static void raise_all(fast_pass *p)
{
    if (p->heads.head == p->heads.first) each_subtree(p, raise_subtree, 1);
    each_subtree(p, raise_subtree, 0);
    *p->raised = trees_of(p)->n;
    raise_until(p, trees_of(p)->n + 1);
}

/* ---- down ---- */

/* Distributes the gradients of a level's nodes, which are complete, to their children, and stores the caller's. */
static void lower_nodes(fast_pass *p, hga_id f, row_range nodes)
{
    int gives = trees_of(p)->sum[f] >= 0 && p->field[f].adjoint && nodes.first >= p->nodes.level_ptr[1];
    if (gives) give_families(p, f, nodes, NULL);
    if (!p->field[f].by_row) store_range(p, f, nodes);
}

static void lower_top(fast_pass *p, hga_id f)
{
    for (hga_id l = p->nodes.n_levels; l-- > trees_of(p)->n_levels;) lower_nodes(p, f, level_range(p, l));
}

/* Writes the gradients of subtree i's tokens straight to the caller's rows, if they are just the children of its
   level 1 and all of them the caller's; else returns 0. */
static int lower_tokens(const fast_pass *p, hga_id f, hga_id i)
{
    const subtrees *t = trees_of(p);
    if (t->sum[f] < 0 || !p->field[f].adjoint || t->n_levels < 2) return 0;
    row_range tokens = subtree_level(t, i, 0), parents = subtree_level(t, i, 1);
    hga_id first, n = field_io(p->plan, f, &first);
    int known = first <= tokens.first && tokens.end <= first + n && are_children_of(p, f, tokens, parents);
    direct_rows out = known ? find_direct_rows(p, f, tokens.first) : (direct_rows){0};
    if (out.first) give_families(p, f, parents, &out);
    return out.first != NULL;
}

static void lower_subtree(fast_pass *p, hga_id f, hga_id i)
{
    hga_id l = trees_of(p)->n_levels - 1;
    for (; l > 1; l--) lower_nodes(p, f, subtree_level(trees_of(p), i, l));
    if (lower_tokens(p, f, i)) return;
    for (; l >= 0; l--) lower_nodes(p, f, subtree_level(trees_of(p), i, l));
}

/* Attends each subtree once the subtrees that its rows have edges to are raised. */
static hga_status attend_subtrees(fast_pass *p, hga_id stage, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    (void)stage;
    for (hga_id i = first; i < end; i++) {
        raise_until(p, trees_of(p)->needs[i]);
        HGA_TRY(attend_subtree(p, i + 1));
    }
    attend_ends(p);
done:
    return st;
}

/* Attends the top last, when all subtrees are raised. */
static hga_status attend_top(fast_pass *p)
{
    fast_pass one = *p;
    one.own.d_rel_key = p->team.thread->d_rel_key;
    raise_until(&one, trees_of(p)->n + 1);
    hga_status st = attend_subtree(&one, 0);
    attend_ends(&one);
    p->rows = one.rows;
    return st;
}

static void lower_fields(fast_pass *p, int kv, hga_id i)
{
    const subtrees *t = trees_of(p);
    if (!kv) lower_subtree(p, t->query, i);
    if (kv) lower_subtree(p, t->key, i);
    if (kv) lower_subtree(p, t->value, i);
}

/* Computes the current head. A team of threads raises all subtrees first, so that no thread waits for another. */
static hga_status go_by_subtrees(fast_pass *p)
{
    hga_status st = HGA_OK;
    const subtrees *t = trees_of(p);
    hga_id raised = 0;
    p->raised = &raised;
    if (p->team.n > 1) raise_all(p);
    HGA_TRY(each_row_range(p, t->last_attended, attend_subtrees));
    HGA_TRY(attend_top(p));
    lower_top(p, t->query);
    each_subtree(p, lower_fields, 0);
done:
    return st;
}

/* Stores rows by subtrees, which share memory; all subtrees' rows at once when a team shares one head. */
static void lay_subtree_rows(fast_pass *p)
{
    const subtrees *t = trees_of(p);
    const hga_id *index = p->team.n > 1 ? NULL : t->index;
    p->field[t->query].value_index = p->field[t->key].value_index = p->field[t->value].value_index = index;
    p->field[t->out].index = index;
}

/* A head group of a program that runs by subtrees: its heads in order. */
hga_status subtrees_gradient(fast_pass *p)
{
    hga_status st = HGA_OK;
    lay_subtree_rows(p);
    for (p->heads.head = p->heads.first; p->heads.head < p->heads.first + p->heads.n; p->heads.head++) {
        clear_all(p, 0);
        HGA_TRY(go_by_subtrees(p));
    }
done:
    return st;
}

void subtrees_end(fast_pass *p)
{
    lower_top(p, trees_of(p)->key), lower_top(p, trees_of(p)->value);
    each_subtree(p, lower_fields, 1);
}
