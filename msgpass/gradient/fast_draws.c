/* fast_draws.c: what dropout draws in the backward pass. Eight heads share a draw, but each head is a pass of its
   own: the first head that reaches a tile, or edges that are in none, draws for all and caches the bits for the
   others. */
#include "fast_draws.h"
#include "fast_edges.h"
#include "panel.h"
#include "plan.h"

/* Draws that may be cached: for all threads a quarter of the tensors and their gradients, besides what heads cache
   of the graph. */
int64_t most_draws(const hga_plan *plan)
{
    const hga_shape *s = &plan->shape;
    int64_t tensors = 4 * (int64_t)plan->nodes.n * s->n_heads * (s->dim + s->dim_v) * (int64_t)sizeof(float);
    return plan->options.dropout > 0 ? tensors / 4 / plan->team.n / (int64_t)sizeof(uint16_t) : 0;
}

/* The heads of the current head's eight that run with this pass's panels. */
static unsigned heads_of_eight(const fast_pass *p)
{
    const head_group_walk *w = &p->heads.groups;
    hga_id heads = p->plan->shape.n_heads, a_head_group = p->heads.n, first = p->heads.head / 8 * 8;
    unsigned all = 0;
    for (hga_id h = first; h < first + 8 && h < heads; h++) {
        hga_id head_group = h / a_head_group;
        if (head_group >= w->first && head_group < w->end && (head_group - w->first) % w->step == 0)
            all |= 1u << (h - first);
    }
    return all;
}

/* Starts a new drawing unless seed, layer and the heads that share draws are those of the last one. */
void draws_open(const fast_pass *p)
{
    const hga_io *io = p->call->io;
    drawing *at = &p->panel->dropout.drawing;
    if (p->plan->options.dropout == 0) return;
    drawing now = {at->number + 1, io->seed, io->layer, io->first_head, p->heads.head / 8, heads_of_eight(p), 0};
    if (at->number && at->seed == now.seed && at->layer == now.layer && at->first_head == now.first_head &&
        at->eight == now.eight && at->heads == now.heads)
        return;
    *at = now;
}

/* Assigns slots to n draws of this drawing, if several heads read them and there is capacity. */
static hga_status index_draws(const fast_pass *p, int64_t n, draws *d)
{
    panel *x = p->panel;
    drawing *now = &x->dropout.drawing;
    if ((now->heads & (now->heads - 1)) == 0 || now->n + n > x->dropout.draws_most) return HGA_OK;
    hga_status st =
        make_capacity(p, &x->dropout.drawn, &x->dropout.drawn_capacity, now->n, n, sizeof *x->dropout.drawn);
    if (!st) *d = (draws){now->number, now->n}, now->n += n;
    return st;
}

/* Allocates the bits of all cached tiles and edges, where several heads share a draw. */
hga_status reserve_draws(fast_pass *p)
{
    panel *x = p->panel;
    int most = 0;
    for (p->heads.head = 0; p->heads.head < p->plan->shape.n_heads; p->heads.head += 8) {
        int heads = __builtin_popcount(heads_of_eight(p));
        most = heads > most ? heads : most;
    }
    int64_t n = x->memo.remembered.edges / 2 + x->memo.n_found;
    for (int64_t i = 0; i < x->memo.remembered.tiles; i++)
        n += (int64_t)x->lists.tile[i].n * x->lists.tile[i].n_groups * most;
    n = n < x->dropout.draws_most ? n : x->dropout.draws_most;
    return most > 1 ? make_capacity(p, &x->dropout.drawn, &x->dropout.drawn_capacity, 0, n, sizeof *x->dropout.drawn)
                    : HGA_OK;
}

/* ---- tiles ---- */

/* The types of a tile's pairs: NULL, one for each column, or, where they vary in a column, one for each pair. */
static const int32_t *list_types(panel *x, const tile *t)
{
    if (t->n_indices < 0) return t->types < 0 ? NULL : x->lists.number + t->types;
    const uint8_t *index = x->lists.index + t->n_indices;
    const hga_id *type = x->lists.number + t->types;
    for (hga_id i = 0; i < t->n * KERNEL_TILE; i++) x->operands.pair_type[i] = type[index[i]];
    return x->operands.pair_type;
}

