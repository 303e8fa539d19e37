/* run_kin.c: panels of equal families side by side, whose members attend to each other and to nobody else, as a level
   of a tree has them: all members at once, from their rows as they lie. What run_family.c does group by group, with the
   same bits, but for the sign of NaN; and which rows have which columns is known without looking at any. */
#include "attend_ways.h"
#include "stages.h"
#include "sums.h"

/* A panel's families as the relation tells them: one block that repeats, if that is all there is. */
typedef struct kin_found {
    hga_id n;
    hga_segments families;
} kin_found;

static void note_segments(const hga_segments *s, void *context)
{
    kin_found *found = context;
    if (!found->n++) found->families = *s;
}

/* Is each family's block on its own rows, one behind the other from row `first` on to the panel's end, and no group of
   sixteen ends within a family? */
static int cover_panel(const hga_segments *s, hga_id first, hga_id n)
{
    const hga_segment *one = &s->first;
    const hga_id members = one->n_rows;
    const int square = one->row == first && one->src == first && one->n_src == members,
              in_step = s->count == 1 || (s->row_step == members && s->src_step == members);
    return square && in_step && s->count * members == n && KERNEL_TILE % members == 0;
}

/* The columns of a family's members, as bits; 0: some member, or some column, has no edge. */
static int find_columns(const hga_segment *one, uint64_t *columns)
{
    uint64_t all = 0;
    for (hga_id r = 0; r < one->n_rows; r++) {
        hga_id begin, end, hole;
        hga_segment_columns(one, one->row + r, &begin, &end, &hole);
        columns[r] = begin < end ? (((uint64_t)1 << (end - begin)) - 1) << begin : 0;
        if (hole >= 0) columns[r] &= ~((uint64_t)1 << hole);
        if (!columns[r]) return 0;
        all |= columns[r];
    }
    return all == ((uint64_t)1 << one->n_rows) - 1;
}

/* Would choose_tiles.c let groups of sixteen go as families? */
static int groups_are_families(const uint64_t *columns, hga_id members)
{
    hga_id edges = 0;
    for (hga_id r = 0; r < members; r++) edges += __builtin_popcountll(columns[r]);
    return go_as_families((double)edges * (KERNEL_TILE / members), KERNEL_TILE * KERNEL_TILE);
}

static int are_in_order(hga_id first, hga_id n, const hga_id *node)
{
    hga_id i = 0;
    while (i < n && node[i] == first + i) i++;
    return i == n;
}

/* Have all of a field's rows their heads at one stride? */
static int heads_are_alike(const bound_field *x, hga_id first, hga_id n)
{
    hga_id callers = 0;
    for (hga_id v = first; v < first + n && x->io_head != x->ws_head; v++) callers += bound_is_io(x, v);
    return callers == 0 || callers == n;
}

static int rows_are_alike(const worker *w, hga_id stage, hga_id first, hga_id n)
{
    const hga_stage *s = stage_of(w, stage);
    return heads_are_alike(read_field(w, s, s->query), first, n) &&
           heads_are_alike(read_field(w, s, s->key), first, n) &&
           heads_are_alike(read_field(w, s, s->value), first, n) && heads_are_alike(field(w, s->out), first, n);
}

static void find_rows(const bound_field *x, hga_id first, hga_id n, float **at)
{
    for (hga_id i = 0; i < n; i++) at[i] = bound_row(x, first + i);
}

/* What is added to the scores of members as columns. */
static void find_biases(worker *w, hga_id stage, hga_id first, hga_id n, float weight, float *bias)
{
    edge_chunk *c = &w->chunk;
    c->n = n;
    for (hga_id e = 0; e < n; e++) c->src[e] = first + e, c->weight[e] = weight;
    score_bases(w, stage, -1, c, bias);
}

