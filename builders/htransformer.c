/* htransformer.c: H-Transformer-1D. Tokens come in blocks of c; a level coarsens pairs of nodes and has half as many
   blocks, until two are left. A query sees its own and the near blocks exactly, on level 0, and coarser nodes farther
   away. "Near" is defined by a table of tiles, rectangles of blocks or half blocks, repeated along the level.
   neighbours: coarsening maps each block of s nodes to ceil(s / 2), and two such halves form a block of the next level.
   Above level 0 a query sees the adjacent blocks except the halves that are adjacent to its own half: these were
   adjacent blocks one level finer. siblings: nodes pair plainly; a query sees the block that shares its parent. */
#include "at_least.h"
#include "sides.h"
#include "longer.h"

enum { MAX_LEVELS = 33, MAX_TILES = 4 };

/* ---- levels ---- */

/* The levels of the queries, or of the keys. */
typedef struct side_levels {
    int64_t size[MAX_LEVELS], first[MAX_LEVELS];
} side_levels;

typedef struct hierarchy {
    const hga_htransformer *p;
    hga_id n_levels;
    int cross;
    side_levels query, key; /* the same when not cross */
} hierarchy;

/* nodes of a full block: odd blocks of neighbours grow to even ones above level 0, since their halves are rounded up */
static int64_t block_size(const hga_htransformer *p, hga_id level)
{
    int64_t c = p->block;
    return p->structure == HGA_NEIGHBOURS && level > 0 ? c + c % 2 : c;
}

static int64_t n_blocks(const hga_htransformer *p, hga_id level, int64_t n)
{
    int64_t block = block_size(p, level);
    return (n + block - 1) / block;
}

/* nodes one level above n nodes: each block is halved on its own, or all nodes pair */
static int64_t coarser(const hga_htransformer *p, hga_id level, int64_t n)
{
    int64_t block = p->structure == HGA_NEIGHBOURS ? block_size(p, level) : n;
    return n / block * ((block + 1) / 2) + (n % block + 1) / 2;
}

static void size_levels(const hga_htransformer *p, hierarchy *h)
{
    *h = (hierarchy){.p = p, .n_levels = 1, .cross = p->n_keys > 0};
    h->query.size[0] = p->n_tokens, h->key.size[0] = h->cross ? p->n_keys : p->n_tokens;
    for (hga_id l = 0; n_blocks(p, l, h->query.size[l]) > 2 || n_blocks(p, l, h->key.size[l]) > 2; l++) {
        h->query.size[l + 1] = coarser(p, l, h->query.size[l]);
        h->key.size[l + 1] = coarser(p, l, h->key.size[l]);
        h->n_levels++;
    }
}

/* Adds each level's queries, and in cross-attention its keys after them. */
static hga_status add_side_levels(hga_builder *b, hierarchy *h)
{
    hga_status st = HGA_OK;
    HGA_TRY(sides_add_tokens(b, h->p->n_tokens, h->p->n_keys));
    for (hga_id l = 0, first = 0; l < h->n_levels; l++) {
        if (l > 0) HGA_TRY(sides_add_level(b, (hga_id)h->query.size[l], h->cross ? (hga_id)h->key.size[l] : 0, &first));
        h->query.first[l] = first;
        h->key.first[l] = h->cross ? first + h->query.size[l] : first;
    }
done:
    return st;
}

/* The run of nodes that pair with each other: a block where its last node stays an only child, else the whole level. */
static int64_t stretch(const hga_htransformer *p, hga_id level, int64_t n)
{
    return p->structure == HGA_NEIGHBOURS && level == 0 && p->block % 2 ? p->block : n;
}

/* Sets the parents of one side's nodes of level l, which pair within each stretch. */
static hga_status add_side_families(hga_builder *b, const hga_htransformer *p, const side_levels *s, hga_id l)
{
    int64_t size = s->size[l], step = stretch(p, l, size), child = s->first[l], parent = s->first[l + 1];
    if (step == 1) return hga_builder_set_families(b, (hga_id)parent, (hga_id)child, (hga_id)size, 1);
    hga_status st = HGA_OK;
    for (int64_t at = 0; at < size; at += step, parent += (step + 1) / 2) {
        int64_t n = size - at < step ? size - at : step;
        HGA_TRY(hga_builder_set_families(b, (hga_id)parent, (hga_id)(child + at), (hga_id)n, 2));
    }
done:
    return st;
}

