/* halo_requests.c: rows that a rank requests of others, as intervals of nodes, merged as they come. */
#include "halo_finding.h"

#include "sort.h"

#include <string.h>

static int request_before(const row_request *a, const row_request *b)
{
    ORDER(field);
    ORDER(wrote);
    ORDER(to);
    ORDER(first);
    ORDER(last);
    return a->reads < b->reads;
}
SORT_DEFINE(sort_requests, row_request, request_before)

static int alike(const row_request *a, const row_request *b)
{
    return a->field == b->field && a->wrote == b->wrote && a->to == b->to;
}

static int touch(const row_request *a, const row_request *b)
{
    return a->first <= b->last + 1 && b->first <= a->last + 1;
}

static void unite(row_request *a, const row_request *b)
{
    if (b->first < a->first) a->first = b->first;
    if (b->last > a->last) a->last = b->last;
    if (b->reads < a->reads) a->reads = b->reads;
}

static void forget_recent(finding *f)
{
    memset(f->requests.recent, -1, (size_t)(f->p->n_fields + 1) * sizeof *f->requests.recent);
}

/* Sorts the requests and merges those that touch. */
void halo_melt(finding *f)
{
    int64_t n = 0;
    sort_requests(f->requests.list, f->requests.n);
    for (int64_t i = 0; i < f->requests.n; i++)
        if (n && alike(&f->requests.list[n - 1], &f->requests.list[i]) &&
            touch(&f->requests.list[n - 1], &f->requests.list[i]))
            unite(&f->requests.list[n - 1], &f->requests.list[i]);
        else
            f->requests.list[n++] = f->requests.list[i];
    f->requests.n = n;
    f->requests.melt_at = n < MOST_REQUESTS / 2 ? MOST_REQUESTS : 2 * n;
    forget_recent(f);
}

/* Adds a request, or extends a recent one that it touches. */
static hga_status request_field(finding *f, const row_request *w)
{
    hga_status st = HGA_OK;
    int64_t *recent = f->requests.recent[w->field][hga_graph_level(f->g, w->first) % RECENT_LEVELS];
    for (int side = 0; side < SIDES; side++)
        if (recent[side] >= 0 && alike(&f->requests.list[recent[side]], w) &&
            touch(&f->requests.list[recent[side]], w)) {
            unite(&f->requests.list[recent[side]], w);
            return HGA_OK;
        }
    if (f->requests.n >= f->requests.melt_at) halo_melt(f);
    HGA_TRY(hga_grow(NULL, &f->requests.list, &f->requests.capacity, f->requests.n, f->requests.n + 1,
                     sizeof *f->requests.list));
    recent[1] = recent[0], recent[0] = f->requests.n;
    f->requests.list[f->requests.n++] = *w;
done:
    return st;
}

/* Does the rank compute nodes [first, last] itself: its own ones, or shared ones? */
static int has_nodes(const finding *f, hga_id rank, hga_id first, hga_id last)
{
    hga_id owner = f->owner[first];
    return (owner == SHARED || owner == rank) && f->next[first] > last;
}

/* Requests every field that the stage reads at its sources, of nodes [first, last]. */
static hga_status request_nodes(finding *f, hga_id to, hga_id first, hga_id last)
{
    hga_status st = HGA_OK;
    if (has_nodes(f, to, first, last)) return HGA_OK;
    for (hga_id i = 1; i <= f->p->n_fields; i++)
        if (f->walk.reads >> i & 1u) {
            row_request w = {i, f->wrote[i], to, first, last, f->walk.number};
            HGA_TRY(request_field(f, &w));
        }
done:
    return st;
}

void halo_begin_requests(finding *f)
{
    f->requests.melt_at = MOST_REQUESTS;
    forget_recent(f);
}

/* Visits what a row reads, as intervals of nodes. */
hga_status halo_each_interval(finding *f, const reach *r, interval_visit visit, void *context)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0; i < r->n_spans; i++) {
        reach_span s = r->spans[i];
        if (!r->source_order) {
            HGA_TRY(visit(f, s.first, s.last, context));
            continue;
        }
        for (hga_id k = s.first; k <= s.last; k++) HGA_TRY(visit(f, r->source_order[k], r->source_order[k], context));
    }
    for (int64_t i = 0; i < r->n_nodes; i++) HGA_TRY(visit(f, r->nodes[i], r->nodes[i], context));
done:
    return st;
}

hga_status halo_request_interval(finding *f, hga_id first, hga_id last, void *context)
{
    return request_nodes(f, *(const hga_id *)context, first, last);
}
