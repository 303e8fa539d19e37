/* family_steps.c: one family on the way up, where its members' softmaxes yield what the loss loses by them, and on
   the way down, where all gradients come together: those of energies from above, those of scores and values from the
   siblings, and those of what was coarsened from the parent. The formulas are those of all_stage_semantics.c. */
#include "families.h"

#include <math.h>
#include <string.h>

/* Members' rows of a field. */
typedef struct rows_at {
    float *at[KERNEL_SIBLINGS];
    ptrdiff_t head[KERNEL_SIBLINGS];
} rows_at;

static void find_members(const families *f, const family_rows *x, hga_id v, rows_at *rows)
{
    const family_order *o = &f->order;
    hga_id first = index_of(o, v), n = members_of(o, v);
    for (hga_id i = 0; i < n; i++) {
        hga_id u = member_at(o, first + i), above = u - o->base;
        rows->at[i] = above < 0 ? x->io + u * x->io_row : x->above + above * x->row;
        rows->head[i] = above < 0 ? x->io_head : x->head;
    }
}

/* Members' rows for the kernels. Families of tokens mostly are contiguous: then rows of the next family are
   prefetched. */
static kernel_rows read_only(const families *f, int which, hga_id v, const rows_at *x)
{
    const family_order *o = &f->order;
    hga_id n = members_of(o, v);
    int of_tokens = n > 0 && member_at(o, index_of(o, v)) < o->base;
    return (kernel_rows){(const float *const *)x->at, x->head, of_tokens ? n * f->x[which].io_row : 0};
}

/* Weights of the members in a mean or sum. */
static void find_weights(const families *f, const family_rows *x, hga_id v, float *weight)
{
    const family_order *o = &f->order;
    hga_id first = index_of(o, v), n = members_of(o, v);
    double total = 0;
    for (hga_id i = 0; i < n; i++) {
        weight[i] = x->by_mass ? o->nodes.mass[member_at(o, first + i)] : 1;
        total += (double)weight[i];
    }
    for (hga_id i = 0; i < n && x->mean; i++) weight[i] = total > 0 ? (float)((double)weight[i] / total) : 0;
}

/* Copies a member's own scalars if it is above the tokens, else sets one number for all heads. */
static void read_scalars(const families *f, const float *x, hga_id u, float else_all, float *to)
{
    hga_id above = u - f->order.base;
    if (above >= 0)
        memcpy(to, x + (ptrdiff_t)above * f->heads, (size_t)f->heads * sizeof *to);
    else
        for (hga_id h = 0; h < f->heads; h++) to[h] = else_all;
}

/* ---- positions ---- */

static const float *member_position(const families *f, hga_id v, hga_id member)
{
    return f->node_pos + (ptrdiff_t)member_at(&f->order, index_of(&f->order, v) + member) * f->plan->shape.pos_dim;
}

/* Products of the members' positions, for each pair, in base 2; NULL without positions. */
static const float *find_pairs(const families *f, hga_id v, const family_thread *l)
{
    hga_id n = members_of(&f->order, v), dim = f->plan->shape.pos_dim;
    if (!f->node_pos) return NULL;
    for (hga_id r = 0; r < n; r++)
        for (hga_id e = 0; e <= r; e++) {
            double product = f->plan->machine.kernels->dot(dim, member_position(f, v, r), member_position(f, v, e));
            l->pair[r * n + e] = l->pair[e * n + r] = (float)(product * (double)KERNEL_LOG2E);
        }
    return l->pair;
}

/* Adds an edge's score gradient, times each member's position, to the other's position gradient. */
static void add_positions(const families *f, hga_id v, hga_id r, hga_id e, double slope, double *sums)
{
    const float *own = member_position(f, v, r), *other = member_position(f, v, e);
    double *to = sums + (own - f->node_pos), *from = sums + (other - f->node_pos);
    for (hga_id c = 0; c < f->plan->shape.pos_dim; c++)
        to[c] += slope * (double)other[c], from[c] += slope * (double)own[c];
}

