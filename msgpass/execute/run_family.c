/* run_family.c: rows that have a few columns of one segment and no others: all of them, and all heads, in one call. */
#include "stages.h"
#include "strips.h"

/* Scores that do not differ from row to row but by their products, of float32 rows; states that begin empty. */
int families_are_fit(const worker *w, hga_id stage)
{
    const hga_io *io = w->io;
    int plain = !io->rel_key && !io->rel_bias && !io->edge_bias && !io->node_pos && !w->plan->bf16_rows;
    return plain && w->plan->shape.n_heads <= KERNEL_HEADS && !kind_starts_from_out(w->plan->stage[stage].kind);
}

/* A strip's columns become the chunk. */
static void read_columns(worker *w, const strip *x)
{
    const hga_id *order = w->reader.r.src_order;
    w->chunk.n = x->n;
    for (hga_id e = 0; e < x->n; e++) {
        w->chunk.src[e] = order ? order[x->src + e] : x->src + e;
        w->chunk.weight[e] = x->segment->weight;
        w->chunk.type[e] = 0, w->chunk.pos_of[e] = 0;
    }
}

/* A family's rows, by lane of the group; those of others, and rows that nobody wants, have no place to go to. */
typedef struct family_rows {
    const float *q[KERNEL_TILE];
    float *out[KERNEL_TILE], *lse[KERNEL_TILE];
    ptrdiff_t q_head, out_head;
    int alike; /* heads lie at one stride */
} family_rows;

static family_rows find_rows(const worker *w, const row_group *g, const strip *x)
{
    const hga_stage *s = stage_of(w, g->stage);
    const bound_field *query = field(w, s->query), *out = field(w, s->out);
    family_rows rows = {.alike = 1};
    for (hga_id r = (hga_id)x->row_first; r < (hga_id)x->row_last; r++) {
        hga_id v = g->node[r];
        if (v < 0) continue;
        if (rows.out_head && (rows.q_head != bound_head(query, v) || rows.out_head != bound_head(out, v)))
            rows.alike = 0;
        rows.q_head = bound_head(query, v), rows.out_head = bound_head(out, v);
        rows.q[r] = bound_row(query, v), rows.out[r] = bound_row(out, v), rows.lse[r] = bound_lse(out, v);
    }
    return rows;
}

/* Rows of the caller's beside rows of the workspace may have their heads at other strides: each by itself. */
static void run_each(worker *w, const row_group *g, const strip *x)
{
    for (hga_id r = (hga_id)x->row_first; r < (hga_id)x->row_last; r++)
        if (g->node[r] >= 0)
            attend_row(
                w, &(row_job){
                       .stage = g->stage, .v = g->node[r], .position = g->first + r, .count = INT64_MAX, .piece = -1});
}

void run_family(void *worker_of, const row_group *g, const strip *x)
{
    worker *w = worker_of;
    const hga_stage *s = stage_of(w, g->stage);
    const hga_shape *shape = &w->plan->shape;
    family_rows rows = find_rows(w, g, x);
    lanes rows_of[KERNEL_FAMILY];
    ptrdiff_t k_head, v_head;
    int same_k, same_v;
    read_columns(w, x);
    find_sources(&w->chunk, field(w, s->key), w->at.k, &same_k, &k_head);
    find_sources(&w->chunk, field(w, s->value), w->at.v, &same_v, &v_head);
    if (!rows.alike || !same_k || !same_v) {
        run_each(w, g, x);
        return;
    }
    score_bases(w, g->stage, -1, &w->chunk, w->row.base);
    for (hga_id e = 0; e < x->n; e++) rows_of[e] = (lanes)rows_of_column(x, e);
    w->plan->kernels->attend_family(&(kernel_family){.n_rows = (hga_id)x->row_last,
                                                     .n = x->n,
                                                     .heads = shape->n_heads,
                                                     .dim = shape->dim,
                                                     .dim_v = shape->dim_v,
                                                     .share = shape->n_heads / shape->n_kv_heads,
                                                     .q = rows.q,
                                                     .k = w->at.k,
                                                     .v = w->at.v,
                                                     .q_head = rows.q_head,
                                                     .k_head = k_head,
                                                     .v_head = v_head,
                                                     .scale = w->state->scale_2,
                                                     .bias = w->row.base,
                                                     .rows = rows_of,
                                                     .out = rows.out,
                                                     .lse = rows.lse,
                                                     .out_head = rows.out_head});
}
