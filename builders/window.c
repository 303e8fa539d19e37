/* window.c: sliding window, strided window and global tokens. Query i sees key j if -left <= j - i <= right and stride
   divides j - i, or i < global or j < global. The three sets of pairs are disjoint: global rows see everything, the
   other rows see the global columns, and the rest is a band. */
#include "at_least.h"
#include "sides.h"
#include "longer.h"

/* The rectangle of query rows and key columns after the global ones. */
typedef struct frame {
    hga_id n_queries, n_keys, key_first; /* all tokens; the node of key 0 */
    hga_id rows, cols;                   /* global tokens among the queries and the keys */
    hga_id back, ahead;                  /* the band in strides: -back <= (j - i) / stride <= ahead */
} frame;

static hga_id least_id(hga_id a, hga_id b) { return a < b ? a : b; }

/* strides from a row to the farthest column that a limit allows; below 0: no limit */
static hga_id strides_within(hga_id limit, hga_id longest, hga_id stride)
{
    return (limit < 0 || limit > longest ? longest : limit) / stride;
}

/* The numbers of global tokens of both sides, and how far the others see. */
static frame find_frame(const hga_window *p)
{
    hga_id n_keys = p->n_keys > 0 ? p->n_keys : p->n_tokens, longest = n_keys > p->n_tokens ? n_keys : p->n_tokens;
    return (frame){.n_queries = p->n_tokens,
                   .n_keys = n_keys,
                   .key_first = p->n_keys > 0 ? p->n_tokens : 0,
                   .rows = least_id(p->global, p->n_tokens),
                   .cols = least_id(p->global, n_keys),
                   .back = strides_within(p->left, longest, p->stride),
                   .ahead = p->causal ? 0 : strides_within(p->right, longest, p->stride)};
}

/* The nodes first + 0 .. first + n - 1: the global ones, then the others by their residue modulo stride. */
static void sort_by_residue(hga_id first, hga_id n, hga_id global, hga_id stride, hga_id *order)
{
    hga_id at = 0;
    for (hga_id i = 0; i < global; i++) order[at++] = first + i;
    for (hga_id c = 0; c < stride && c < n - global; c++)
        for (int64_t i = (int64_t)global + c; i < n; i += stride) order[at++] = first + (hga_id)i;
}

/* Sorts both sides: global tokens, then the others by residue. */
static hga_status set_orders(hga_builder *b, hga_id near, const hga_window *p, const frame *f)
{
    hga_status st = HGA_OK;
    hga_id *rows = NULL, *cols = NULL;
    HGA_TRY(hga_new(p->allocator, f->n_queries, sizeof *rows, &rows));
    HGA_TRY(hga_new(p->allocator, f->n_keys, sizeof *cols, &cols));
    sort_by_residue(0, f->n_queries, f->rows, p->stride, rows);
    sort_by_residue(f->key_first, f->n_keys, f->cols, p->stride, cols);
    HGA_TRY(hga_builder_set_order(b, near, rows, f->n_queries, cols, f->n_keys));
done:
    hga_delete(p->allocator, rows, f->n_queries, sizeof *rows);
    hga_delete(p->allocator, cols, f->n_keys, sizeof *cols);
    return st;
}

/* The first index of residue class c of m nodes, and the class's size: the first m mod stride classes have one more. */
static hga_id class_first(hga_id m, hga_id stride, hga_id c) { return c * (m / stride) + least_id(c, m % stride); }
static hga_id class_size(hga_id m, hga_id stride, hga_id c) { return m / stride + (c < m % stride); }

/* One band for each residue class; neighbouring classes of equal sizes are one repeated block, so there are at most
   three. */
static hga_status add_bands(hga_builder *b, hga_id near, const frame *f, hga_id stride, hga_id col_base)
{
    hga_status st = HGA_OK;
    hga_id rows = f->n_queries - f->rows, cols = f->n_keys - f->cols;
    hga_id n_classes = least_id(stride, least_id(rows, cols)),
           ends[] = {least_id(rows % stride, n_classes), least_id(cols % stride, n_classes), n_classes};
    for (hga_id c = 0; c < n_classes;) {
        hga_id end = n_classes;
        for (int i = 0; i < 3; i++)
            if (ends[i] > c) end = least_id(end, ends[i]);
        hga_block bands = {.dst = f->rows + class_first(rows, stride, c),
                           .n_dst = class_size(rows, stride, c),
                           .src = col_base + f->cols + class_first(cols, stride, c),
                           .n_src = class_size(cols, stride, c),
                           .count = end - c,
                           .shape = HGA_BAND,
                           .band_first = -f->back,
                           .band_last = f->ahead};
        bands.dst_step = bands.n_dst, bands.src_step = bands.n_src;
        HGA_TRY(hga_builder_add_blocks(b, near, &bands));
        c = end;
    }
done:
    return st;
}

/* Rows and columns are positions in the orders; without orders keys begin at node key_first. */
static hga_status add_pairs(hga_builder *b, hga_id near, const hga_window *p, const frame *f)
{
    hga_status st = HGA_OK;
    hga_id col_base = p->stride > 1 ? 0 : f->key_first;
    if (p->stride > 1) HGA_TRY(set_orders(b, near, p, f));
    hga_block top = {.n_dst = f->rows,
                     .src = col_base,
                     .n_src = p->causal ? f->rows : f->n_keys,
                     .shape = p->causal ? HGA_LOWER : HGA_ALL};
    HGA_TRY(hga_builder_add_blocks(b, near, &top));
    HGA_TRY(hga_builder_add_block(b, near, f->rows, f->n_queries - f->rows, col_base, f->cols, 0));
    HGA_TRY(add_bands(b, near, f, p->stride, col_base));
done:
    return st;
}

static hga_status draw_window(hga_builder *b, const hga_window *p, hga_id *near)
{
    frame f = find_frame(p);
    hga_status st = sides_add_tokens(b, p->n_tokens, p->n_keys);
    if (!st) st = hga_builder_add_relation(b, "near", near);
    return st ? st : add_pairs(b, *near, p, &f);
}

static hga_status draw_more_window(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there)
{
    hga_window p = *(const hga_window *)parameters;
    hga_id near;
    (void)there;
    p.n_tokens = n_tokens;
    return draw_window(b, &p, &near);
}

static hga_status check_window(const hga_window *p)
{
    hga_status st = check_at_least_one("stride", p->stride);
    if (st) return st;
    if (p->global < 0) return hga_fail(HGA_EINVAL, "global: %d is negative", p->global);
    return sides_check(p->n_tokens, p->n_keys, p->causal);
}

hga_status hga_build_window(const hga_window *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id near;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_window", p->reserved, sizeof p->reserved));
    HGA_TRY(check_window(p));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | (p->causal ? HGA_CLAIM_CAUSAL : 0u)));
    HGA_TRY(draw_window(b, p, &near));
    if (p->causal && !p->n_keys)
        HGA_TRY(p->stride > 1 ? keep_positions(b, p->allocator)
                              : draw_longer(b, p->allocator, p->n_tokens, 1, draw_more_window, p));
    HGA_TRY(hga_program_attention(program, near));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