static void run_members(worker *w, hga_id stage, hga_id first, hga_id n, float weight, const uint64_t *columns)
{
    const hga_stage *s = stage_of(w, stage);
    const hga_shape *shape = &w->plan->shape;
    const bound_field *out = field(w, s->out);
    const bound_field *q = read_field(w, s, s->query), *k = read_field(w, s, s->key), *v = read_field(w, s, s->value);
    float *q_at[KERNEL_KIN], *k_at[KERNEL_KIN], *v_at[KERNEL_KIN], *out_at[KERNEL_KIN], *lse[KERNEL_KIN];
    const ptrdiff_t q_head = bound_head(q, first), k_head = bound_head(k, first), v_head = bound_head(v, first),
                    out_head = bound_head(out, first);
    find_biases(w, stage, first, n, weight, w->row.base);
    find_rows(q, first, n, q_at), find_rows(k, first, n, k_at), find_rows(v, first, n, v_at);
    find_rows(out, first, n, out_at);
    for (hga_id i = 0; i < n; i++) lse[i] = bound_lse(out, first + i);
    w->plan->kernels->kin_attend(&(kernel_kin){.n = n,
                                               .heads = shape->n_heads,
                                               .dim = shape->dim,
                                               .dim_v = shape->dim_v,
                                               .crowd = shape->n_heads,
                                               .share = shape->n_heads / shape->n_kv_heads,
                                               .scale = w->workspace->scale_2,
                                               .cap = w->workspace->cap_2,
                                               .bias = w->row.base,
                                               .columns = columns,
                                               .q = {(const float *const *)q_at, &q_head, 0},
                                               .k = {(const float *const *)k_at, &k_head, 0},
                                               .v = {(const float *const *)v_at, &v_head, 0},
                                               .out = out_at,
                                               .out_head = &out_head,
                                               .out_lse = lse,
                                               .ahead = &w->coming});
}

/* Equal families alone, whose blocks lie in the order of nodes? *columns of a family's members, as bits, then. */
static int find_families(worker *w, hga_id stage, const panel_rows *p, hga_segment *one, uint64_t *columns)
{
    const hga_relation *r = &w->plan->stage[stage].relation;
    kin_found found = {0};
    if (p->n % KERNEL_TILE || r->ptr || r->dst_order || r->src_order || !are_in_order(p->first, p->n, p->node) ||
        !rows_are_alike(w, stage, p->first, p->n))
        return 0;
    hga_graph_visit_segments(w->plan->graph, stage_of(w, stage)->relation, p->first, p->n, note_segments, &found);
    *one = found.families.first;
    return found.n == 1 && cover_panel(&found.families, p->first, p->n) && find_columns(one, columns) &&
           groups_are_families(columns, one->n_rows);
}

static hga_id find_panel_of(worker *w, const wave_item *item, panel_rows *p)
{
    const phase *ph = &w->plan->phase[item->phase];
    find_panel(w, ph, ph->stage, item->panel, p);
    return ph->stage;
}

int64_t kin_fits(worker *w, const wave_item *item, int64_t n)
{
    panel_rows p;
    hga_segment one;
    uint64_t columns[KERNEL_KIN];
    hga_id stage = find_panel_of(w, item, &p);
    (void)n;
    return find_families(w, stage, &p, &one, columns);
}

void kin_take(worker *w, const wave_item *item, int64_t n)
{
    panel_rows p;
    hga_segment one;
    uint64_t columns[KERNEL_KIN];
    hga_id stage = find_panel_of(w, item, &p);
    (void)n;
    find_families(w, stage, &p, &one, columns);
    /* the next families' columns, each `members` further on */
    for (hga_id r = one.n_rows; r < KERNEL_KIN; r++) columns[r] = columns[r - one.n_rows] << one.n_rows;
    for (hga_id at = 0; at < p.n; at += KERNEL_KIN)
        run_members(w, stage, p.first + at, p.n - at < KERNEL_KIN ? p.n - at : KERNEL_KIN, one.weight, columns);
}