/* Adds score gradients of `group` heads to the tables that all heads share. */
static void add_to_tables(const families *f, hga_id v, const float *d_score, hga_id group, const table_sums *sums)
{
    const family_order *o = &f->order;
    hga_id first = index_of(o, v), n = members_of(o, v);
    for (hga_id r = 0; r < n; r++)
        for (uint64_t left = o->columns[first + r]; left; left &= left - 1) {
            hga_id e = __builtin_ctzll(left);
            const float *d = d_score + ((ptrdiff_t)r * n + e) * f->heads;
            double slope = 0;
            for (hga_id h = 0; h < group; h++) slope += (double)d[h];
            if (sums->of[HGA_TABLE_LOG_MASS]) sums->of[HGA_TABLE_LOG_MASS][member_at(o, first + e)] += slope;
            if (sums->of[HGA_TABLE_NODE_POS]) add_positions(f, v, r, e, slope, sums->of[HGA_TABLE_NODE_POS]);
        }
}

/* ---- up ---- */

/* Are all heads of all rows contiguous? */
static int is_packed(const family_rows *x, const rows_at *rows, hga_id n)
{
    int packed = x->head == x->columns;
    for (hga_id i = 0; i < n; i++) packed &= rows->head[i] == x->columns;
    return packed;
}

/* Computes node v's row of a field: the weighted sum of its members' rows, of all heads at once if they are
   contiguous. */
static void coarsen(const families *f, const family_rows *x, hga_id v, const rows_at *rows)
{
    const kernel_table *kernels = f->plan->machine.kernels;
    hga_id n = members_of(&f->order, v);
    float weight[KERNEL_SIBLINGS], *out = x->above + (v - f->order.base) * x->row;
    const float *at[KERNEL_SIBLINGS];
    find_weights(f, x, v, weight);
    if (n == 0) memset(out, 0, (size_t)x->row * sizeof *out);
    if (n > 0 && is_packed(x, rows, n)) {
        kernels->weigh(n, (const float *const *)rows->at, 0, weight, 1, x->heads * x->columns, out);
        return;
    }
    for (hga_id h = 0; n > 0 && h < x->heads; h++) {
        for (hga_id i = 0; i < n; i++) at[i] = rows->at[i] + h * rows->head[i];
        kernels->weigh(n, at, 0, weight, 1, x->columns, out + h * x->head);
    }
}

/* Computes the parent's energy, and what the loss loses by what passes inside: by the members' own states, and by
   what they pass on. */
static void rise(families *f, hga_id v, const float *lse, const float *mean, const family_thread *l)
{
    const family_order *o = &f->order;
    hga_id first = index_of(o, v), n = members_of(o, v), heads = f->heads;
    float *psi = l->psi, *mine = l->mine, *rest = l->rest, lost[KERNEL_HEADS];
    double sum[KERNEL_HEADS] = {0}, inside[KERNEL_HEADS] = {0}, mass = 0;
    for (hga_id i = 0; i < n; i++) read_scalars(f, f->psi, member_at(o, first + i), -INFINITY, psi + i * heads);
    f->plan->machine.kernels->divide(n * heads, lse, psi, NULL, mine, rest);
    f->plan->machine.kernels->log_add(n * heads, psi, lse, psi);
    for (hga_id i = 0; i < n; i++) {
        hga_id u = member_at(o, first + i);
        double m = (double)o->nodes.mass[u];
        mass += m;
        read_scalars(f, f->inside, u, 0, lost);
        for (hga_id h = 0; h < heads; h++) {
            hga_id at = i * heads + h;
            inside[h] += (double)(mine[at] * mean[at] + rest[at] * lost[h]);
            if (m > 0) sum[h] += m * (double)psi[at];
        }
    }
    float *to = f->psi + (ptrdiff_t)(v - o->base) * heads, *in = f->inside + (ptrdiff_t)(v - o->base) * heads;
    for (hga_id h = 0; h < heads; h++) to[h] = mass > 0 ? (float)(sum[h] / mass) : -INFINITY, in[h] = (float)inside[h];
}

