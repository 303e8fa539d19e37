/* neighbourhood.c: neighbourhood attention (NATTEN, Hassani et al. 2023): a token of a grid sees the `kernel` tokens
   nearest to it along every axis, with a stride of `dilation`. At an edge the window is moved inwards, so that it keeps
   its size; along a causal axis it ends at the token. The edges are the product of the axes'. Along an axis the tokens
   are sorted by their residue modulo its dilation, so that a class is a grid without dilation. The last axis is stored
   in rectangles and bands, the others in repeated pairs of coordinates, and a block repeats along one of them: a few
   dozen blocks where the kernel is much smaller than the axes, however many tokens there are. */
#include "sides.h"
#include "longer.h"

enum { MAX_AXES = 3 };

/* An axis and its pairs, as blocks (`part`) whose rows and columns are positions along the axis. */
typedef struct token_axis {
    hga_id n, kernel, dilation, stride; /* stride: tokens from one position to the next */
    int causal;
    hga_block *part;
    int64_t n_parts, capacity;
} token_axis;

typedef struct token_grid {
    token_axis axis[MAX_AXES];
    hga_id n_axes, n_tokens;
    hga_builder *builder;
    hga_id near;
    const hga_allocator *allocator;
} token_grid;

/* ---- the pairs of an axis ---- */

static hga_status add_part(const token_grid *g, token_axis *x, hga_block part)
{
    hga_status st = hga_grow(g->allocator, &x->part, &x->capacity, x->n_parts, x->n_parts + 1, sizeof *x->part);
    if (!st) x->part[x->n_parts++] = part;
    return st;
}

/* The rows of a class of m positions: those with the window at the class's start, those inside their window, and those
   with the window at its end. */
typedef struct windows {
    hga_id size, before, around, after;
} windows;

static windows find_windows(const token_axis *x, hga_id m)
{
    windows w = {.size = x->kernel < m ? x->kernel : m};
    w.before = m > w.size ? x->kernel / 2 : m;
    w.around = m > w.size ? m - w.size + 1 : 0;
    w.after = m - w.before - w.around;
    return w;
}

/* The last axis: `count` classes of m positions, consecutive from `first` on, in rectangles and bands. */
static hga_status add_shapes(const token_grid *g, token_axis *x, hga_id first, hga_id m, hga_id count)
{
    hga_status st = HGA_OK;
    windows w = find_windows(x, m);
    hga_block part = {.dst = first, .n_dst = m, .src = first, .n_src = m, .count = count};
    part.dst_step = part.src_step = m;
    if (x->causal) {
        part.shape = w.size < m ? HGA_BAND : HGA_LOWER;
        part.band_first = w.size < m ? 1 - w.size : 0;
        return add_part(g, x, part);
    }
    hga_block before = part, around = part, after = part;
    before.n_dst = w.before, before.n_src = w.size;
    around.dst += w.before, around.n_dst = w.around, around.shape = HGA_BAND, around.band_last = w.size - 1;
    after.dst += w.before + w.around, after.n_dst = w.after, after.src += m - w.size, after.n_src = w.size;
    if (w.before) HGA_TRY(add_part(g, x, before));
    if (w.around) HGA_TRY(add_part(g, x, around));
    if (w.after) HGA_TRY(add_part(g, x, after));
done:
    return st;
}

/* `count` pairs of coordinates */
static hga_block pairs(hga_id dst, hga_id src, hga_id count, hga_id dst_step)
{
    return (hga_block){
        .dst = dst, .n_dst = 1, .src = src, .n_src = 1, .count = count, .dst_step = dst_step, .src_step = 1};
}

/* Another axis: one class of m positions from `first` on, in diagonals and, at the ends, in rows. */
static hga_status add_axis(const token_grid *g, token_axis *x, hga_id first, hga_id m)
{
    hga_status st = HGA_OK;
    windows w = find_windows(x, m);
    if (x->causal) {
        for (hga_id d = 0; d < w.size; d++) HGA_TRY(add_part(g, x, pairs(first + d, first, m - d, 1)));
        return HGA_OK;
    }
    for (hga_id d = 0; w.around && d < w.size; d++)
        HGA_TRY(add_part(g, x, pairs(first + w.before, first + d, w.around, 1)));
    for (hga_id i = 0; i < w.before; i++) HGA_TRY(add_part(g, x, pairs(first + i, first, w.size, 0)));
    for (hga_id i = m - w.after; i < m; i++) HGA_TRY(add_part(g, x, pairs(first + i, first + m - w.size, w.size, 0)));
done:
    return st;
}