/* Draws the dropout mask of a tile's weights, in each of `heads`, group by group. */
static void draw_groups(const fast_pass *p, const tile *t, unsigned heads, uint16_t *drop_mask, ptrdiff_t a_group)
{
    panel *x = p->panel;
    const int32_t *type = list_types(x, t);
    for (hga_id i = 0; i < t->n_groups; i++)
        p->plan->machine.kernels->drop_bits(&(kernel_drop){.draw = draw_of_call(p->plan, p->call->io),
                                                           .n = t->n,
                                                           .destination = x->group[t->group + i].node,
                                                           .source = x->near.node,
                                                           .type = type,
                                                           .types_vary = t->n_indices >= 0,
                                                           .heads = heads,
                                                           .stride = t->n},
                                            p->heads.head / 8, drop_mask + i * a_group);
}

/* The head's dropout mask of a tile: cached, or drawn now for all heads if it can be cached, else for this head
   alone. */
hga_status tile_draws(const fast_pass *p, tile *t, const uint16_t *drop_mask[2])
{
    panel *x = p->panel;
    unsigned heads = x->dropout.drawing.heads, own = 1u << p->heads.head % 8;
    ptrdiff_t a_group = (ptrdiff_t)t->n * __builtin_popcount(heads), rank = __builtin_popcount(heads & (own - 1));
    int known = t->drop_mask.drawing == x->dropout.drawing.number,
        remembered = t >= x->lists.tile && t < x->lists.tile + x->memo.remembered.tiles;
    hga_status st = known || !remembered ? HGA_OK : index_draws(p, a_group * t->n_groups, &t->drop_mask);
    if (st) return st;
    if (t->drop_mask.drawing == x->dropout.drawing.number) {
        uint16_t *at = x->dropout.drawn + t->drop_mask.at;
        if (!known) draw_groups(p, t, heads, at, a_group);
        for (hga_id i = 0; i < t->n_groups; i++) drop_mask[i] = at + i * a_group + rank * t->n;
    } else {
        draw_groups(p, t, own, x->dropout.single[0], WINDOW);
        drop_mask[0] = x->dropout.single[0], drop_mask[1] = x->dropout.single[1];
    }
    return HGA_OK;
}

/* ---- edges that are in no tile ---- */

/* Draws a byte for each edge of the group that is in no tile: which of eight heads keep its weight. */
static void draw_left(const fast_pass *p, const group *g, uint8_t *bits)
{
    const left_edge *edge = p->panel->lists.edge + g->edges;
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        for (hga_id at = g->row_end[r]; at < g->row_end[r + 1]; at += KERNEL_CHUNK) {
            hga_id n = g->row_end[r + 1] - at < KERNEL_CHUNK ? g->row_end[r + 1] - at : KERNEL_CHUNK;
            float drop_mask[KERNEL_CHUNK * 8];
            drop_row(p, g->node[r], &edge[at].e, sizeof *edge, n, p->heads.head / 8 * 8, 8, drop_mask);
            for (hga_id i = 0; i < n; i++) {
                unsigned all = 0;
                for (hga_id h = 0; h < 8; h++) all |= (unsigned)(drop_mask[i * 8 + h] != 0) << h;
                bits[at + i] = (uint8_t)all;
            }
        }
}

/* *bits stays NULL where bits cannot be cached for other heads; then each head draws for itself. */
hga_status left_draws(const fast_pass *p, const group *g, found *f, const uint8_t **bits)
{
    panel *x = p->panel;
    int64_t n = g->row_end[KERNEL_TILE];
    *bits = NULL;
    if (p->plan->options.dropout == 0 || !n || !f || !f->known || f->there != g->there || f->edges != g->edges)
        return HGA_OK;
    int known = f->drop_mask.drawing == x->dropout.drawing.number;
    hga_status st = known ? HGA_OK : index_draws(p, (n + 1) / 2, &f->drop_mask);
    if (st || f->drop_mask.drawing != x->dropout.drawing.number) return st;
    uint8_t *at = (uint8_t *)(x->dropout.drawn + f->drop_mask.at);
    if (!known) draw_left(p, g, at);
    *bits = at;
    return HGA_OK;
}