/* Lists the members' nodes, which dropout draws by; nothing without dropout. */
static const hga_id *list_members(const families *f, hga_id v, hga_id *node)
{
    const family_order *o = &f->order;
    for (hga_id i = 0; f->draw.dropout > 0 && i < members_of(o, v); i++) node[i] = member_at(o, index_of(o, v) + i);
    return node;
}

/* The arguments of the kernels of siblings for node v's family, but for positions and the nodes of dropout. */
static kernel_siblings siblings_of(const families *f, hga_id v, const rows_at rows[N_COARSE])
{
    const family_order *o = &f->order;
    const hga_shape *s = &f->plan->shape;
    ptrdiff_t first = index_of(o, v), products = (ptrdiff_t)o->edge_ptr[v - o->base] * f->heads;
    return (kernel_siblings){.n = members_of(o, v),
                             .heads = f->heads,
                             .first_head = f->first_head,
                             .crowd = s->n_heads,
                             .dim = s->dim,
                             .dim_v = s->dim_v,
                             .share = s->n_heads / s->n_kv_heads,
                             .terms.scale = f->call->scale * KERNEL_LOG2E,
                             .terms.bias = f->bias + first,
                             .columns = o->columns + first,
                             .q = read_only(f, Q, v, &rows[Q]),
                             .k = read_only(f, K, v, &rows[K]),
                             .v = read_only(f, V, v, &rows[V]),
                             .g = read_only(f, G, v, &rows[G]),
                             .forward.lse = f->lse + first * f->heads,
                             .forward.mean = f->mean + first * f->heads,
                             .forward.product = f->product ? f->product + products : NULL,
                             .forward.product_v = f->product ? f->product_v + products : NULL,
                             .drop.draw = f->draw.dropout > 0 ? &f->draw : NULL};
}

/* Computes of v's members: means of their scores, v's energy, and v's coarse rows. */
void family_up(families *f, hga_id v, const family_thread *l)
{
    rows_at rows[N_COARSE];
    hga_id node[KERNEL_SIBLINGS];
    for (int i = 0; i < N_COARSE; i++) find_members(f, &f->x[i], v, &rows[i]);
    kernel_siblings siblings = siblings_of(f, v, rows);
    siblings.pair = find_pairs(f, v, l), siblings.drop.node = list_members(f, v, node);
    f->plan->machine.kernels->siblings_means(&siblings);
    rise(f, v, siblings.forward.lse, siblings.forward.mean, l);
    for (int i = 0; i < N_COARSE; i++) coarsen(f, &f->x[i], v, &rows[i]);
}

/* ---- down ---- */

/* Computes each member's gradients of scalars: of its state (upstream, delta); and, if it is above the tokens, of
   its energy, and how much passes inside it. */
static void sink(families *f, hga_id v, const float *lse, const float *mean, const family_thread *l)
{
    const family_order *o = &f->order;
    hga_id first = index_of(o, v), n = members_of(o, v), heads = f->heads;
    const float *keep = f->keep + (ptrdiff_t)(v - o->base) * heads, *psi_v = f->psi + (ptrdiff_t)(v - o->base) * heads,
                *adjoint = f->d_psi + (ptrdiff_t)(v - o->base) * heads;
    float *psi = l->psi, *mine = l->mine, *rest = l->rest, *upstream = l->upstream, *delta = l->delta,
          lost[KERNEL_HEADS];
    double mass = 0;
    for (hga_id i = 0; i < n; i++) {
        read_scalars(f, f->psi, member_at(o, first + i), -INFINITY, psi + i * heads);
        mass += (double)o->nodes.mass[member_at(o, first + i)];
    }
    f->plan->machine.kernels->divide(n * heads, lse, psi, NULL, mine, rest);
    for (hga_id i = 0; i < n; i++) {
        hga_id u = member_at(o, first + i), above = u - o->base;
        float part = mass > 0 ? (float)((double)o->nodes.mass[u] / mass) : 0;
        read_scalars(f, f->inside, u, 0, lost);
        for (hga_id h = 0; h < heads; h++) {
            hga_id at = i * heads + h;
            float from_above = psi_v[h] != -INFINITY ? part * adjoint[h] : 0, own = keep[h] * mine[at];
            float d_share = own * rest[at] * (mean[at] - lost[h]);
            upstream[at] = own, delta[at] = own * mean[at] - d_share - from_above * mine[at];
            if (above < 0) continue;
            f->keep[(ptrdiff_t)above * heads + h] = keep[h] * rest[at];
            f->d_psi[(ptrdiff_t)above * heads + h] = from_above * rest[at] - d_share;
        }
    }
}

