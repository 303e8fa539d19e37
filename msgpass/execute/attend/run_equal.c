/* run_equal.c: solves panels of equal contiguous families, whose members attend to each other and to no other node, as
   a level of a tree has them. Same results and bits as choose_tiles.c and run_family.c group by group; but which rows
   have which columns is found once for all groups. */
#include "bound.h"
#include "panel_solvers.h"
#include "inside.h"
#include "attend_solvers.h"
#include "panel_rows.h"
#include "plan.h"
#include "scores.h"
#include "stages.h"
#include "sums.h"

/* A panel's segments: the first block that repeats, and how many there are. */
typedef struct segments_found {
    hga_id n;
    hga_segments families;
} segments_found;

static void note_segments(const hga_segments *s, void *context)
{
    segments_found *found = context;
    if (!found->n++) found->families = *s;
}

/* Whether the blocks are contiguous squares on the diagonal from row `first` to the panel's end, and no family crosses
   a group of sixteen. */
static int cover_panel(const hga_segments *s, hga_id first, hga_id n)
{
    const hga_segment *one = &s->first;
    const hga_id members = one->n_rows;
    const int square = one->row == first && one->src == first && one->n_src == members,
              in_step = s->count == 1 || (s->row_step == members && s->src_step == members);
    return square && in_step && s->count * members == n && KERNEL_TILE % members == 0;
}

/* Lists the lane masks of sixteen rows' columns. 0: some row, or some column, has no edge. */
static int list_families(const hga_segment *one, equal_families *x)
{
    const hga_id members = one->n_rows;
    hga_id columns = 0;
    for (hga_id r = 0; r < KERNEL_TILE; r++) {
        hga_id begin, end, hole, before = x->edges, at = r / members * members;
        hga_segment_columns(one, one->row + r % members, &begin, &end, &hole);
        for (hga_id e = begin; e < end; e++)
            if (e != hole) x->rows[at + e] = (lane_mask)(x->rows[at + e] | 1u << r), x->edges++;
        if (x->edges == before) return 0;
    }
    for (hga_id e = 0; e < KERNEL_TILE; e++) columns += x->rows[e] != 0;
    return columns == KERNEL_TILE;
}

static int are_in_order(hga_id first, hga_id n, const hga_id *node)
{
    hga_id i = 0;
    while (i < n && node[i] == first + i) i++;
    return i == n;
}

/* Whether all of a field's rows have the same head stride. */
static int heads_are_alike(const bound_field *x, hga_id first, hga_id n)
{
    hga_id callers = 0;
    for (hga_id v = first; v < first + n && x->io.head != x->ws.head; v++) callers += bound_is_io(x, v);
    return callers == 0 || callers == n;
}

static int rows_are_alike(const worker *w, hga_id stage, hga_id first, hga_id n)
{
    const hga_stage *s = stage_of(w, stage);
    return heads_are_alike(read_field(w, s, s->query), first, n) &&
           heads_are_alike(read_field(w, s, s->key), first, n) &&
           heads_are_alike(read_field(w, s, s->value), first, n) && heads_are_alike(field(w, s->out), first, n);
}

/* Biases of sixteen rows as columns. */
static void find_biases(worker *w, hga_id stage, hga_id first)
{
    edge_chunk *c = &w->chunk;
    c->n = KERNEL_TILE;
    for (hga_id e = 0; e < c->n; e++) c->src[e] = first + e, c->weight[e] = w->equal.weight;
    score_bases(w, stage, -1, c, w->rows.row.base);
    w->rows.row.sigmoid = sigmoids_of_chunk(w, stage, c, w->rows.row.inverse_count);
}

/* Computes sixteen rows of equal families, all heads, in one kernel call. */
void run_sixteen(worker *w, hga_id stage, hga_id first, const inside_rows *inside)
{
    enum { N = KERNEL_TILE };
    const equal_families *x = &w->equal;
    const hga_stage *s = stage_of(w, stage);
    const hga_shape *shape = &w->plan->shape;
    const bound_field *out = field(w, s->out);
    const bound_field *q = read_field(w, s, s->query), *k = read_field(w, s, s->key), *v = read_field(w, s, s->value);
    const some_nodes rows = nodes_from(N, first);
    float *q_at[N], *k_at[N], *v_at[N], *out_at[N], *lse[N];
    find_biases(w, stage, first);
    find_rows(q, rows, q_at), find_rows(k, rows, k_at), find_rows(v, rows, v_at);
    find_rows(out, rows, out_at), find_lses(out, rows, lse);
    for (hga_id i = 0; inside && i < N; i++)
        if (inside->left_out >> i & 1u) out_at[i] = NULL;
    w->plan->machine.kernels->attend_family(&(kernel_family){.n_rows = N,
                                                             .n = N,
                                                             .heads = shape->n_heads,
                                                             .dim = shape->dim,
                                                             .dim_v = shape->dim_v,
                                                             .share = shape->n_heads / shape->n_kv_heads,
                                                             .q = (const float *const *)q_at,
                                                             .columns.k = (const float *const *)k_at,
                                                             .columns.v = (const float *const *)v_at,
                                                             .q_head = bound_head(q, first),
                                                             .columns.k_head = bound_head(k, first),
                                                             .columns.v_head = bound_head(v, first),
                                                             .terms.scale = w->workspace->scores.scale_2,
                                                             .terms.cap = w->workspace->scores.cap_2,
                                                             .terms.bias = w->rows.row.base,
                                                             .rows = x->rows,
                                                             .results.out = out_at,
                                                             .results.lse = lse,
                                                             .results.head = bound_head(out, first),
                                                             .alpha = inside ? inside->alpha : 0,
                                                             .inside = inside ? inside->energy : NULL,
                                                             .ahead = &w->coming,
                                                             .sigmoid = w->rows.row.sigmoid});
}

int find_equal(worker *w, hga_id stage, hga_id first, hga_id n)
{
    const hga_relation *r = &w->plan->stage[stage].relation;
    segments_found found = {0};
    if (n % KERNEL_TILE || r->ptr || r->dst_order || r->src_order || !rows_are_alike(w, stage, first, n)) return 0;
    hga_graph_visit_segments(w->plan->graph, stage_of(w, stage)->relation, first, n, note_segments, &found);
    const hga_segment *one = &found.families.first;
    w->equal = (equal_families){.first = first, .n = n, .weight = one->weight};
    return found.n == 1 && cover_panel(&found.families, first, n) && list_families(one, &w->equal);
}

/* Whether the panel has only equal families, in the order of nodes, and choose_tiles.c would run its groups as
   families. */
int64_t equal_fits(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    panel_rows p;
    (void)n;
    find_panel(w, ph, ph->stage, item->panel, &p);
    return are_in_order(p.first, p.n, p.node) && find_equal(w, ph->stage, p.first, p.n) &&
           run_as_families((double)w->equal.edges, KERNEL_TILE * KERNEL_TILE);
}

void equal_run(worker *w, const wave_item *item, int64_t n)
{
    (void)n;
    for (hga_id at = 0; at < w->equal.n; at += KERNEL_TILE)
        run_sixteen(w, w->plan->phases.list[item->phase].stage, w->equal.first + at, NULL);
}