static hga_status add_tree(hga_builder *b, const hierarchy *h)
{
    hga_status st = HGA_OK;
    for (hga_id l = 0; l + 1 < h->n_levels; l++) {
        HGA_TRY(add_side_families(b, h->p, &h->query, l));
        if (h->cross) HGA_TRY(add_side_families(b, h->p, &h->key, l));
    }
done:
    return st;
}

/* ---- near ---- */

/* Rows [row, row + rows) to columns [col, col + cols), counted in units and repeated every `step` units. */
typedef struct unit_block {
    int row, rows, col, cols;
    hga_shape_kind shape;
} unit_block;

typedef struct unit_pattern {
    int halves, step, n_tiles; /* the unit is half a block, or a block */
    unit_block tiles[MAX_TILES];
} unit_pattern;

/* [structure][causal][above level 0] */
static const unit_pattern patterns[HGA_SIBLINGS + 1][2][2] =
    {[HGA_NEIGHBOURS] =
         {{{0, 1, 1, {{0, 1, -1, 3, HGA_ALL}}},
           {1, 2, 4, {{0, 1, -2, 1, HGA_ALL}, {0, 1, 2, 2, HGA_ALL}, {1, 1, -2, 2, HGA_ALL}, {1, 1, 3, 1, HGA_ALL}}}},
          {{0, 1, 2, {{0, 1, -1, 1, HGA_ALL}, {0, 1, 0, 1, HGA_LOWER}}},
           {1, 2, 2, {{0, 1, -2, 1, HGA_ALL}, {1, 1, -2, 2, HGA_ALL}}}}},
     [HGA_SIBLINGS] = {{{0, 2, 1, {{0, 2, 0, 2, HGA_ALL}}}, {0, 2, 2, {{0, 1, 1, 1, HGA_ALL}, {1, 1, 0, 1, HGA_ALL}}}},
                       {{0, 2, 1, {{0, 2, 0, 2, HGA_LOWER}}}, {0, 2, 1, {{1, 1, 0, 1, HGA_ALL}}}}}};

/* relative types are (j - i) + 2 block - 1, i and j counted within their levels */
static hga_status add_tile(hga_builder *b, hga_id near, const hierarchy *h, hga_id l, int64_t unit, int64_t step,
                           const unit_block *t)
{
    int64_t row = t->row * unit, col = t->col * unit, types = 2 * block_size(h->p, 1) - 1;
    hga_staircase s = {.row = h->query.first[l] + row,
                       .n_rows = t->rows * unit,
                       .row_step = step * unit,
                       .col = h->key.first[l] + col,
                       .n_cols = t->cols * unit,
                       .col_step = step * unit,
                       .row_begin = h->query.first[l],
                       .row_end = h->query.first[l] + h->query.size[l],
                       .col_begin = h->key.first[l],
                       .col_end = h->key.first[l] + h->key.size[l],
                       .shape = t->shape};
    if (h->p->relative) s.type = col - row + types, s.type_dst = -1, s.type_src = 1;
    return hga_builder_add_staircase(b, near, &s);
}

/* Adds the near blocks of every level, by the table's tiles. */
static hga_status add_near(hga_builder *b, hga_id near, const hierarchy *h)
{
    hga_status st = HGA_OK;
    for (hga_id l = 0; l < h->n_levels; l++) {
        const unit_pattern *near_by = &patterns[h->p->structure][h->p->causal != 0][l > 0];
        int64_t unit = block_size(h->p, l) / (near_by->halves ? 2 : 1);
        for (int i = 0; i < near_by->n_tiles; i++)
            HGA_TRY(add_tile(b, near, h, l, unit, near_by->step, &near_by->tiles[i]));
    }
done:
    return st;
}

/* ---- between levels: of the queries only, since only queries are sampled and interpolated ---- */

/* First children and their parents, evenly spaced: child, child + child_step, .. below child_end. */
typedef struct strand {
    int64_t child, child_step, child_end, parent, parent_step, parent_end;
    int only_child; /* the children have no siblings */
} strand;

