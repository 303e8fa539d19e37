/* halo_splits.c: shared rows that plans cut into splits: which rank computes which split, and what that rank lacks. */
#include "halo_finding.h"

#include "bindings.h"

#include <string.h>

int halo_cuts(const finding *f, const reach *r, hga_pos sources)
{
    int lone = sources > f->walk.rule.longer && r->n_rows == 1 && r->n_spans == 1 && r->n_nodes == 0;
    row_look row;
    if (!lone) return 0;
    look_at_rows(f->g, f->walk.stage->relation, r->row, 1, &row);
    return lone_columns_of(f->g, f->p, f->walk.number, r->row, &row).first >= 0;
}

static hga_status count_owners(finding *f, hga_id first, hga_id last, void *context)
{
    (void)context;
    for (hga_id u = first, end; u <= last; u = end) {
        end = f->next[u] <= last ? f->next[u] : last + 1;
        if (f->owner[u] != SHARED) f->cut.has[f->owner[u]] += end - u;
    }
    return HGA_OK;
}

/* The rank that owns most of a split's sources computes it, and is sent the others; if all ranks have them, all
   compute it. */
static hga_status find_maker(finding *f, const reach *split, hga_id *maker)
{
    hga_status st = HGA_OK;
    hga_id n_ranks = f->out->n_ranks, first = split->spans->first;
    if (!split->source_order && f->next[first] > split->spans->last) {
        *maker = f->owner[first];
        return HGA_OK;
    }
    memset(f->cut.has, 0, (size_t)n_ranks * sizeof *f->cut.has);
    HGA_TRY(halo_each_interval(f, split, count_owners, NULL));
    *maker = SHARED;
    for (hga_id r = 0; r < n_ranks; r++)
        if (f->cut.has[r] > (*maker == SHARED ? 0 : f->cut.has[*maker])) *maker = r;
    if (*maker != SHARED) HGA_TRY(halo_each_interval(f, split, halo_request_interval, maker));
done:
    return st;
}

/* Adds splits [lo, hi) as one: their rank computes them, and sends the result to every rank. */
static hga_status add_split(finding *f, hga_id lo, hga_id hi)
{
    hga_halo_list *out = f->out;
    hga_pos first = lo * f->walk.rule.split, end = hi * f->walk.rule.split,
            edges = (end < f->cut.sources ? end : f->cut.sources) - first;
    hga_id rank = f->cut.maker[lo], field = f->walk.stage->out;
    hga_status st =
        hga_grow(&out->allocator, &out->split, &out->capacity[1], out->n_splits, out->n_splits + 1, sizeof *out->split);
    if (st) return st;
    int64_t bytes = split_bytes(program_kind(f->walk.stage), program_heads(f->p, &f->shape, field),
                                program_columns(f->p, &f->shape, field));
    out->split[out->n_splits++] = (hga_split){rank, f->walk.number, f->cut.row, edges, rank == SHARED ? 0 : bytes};
    *(rank == SHARED ? &f->shared_edges : &out->load[rank].n_edges) += edges;
    return HGA_OK;
}

/* Adds splits [lo, hi) of the row: those of one rank that are merged with each other are one. */
static hga_status add_splits(finding *f, hga_id lo, hga_id hi)
{
    hga_status st = HGA_OK;
    if (f->cut.run_end[lo] >= hi) return add_split(f, lo, hi);
    hga_id middle = splits_middle(lo, hi);
    HGA_TRY(add_splits(f, lo, middle));
    HGA_TRY(add_splits(f, middle, hi));
done:
    return st;
}

/* Finds which rank computes each split of a row, and where runs of splits of one rank end. */
hga_status halo_cut_row(finding *f, const reach *r, hga_pos sources)
{
    hga_status st = HGA_OK;
    hga_id n = (hga_id)((sources - 1) / f->walk.rule.split + 1);
    f->cut.row = r->row, f->cut.sources = sources;
    HGA_TRY(hga_grow(NULL, &f->cut.maker, &f->cut.maker_capacity, 0, n, sizeof *f->cut.maker));
    HGA_TRY(hga_grow(NULL, &f->cut.run_end, &f->cut.run_capacity, 0, n, sizeof *f->cut.run_end));
    for (hga_id i = 0; i < n; i++) {
        int64_t first = r->spans->first + i * f->walk.rule.split, last = first + f->walk.rule.split - 1;
        reach_span columns = {(hga_id)first, last < r->spans->last ? (hga_id)last : r->spans->last};
        reach split = *r;
        split.spans = &columns;
        HGA_TRY(find_maker(f, &split, &f->cut.maker[i]));
    }
    for (hga_id i = n - 1; i >= 0; i--)
        f->cut.run_end[i] = i + 1 < n && f->cut.maker[i + 1] == f->cut.maker[i] ? f->cut.run_end[i + 1] : i + 1;
    HGA_TRY(add_splits(f, 0, n));
done:
    return st;
}