/* The first n mod dilation classes have one position more than the others. */
static hga_status find_parts(const token_grid *g, token_axis *x, int last)
{
    hga_status st = HGA_OK;
    hga_id size = x->n / x->dilation, more = x->n % x->dilation, at = 0;
    hga_id m[2] = {size + 1, size}, count[2] = {more, size ? x->dilation - more : 0};
    for (int i = 0; i < 2; i++) {
        if (last && count[i]) HGA_TRY(add_shapes(g, x, at, m[i], count[i]));
        for (hga_id c = 0; !last && c < count[i]; c++) HGA_TRY(add_axis(g, x, at + c * m[i], m[i]));
        at += m[i] * count[i];
    }
done:
    return st;
}

/* ---- their product ---- */

/* One part of each axis: the part that repeats most often is the block's repetition, the others are added one by one.
   */
static hga_status add_product(const token_grid *g, const hga_block *const *part)
{
    hga_status st = HGA_OK;
    hga_id widest = 0, index[MAX_AXES] = {0}, a;
    for (hga_id i = 1; i < g->n_axes; i++)
        if (part[i]->count > part[widest]->count) widest = i;
    do {
        hga_block block = *part[g->n_axes - 1];
        block.dst = block.src = 0;
        for (hga_id i = 0; i < g->n_axes; i++) {
            block.dst += (part[i]->dst + index[i] * part[i]->dst_step) * g->axis[i].stride;
            block.src += (part[i]->src + index[i] * part[i]->src_step) * g->axis[i].stride;
        }
        block.count = part[widest]->count;
        block.dst_step = part[widest]->dst_step * g->axis[widest].stride;
        block.src_step = part[widest]->src_step * g->axis[widest].stride;
        HGA_TRY(hga_builder_add_blocks(g->builder, g->near, &block));
        for (a = 0; a < g->n_axes; a++) {
            if (a == widest) continue;
            if (++index[a] < part[a]->count) break;
            index[a] = 0;
        }
    } while (a < g->n_axes);
done:
    return st;
}

/* every choice of one part of each axis from `a` on */
static hga_status add_products(const token_grid *g, hga_id a, const hga_block **part)
{
    hga_status st = HGA_OK;
    if (a == g->n_axes) return add_product(g, part);
    for (int64_t i = 0; !st && i < g->axis[a].n_parts; i++) {
        part[a] = &g->axis[a].part[i];
        st = add_products(g, a + 1, part);
    }
    return st;
}

/* ---- the order by residues ---- */

/* the coordinate at a position of the axis */
static hga_id coordinate(const token_axis *x, hga_id position)
{
    hga_id size = x->n / x->dilation, more = x->n % x->dilation, longer = more * (size + 1);
    if (position < longer) return position / (size + 1) + position % (size + 1) * x->dilation;
    position -= longer;
    return more + position / size + position % size * x->dilation;
}

/* Tokens by the residues of their coordinates, if any axis is dilated. */
static hga_status set_order(const token_grid *g)
{
    hga_status st = HGA_OK;
    hga_id *order = NULL;
    int dilated = 0;
    for (hga_id i = 0; i < g->n_axes; i++) dilated |= g->axis[i].dilation > 1;
    if (!dilated) return HGA_OK;
    HGA_TRY(hga_new(g->allocator, g->n_tokens, sizeof *order, &order));
    for (hga_id p = 0; p < g->n_tokens; p++) {
        order[p] = 0;
        for (hga_id i = 0; i < g->n_axes; i++)
            order[p] += coordinate(&g->axis[i], p / g->axis[i].stride % g->axis[i].n) * g->axis[i].stride;
    }
    HGA_TRY(hga_builder_set_order(g->builder, g->near, order, g->n_tokens, order, g->n_tokens));
done:
    hga_delete(g->allocator, order, g->n_tokens, sizeof *order);
    return st;
}

/* ---- parameters ---- */

/* the number of an axis, where one number stands for all */
static hga_id of_axis(const hga_id *list, hga_id n, hga_id i, hga_id standard)
{
    return list ? list[n == 1 ? 0 : i] : standard;
}

