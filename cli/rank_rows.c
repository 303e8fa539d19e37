/* rank_rows.c: cuts, the plan's rows of them, and the work and traffic of ranks. */
#include "rank_rows.h"

#include <math.h>
#include <stdlib.h>

#include "cases.h"
#include "complain.h"
#include "ordered.h"
#include "world.h"

/* `ranks` ranges of the graph's tokens: [ranks + 1], for free(). */
static int rank_cuts(const hga_graph *g, hga_id ranks, hga_id **cuts)
{
    int64_t tokens = hga_graph_nodes(g).level_ptr[1];
    MUST(take(ranks + 1, sizeof **cuts, cuts));
    for (hga_id r = 0; r <= ranks; r++) (*cuts)[r] = (hga_id)(tokens * r / ranks);
    return CLI_GOOD;
}

int rank_plan_make(const model *m, const hga_shape *shape, const hga_options *typed, const hga_exchange *exchange,
                   hga_plan **plan, hga_workspace **workspace)
{
    hga_options options = *typed;
    hga_id *cuts = NULL;
    int status = CLI_GOOD;
    TRY(world_agree(rank_cuts(ordered_graph(m), world_ranks(), &cuts)));
    const hga_ranks ranks = {.exchange = exchange, .cuts = cuts};
    options.ranks = &ranks;
    options.threads = world_threads(options.threads);
    hga_status st = hga_plan_create(ordered_graph(m), &m->program, shape, &options, plan);
    if (!st) st = hga_workspace_create(*plan, workspace);
    TRY(world_agree(model_complain_of(st, m)));
done:
    free(cuts);
    return status;
}

/* The rows of one tensor that the plan says are this rank's. */
static int find_rows(const hga_plan *plan, const hga_program *p, hga_binding binding, row_list *list)
{
    hga_id field = hga_program_field(p, binding);
    list->exists = field != 0;
    if (!field) return CLI_GOOD;
    MUST(complain_of(hga_plan_rank_rows(plan, field, NULL, 0, &list->n), CLI_USAGE, "ranks"));
    MUST(take(list->n, sizeof *list->interval, &list->interval));
    MUST(complain_of(hga_plan_rank_rows(plan, field, list->interval, list->n, &list->n), CLI_USAGE, "ranks"));
    for (int64_t i = 0; i < list->n; i++) list->rows += list->interval[i].n;
    return CLI_GOOD;
}

/* Renumbers the list's rows, in order, as the user's tensor numbers them. */
static int number_by_user(const model *m, hga_binding binding, row_list *list)
{
    row_list theirs = {.rows = list->rows, .exists = list->exists};
    hga_id first = 0, all = 0;
    if (!m->order || !list->exists) return CLI_GOOD;
    MUST(complain_of(hga_program_rows(&m->program, m->graph, hga_program_field(&m->program, binding), &first, &all),
                     CLI_DATA, m->title));
    MUST(take(list->rows, sizeof *theirs.interval, &theirs.interval));
    for (int64_t i = 0; i < list->n; i++)
        for (int64_t at = list->interval[i].first, end = at + list->interval[i].n; at < end; at++) {
            int64_t row = m->order[first + at] - first;
            hga_interval *last = theirs.n ? &theirs.interval[theirs.n - 1] : NULL;
            if (last && last->first + last->n == row)
                last->n++;
            else
                theirs.interval[theirs.n++] = (hga_interval){row, 1};
        }
    free(list->interval);
    *list = theirs;
    return CLI_GOOD;
}

int rank_rows_find(const hga_plan *plan, const model *m, int by_user, rank_rows *rows)
{
    static const hga_binding binding[RANK_TENSORS] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    for (int i = 0; i < RANK_TENSORS; i++) {
        MUST(find_rows(plan, &m->program, binding[i], &rows->of[i]));
        if (by_user) MUST(number_by_user(m, binding[i], &rows->of[i]));
    }
    return CLI_GOOD;
}

void rank_rows_clear(rank_rows *rows)
{
    for (int i = 0; i < RANK_TENSORS; i++) free(rows->of[i].interval);
    *rows = (rank_rows){0};
}

/* ---- work and traffic of ranks ---- */

/* Finds the busiest rank's work. A gather of P ranks takes the time of log2 P messages. */
static void busiest(const hga_halo_list *list, rank_work *out)
{
    *out = (rank_work){0};
    for (hga_id r = 0; r < list->n_ranks; r++) {
        const hga_rank_load *x = &list->load[r];
        int64_t rows = x->rows_in > x->rows_out ? x->rows_in : x->rows_out;
        int64_t bytes = x->bytes_in > x->bytes_out ? x->bytes_in : x->bytes_out;
        int64_t messages = x->messages_in > x->messages_out ? x->messages_in : x->messages_out;
        out->edges = fmax(out->edges, (double)x->n_edges), out->rows = fmax(out->rows, (double)rows);
        out->bytes = fmax(out->bytes, (double)bytes), out->messages = fmax(out->messages, (double)messages);
    }
    out->messages += list->n_gathers * ceil(log2(list->n_ranks));
}

/* Cuts tokens as a run does; each figure is the most that a rank has. */
int ranks_count(const model *m, const hga_shape *shape, hga_id ranks, rank_work *out)
{
    hga_halo_list list = {0};
    const hga_graph *graph = ordered_graph(m);
    hga_id *cuts = NULL;
    int status = CLI_GOOD;
    TRY(rank_cuts(graph, ranks, &cuts));
    TRY(complain_of(hga_halo(graph, &m->program, shape, cuts, ranks, &list), CLI_USAGE, m->title));
    busiest(&list, out);
done:
    hga_halo_clear(&list);
    free(cuts);
    return status;
}

/* Measures the processor time of one thread, divided by the edges that it attends. */
int ranks_rate(const model *m, const hga_shape *shape, const hga_options *input, double *edge_seconds)
{
    bench_case c = {.graph = hga_graph_retain(ordered_graph(m)), .program = m->program};
    bench_rules rules = {.budget = 1};
    bench_timing time;
    hga_options options = *input;
    rank_work one;
    int status = CLI_GOOD;
    options.threads = 1;
    TRY(ranks_count(m, shape, 1, &one));
    TRY(complain_of(bench_case_ready(&c, shape, &options), CLI_USAGE, m->title));
    TRY(complain_of(bench_case_time(&c, &rules, &time), CLI_OUTSIDE, m->title));
    *edge_seconds = time.processor_least / one.edges;
done:
    bench_case_clear(&c);
    return status;
}