/* The first children of level l are one strand for each stretch; or, where stretches are many and short, one for each
   index in a stretch. */
typedef struct weave {
    const side_levels *side;
    hga_id level;
    int64_t step, half, n_stretches;
} weave;

static weave find_weave(const hierarchy *h, hga_id l)
{
    int64_t size = h->query.size[l], step = stretch(h->p, l, size);
    return (weave){
        .side = &h->query, .level = l, .step = step, .half = (step + 1) / 2, .n_stretches = (size + step - 1) / step};
}

static int64_t n_strands(const weave *w) { return w->half < w->n_stretches ? w->half : w->n_stretches; }

static strand find_strand(const weave *w, int64_t i)
{
    int64_t child = w->side->first[w->level], parent = w->side->first[w->level + 1];
    int64_t child_end = child + w->side->size[w->level], parent_end = parent + w->side->size[w->level + 1];
    if (w->half < w->n_stretches)
        return (strand){child + 2 * i, w->step, child_end, parent + i, w->half, parent_end, 2 * i + 1 == w->step};
    int64_t end = child + (i + 1) * w->step;
    return (strand){child + i * w->step, 2,           end < child_end ? end : child_end, parent + i * w->half, 1,
                    parent_end,          w->step == 1};
}

/* parent <- first child */
static hga_status add_first_children(hga_builder *b, hga_id relation, const strand *s)
{
    hga_staircase up = {.row = s->parent,
                        .n_rows = 1,
                        .row_step = s->parent_step,
                        .row_begin = s->parent,
                        .row_end = s->parent_end,
                        .col = s->child,
                        .n_cols = 1,
                        .col_step = s->child_step,
                        .col_begin = s->child,
                        .col_end = s->child_end};
    return hga_builder_add_staircase(b, relation, &up);
}

/* A first or only child takes its parent's value x[j], a second child (x[j] + x[j + 1]) / 2; `end` is one past the last
   node that has an x[j + 1]. */
static hga_status add_interpolation(hga_builder *b, hga_id relation, const strand *s, int64_t end)
{
    hga_staircase first = {.row = s->child,
                           .n_rows = 1,
                           .row_step = s->child_step,
                           .row_begin = s->child,
                           .row_end = s->child_end,
                           .col = s->parent,
                           .n_cols = 1,
                           .col_step = s->parent_step,
                           .col_begin = s->parent,
                           .col_end = s->parent_end,
                           .weight = 1};
    hga_status st = hga_builder_add_staircase(b, relation, &first);
    if (st || s->only_child) return st;
    hga_staircase second = first;
    second.row = second.row_begin = s->child + 1;
    second.row_end = s->child_end < end ? s->child_end : end;
    second.n_cols = 2, second.weight = 0.5f;
    return hga_builder_add_staircase(b, relation, &second);
}

/* When the last node of the level is a second child there is no x[j + 1]: it takes x[j]. */
static hga_status add_level_interpolation(hga_builder *b, hga_id relation, const weave *w)
{
    hga_status st = HGA_OK;
    int64_t size = w->side->size[w->level], rest = size - (w->n_stretches - 1) * w->step,
            end = w->side->first[w->level] + size - (rest % 2 == 0);
    int64_t last_parent = w->side->first[w->level + 1] + w->side->size[w->level + 1] - 1;
    for (int64_t i = 0; i < n_strands(w); i++) {
        strand s = find_strand(w, i);
        HGA_TRY(add_interpolation(b, relation, &s, end));
    }
    if (rest % 2 == 0) HGA_TRY(hga_builder_add_block(b, relation, (hga_id)end, 1, (hga_id)last_parent, 1, 0));
done:
    return st;
}

/* Adds the relation between levels of the causal and the linear variant; else *relation is unchanged. */
static hga_status add_between(hga_builder *b, const hierarchy *h, hga_id *relation)
{
    if (!h->p->causal && !h->p->linear) return HGA_OK;
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_add_relation(b, h->p->causal ? "first_child" : "interpolate", relation));
    for (hga_id l = 0; l + 1 < h->n_levels; l++) {
        weave w = find_weave(h, l);
        for (int64_t i = 0; h->p->causal && i < n_strands(&w); i++) {
            strand s = find_strand(&w, i);
            HGA_TRY(add_first_children(b, *relation, &s));
        }
        if (h->p->linear) HGA_TRY(add_level_interpolation(b, *relation, &w));
    }