static hga_status check_axes(const char *name, const hga_id *list, hga_id n, hga_id n_axes, hga_id least, hga_id most)
{
    if (!list && n == 0) return HGA_OK;
    if (!list || (n != 1 && n != n_axes))
        return hga_fail(HGA_EINVAL, "%s: %d numbers for %d axes; one for all is enough", name, list ? n : 0, n_axes);
    for (hga_id i = 0; i < n; i++)
        if (list[i] < least || list[i] > most)
            return hga_fail(HGA_EINVAL, "%s: number %d is %d, not in %d .. %d", name, i, list[i], least, most);
    return HGA_OK;
}

/* Without a shape the tokens are one axis. */
static hga_status find_axes(const hga_neighbourhood *p, token_grid *g)
{
    int64_t product = 1;
    const hga_id *shape = p->shape ? p->shape : &p->n_tokens;
    g->n_axes = p->shape ? p->n_axes : 1;
    if (g->n_axes < 1 || g->n_axes > MAX_AXES)
        return hga_fail(HGA_EINVAL, "shape: %d axes; there are 1 to %d", g->n_axes, MAX_AXES);
    for (hga_id i = 0; i < g->n_axes; i++) {
        if (shape[i] < 1)
            return hga_fail(HGA_EINVAL, "%s: %d, at least 1 is needed", p->shape ? "shape" : "tokens", shape[i]);
        if (shape[i] > INT32_MAX / product) return hga_fail(HGA_EOVERFLOW, "shape: more tokens than a 32-bit id");
        product *= shape[i];
    }
    g->n_tokens = (hga_id)product;
    if (p->n_tokens && p->n_tokens != g->n_tokens)
        return hga_fail(HGA_EINVAL, "tokens: %d, but shape has %d", p->n_tokens, g->n_tokens);
    for (hga_id i = 0, stride = g->n_tokens; i < g->n_axes; i++)
        stride /= shape[i], g->axis[i].n = shape[i], g->axis[i].stride = stride;
    return HGA_OK;
}

/* Reads the axes with the parameters of each, or of all at once. */
static hga_status read_parameters(const hga_neighbourhood *p, token_grid *g)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_check_reserved("hga_neighbourhood", p->reserved, sizeof p->reserved));
    HGA_TRY(find_axes(p, g));
    HGA_TRY(check_axes("kernel", p->kernel, p->n_kernel, g->n_axes, 1, INT32_MAX));
    HGA_TRY(check_axes("dilation", p->dilation, p->n_dilation, g->n_axes, 1, INT32_MAX));
    HGA_TRY(check_axes("causal", p->causal, p->n_causal, g->n_axes, 0, 1));
    for (hga_id i = 0; i < g->n_axes; i++) {
        token_axis *x = &g->axis[i];
        x->kernel = of_axis(p->kernel, p->n_kernel, i, HGA_NEIGHBOURHOOD_KERNEL);
        x->dilation = of_axis(p->dilation, p->n_dilation, i, 1);
        x->causal = of_axis(p->causal, p->n_causal, i, 0) != 0;
        if (x->dilation > x->n) x->dilation = x->n; /* every class has one token already */
    }
done:
    return st;
}

hga_status hga_build_neighbourhood(const hga_neighbourhood *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    const hga_block *part[MAX_AXES];
    token_grid x = {.allocator = p->allocator};
    uint32_t causal = HGA_CLAIM_CAUSAL;
    *g = NULL;
    HGA_TRY(read_parameters(p, &x));
    HGA_TRY(hga_builder_create(p->allocator, &x.builder));
    HGA_TRY(sides_add_tokens(x.builder, x.n_tokens, 0));
    HGA_TRY(hga_builder_add_relation(x.builder, "near", &x.near));
    HGA_TRY(set_order(&x));
    HGA_TRY(hga_builder_set_position(x.builder, 0, x.n_tokens, -1)); /* neighbours below are a row of the grid away */
    for (hga_id i = 0; i < x.n_axes; i++) {
        if (!x.axis[i].causal) causal = 0;
        HGA_TRY(find_parts(&x, &x.axis[i], i == x.n_axes - 1));
    }
    HGA_TRY(hga_builder_set_claims(x.builder, HGA_CLAIM_SINGLE | causal));
    if (causal) HGA_TRY(keep_positions(x.builder, p->allocator));
    HGA_TRY(add_products(&x, 0, part));
    HGA_TRY(hga_program_attention(program, x.near));
    HGA_TRY(hga_builder_finish(x.builder, g));
done:
    for (hga_id i = 0; i < MAX_AXES; i++)
        hga_delete(p->allocator, x.axis[i].part, x.axis[i].capacity, sizeof *x.axis[i].part);
    hga_builder_destroy(x.builder);
    return st;
}