/* Node v's own gradient of a field. */
static float *slot_of(const families *f, const family_thread *l, int which, hga_id v)
{
    hga_id slot = f->order.slot[v - f->order.base], own = f->order.n_slots;
    const family_rows *d = &f->d[which];
    return slot < own ? l->slots[which] + slot * d->row : d->above + (slot - own) * d->row;
}

/* Members' gradients of a field, and the weights with which their parent's gradient is added. */
typedef struct member_gradients {
    rows_at rows;
    float down[KERNEL_SIBLINGS];
} member_gradients;

/* Are tokens' gradients stored past the caches: are they many, each written once, in whole lines? */
static int is_stream_of(const families *f, const family_rows *d)
{
    enum { LINE = 64 };
    int lines = (uintptr_t)d->io % LINE == 0 && d->io_row % KERNEL_PAD == 0 && d->io_head % KERNEL_PAD == 0;
    return lines && !f->call->grad->accumulate &&
           (int64_t)f->order.base * d->io_row * 4 >= f->plan->machine.tuning.is.stream_gradients;
}

/* Finds where the members' gradients of a field are written or added, and each member's weight of the parent's. */
static kernel_members find_adjoints(const families *f, const family_thread *l, int which, hga_id v,
                                    member_gradients *to)
{
    const family_order *o = &f->order;
    const family_rows *d = &f->d[which];
    hga_id first = index_of(o, v), n = members_of(o, v);
    int is_root = o->slot[v - o->base] < 0;
    kernel_members grads = {.at = to->rows.at, .head = to->rows.head, .down = to->down, .above_head = d->head};
    if (!d->io) return (kernel_members){0};
    int streams = is_stream_of(f, d);
    for (hga_id i = 0; i < n; i++) {
        hga_id u = member_at(o, first + i), above = u - o->base;
        to->rows.at[i] = above < 0 ? d->io + u * d->io_row : slot_of(f, l, which, u);
        to->rows.head[i] = above < 0 ? d->io_head : d->head;
        if (above < 0 && f->call->grad->accumulate) grads.adds |= (uint64_t)1 << i;
        if (above < 0 && streams) grads.streams |= (uint64_t)1 << i;
    }
    find_weights(f, &f->x[which], v, to->down);
    grads.above = is_root ? NULL : slot_of(f, l, which, v);
    return grads;
}

/* Passes v's gradients on to its members and computes theirs; accumulates tables' gradients. */
void family_down(families *f, hga_id v, const family_thread *l)
{
    rows_at rows[N_COARSE];
    member_gradients grads[G];
    hga_id node[KERNEL_SIBLINGS];
    for (int i = 0; i < N_COARSE; i++) find_members(f, &f->x[i], v, &rows[i]);
    kernel_siblings siblings = siblings_of(f, v, rows);
    siblings.pair = find_pairs(f, v, l);
    sink(f, v, siblings.forward.lse, siblings.forward.mean, l);
    siblings.grad.upstream = l->upstream, siblings.grad.delta = l->delta, siblings.drop.node = list_members(f, v, node);
    siblings.grad.dq = find_adjoints(f, l, Q, v, &grads[Q]), siblings.grad.dk = find_adjoints(f, l, K, v, &grads[K]);
    siblings.grad.dv = find_adjoints(f, l, V, v, &grads[V]);
    siblings.grad.d_score = l->d_score, siblings.grad.d_scale = l->d_scale;
    f->plan->machine.kernels->siblings_gradients(&siblings);
    for (hga_id h = 0; l->d_score && h < f->heads; h += siblings.share)
        add_to_tables(f, v, l->d_score + h, siblings.share, &f->sums[h / siblings.share]);
}