done:
    return st;
}

/* ---- all of it ---- */

/* Adds the relations, once levels exist. */
static hga_status add_relations(hga_builder *b, const hierarchy *h, hga_id *near, hga_id *between)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_add_relation(b, "near", near));
    HGA_TRY(add_near(b, *near, h));
    HGA_TRY(add_between(b, h, between));
done:
    return st;
}

/* Levels and relations over more tokens. */
static hga_status draw_more_htransformer(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there)
{
    hga_htransformer p = *(const hga_htransformer *)parameters;
    hierarchy h;
    hga_id near, between = -1;
    (void)there;
    p.n_tokens = n_tokens;
    size_levels(&p, &h);
    hga_status st = add_side_levels(b, &h);
    return st ? st : add_relations(b, &h, &near, &between);
}

/* Refuses interpolation that would show later tokens, and more types than fit 32 bits. */
static hga_status check_htransformer(const hga_htransformer *p)
{
    hga_status st = check_at_least_one("block", p->block);
    if (st) return st;
    if ((unsigned)p->structure > HGA_SIBLINGS)
        return hga_fail(HGA_EINVAL, "structure: %d is not one", (int)p->structure);
    if (p->linear && p->causal)
        return hga_fail(HGA_EUNSUPPORTED, "linear interpolation shows a causal query later tokens");
    if (p->relative && 4 * block_size(p, 1) >= INT32_MAX)
        return hga_fail(HGA_EOVERFLOW, "block: %d has too many relative types", p->block);
    return sides_check(p->n_tokens, p->n_keys, p->causal);
}

/* Under linear interpolation a node takes half of its neighbour's state, and with it pairs that its own state may cover
   as well. */
static uint32_t claims(const hga_htransformer *p)
{
    return HGA_CLAIM_COMPLETE | (p->linear ? 0u : HGA_CLAIM_SINGLE) | (p->causal ? HGA_CLAIM_CAUSAL : 0u);
}

/* coarsen q, k, v; attend by mass; spread the states. A causal coarse query is its first token's: a mean would show
   later ones. */
static hga_status htransformer_program(const hga_htransformer *p, hga_id near, hga_id between, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, out;
    hga_program_init(program);
    HGA_TRY(hga_program_add_field(program, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERY_SIDE,
                                  &query));
    HGA_TRY(
        hga_program_add_field(program, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEY_SIDE, &key));
    HGA_TRY(hga_program_add_field(program, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEY_SIDE,
                                  &value));
    HGA_TRY(hga_program_add_field(program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERY_SIDE,
                                  &out));
    HGA_TRY(p->causal ? hga_program_coarsen_along(program, between, query) : hga_program_coarsen(program, query));
    HGA_TRY(hga_program_coarsen(program, key));
    HGA_TRY(hga_program_coarsen(program, value));
    HGA_TRY(hga_program_attend(program, near, query, key, value, out, 1));
    HGA_TRY(hga_program_spread(program, p->linear ? between : HGA_TREE_DOWN, out));
    program->has_lse = 1;
done:
    return st;
}

hga_status hga_build_htransformer(const hga_htransformer *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hierarchy h;
    hga_id near, between = -1;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_htransformer", p->reserved, sizeof p->reserved));
    HGA_TRY(check_htransformer(p));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    size_levels(p, &h);
    HGA_TRY(add_side_levels(b, &h));
    HGA_TRY(add_tree(b, &h));
    HGA_TRY(hga_builder_set_claims(b, claims(p)));
    HGA_TRY(add_relations(b, &h, &near, &between));
    if (p->causal && !p->n_keys)
        HGA_TRY(draw_longer(b, p->allocator, p->n_tokens, (int64_t)1 << (h.n_levels - 1), draw_more_htransformer, p));
    HGA_TRY(htransformer_program(p, near, between, program));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
