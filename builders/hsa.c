/* hsa.c: hierarchical self-attention (Amizadeh et al. 2025), Algorithms 1-3, on any tree.

   Without self edges or causality a family's members attend to each other and not to themselves: one block with a
   missing diagonal. With `self` a leaf also attends to itself: its softmax state then holds the paper's two
   terms, eta and phi(leaf), already merged. Causal SELF keeps the left siblings. Causal FRONTIER has no tree on the
   query side: a leaf i attends, with its own query, to itself and to the left siblings of itself and of each of its
   ancestors; the position embedding on its side is that of the ancestor (pos_of). */
#include "forest.h"
#include "longer.h"

/* ---- blocks ---- */

/* Consecutive blocks; those that repeat at a constant step are added as one. */
typedef struct chain {
    hga_block last;
    int used;
} chain;

static int same_form(const hga_block *x, const hga_block *y)
{
    return x->n_dst == y->n_dst && x->n_src == y->n_src && x->shape == y->shape && !x->pos_of == !y->pos_of;
}

/* extend the last block by the next, if it fits */
static int extend_block(hga_block *last, const hga_block *next)
{
    int64_t i = last->count - 1, dst = (int64_t)next->dst - last->dst;
    int64_t src = (int64_t)next->src - last->src, pos = (int64_t)next->pos_of - last->pos_of;
    if (!same_form(last, next)) return 0;
    dst -= i * last->dst_step, src -= i * last->src_step, pos -= i * last->pos_step;
    if (i > 0 && (dst != last->dst_step || src != last->src_step || pos != last->pos_step)) return 0;
    if (dst < 0 || src < 0 || pos < 0) return 0;
    last->dst_step = (hga_id)dst, last->src_step = (hga_id)src, last->pos_step = (hga_id)pos;
    last->count++;
    return 1;
}

static hga_status flush(hga_builder *b, hga_id relation, chain *c)
{
    if (!c->used) return HGA_OK;
    c->used = 0;
    return hga_builder_add_blocks(b, relation, &c->last);
}

static hga_status put_block(hga_builder *b, hga_id relation, chain *c, hga_block next)
{
    next.count = 1;
    if (c->used && extend_block(&c->last, &next)) return HGA_OK;
    hga_status st = flush(b, relation, c);
    c->last = next;
    c->used = 1;
    return st;
}

/* all members are leaves */
static int flat(const forest *f, hga_id start, hga_id m)
{
    for (hga_id i = 0; i < m; i++)
        if (forest_member(f, start + i) >= f->n_tokens) return 0;
    return 1;
}

/* Children child .. child + n - 1, `each` of them to a parent, from `parent` on. */
typedef struct child_run {
    hga_id parent, child, n, each;
} child_run;

static hga_status flush_families(hga_builder *b, child_run *f)
{
    hga_id n = f->n;
    f->n = 0;
    return n ? hga_builder_set_families(b, f->parent, f->child, n, f->each) : HGA_OK;
}

/* Appends the next parent to the run if its children follow and are as many. */
static hga_status put_family(hga_builder *b, child_run *f, hga_id parent, hga_id child, hga_id n)
{
    if (f->n && n == f->each && parent == f->parent + f->n / f->each && child == f->child + f->n) {
        f->n += n;
        return HGA_OK;
    }
    hga_status st = flush_families(b, f);
    *f = (child_run){parent, child, n, n};
    return st;
}

/* Sets each node's children, as runs of consecutive ids. */
static hga_status add_families(hga_builder *b, const forest *f)
{
    hga_status st = HGA_OK;
    child_run all = {.n = 0};
    for (hga_id v = f->n_tokens; v < f->n; v++)
        for (hga_id i = f->family_ptr[v], n; i < f->family_ptr[v + 1]; i += n) {
            hga_id child = forest_member(f, i);
            for (n = 1; i + n < f->family_ptr[v + 1] && forest_member(f, i + n) == child + n;) n++;
            HGA_TRY(put_family(b, &all, v, child, n));
        }
    HGA_TRY(flush_families(b, &all));
done:
    return st;
}

/* m x m over one family, without self edges on nodes above the tokens; *loops gets them on its leaves */
static hga_status add_family(hga_builder *b, hga_id relation, const forest *f, hga_id start, hga_id m, int self,
                             int causal, chain *pairs, chain *loops)
{
    hga_status st = HGA_OK;
    hga_block block = {.dst = start, .n_dst = m, .src = start, .n_src = m};
    if (self && flat(f, start, m)) {
        block.shape = causal ? HGA_LOWER : HGA_ALL;
        return put_block(b, relation, pairs, block);
    }
    block.shape = causal ? HGA_STRICT_LOWER : HGA_OFF_DIAGONAL;
    if (m > 1) HGA_TRY(put_block(b, relation, pairs, block));
    for (hga_id i = start; self && i < start + m; i++)
        if (forest_member(f, i) < f->n_tokens)
            HGA_TRY(put_block(b, relation, loops, (hga_block){.dst = i, .n_dst = 1, .src = i, .n_src = 1}));
done:
    return st;
}

/* Adds edges to siblings, family by family, and of leaves to themselves. */
static hga_status add_siblings(hga_builder *b, const forest *f, int self, int causal)
{
    hga_status st = HGA_OK;
    hga_id relation;
    chain pairs = {.used = 0}, loops = {.used = 0};
    HGA_TRY(hga_builder_add_relation(b, "sibling", &relation));
    if (f->order) HGA_TRY(hga_builder_set_order(b, relation, f->order, f->n, f->order, f->n));
    for (hga_id v = f->n_tokens; v < f->n; v++)
        HGA_TRY(add_family(b, relation, f, f->family_ptr[v], f->family_ptr[v + 1] - f->family_ptr[v], self, causal,
                           &pairs, &loops));
    for (hga_id i = f->n - f->n_roots; self && i < f->n; i++) /* a tree of one leaf */
        if (forest_member(f, i) < f->n_tokens)
            HGA_TRY(put_block(b, relation, &loops, (hga_block){.dst = i, .n_dst = 1, .src = i, .n_src = 1}));
    HGA_TRY(flush(b, relation, &pairs));
    HGA_TRY(flush(b, relation, &loops));
done:
    return st;
}

/* the leaves below a family's member number i (rows, by token) to its left siblings (columns); a leaf to itself, too */
static hga_status add_left_siblings(hga_builder *b, hga_id relation, const forest *f, hga_id start, hga_id i, chain *c)
{
    hga_id node = forest_member(f, start + i);
    hga_block block = {.dst = f->first[node], .n_dst = f->size[node], .src = start, .n_src = i, .pos_of = node + 1};
    if (node < f->n_tokens) block.n_src = i + 1, block.pos_of = HGA_POS_OWN;
    return block.n_src ? put_block(b, relation, c, block) : HGA_OK;
}

/* One chain per index in the family, so that regular trees give few blocks: chain[0] has the families of leaves. */
static hga_status add_frontier_family(hga_builder *b, hga_id relation, const forest *f, hga_id start, hga_id m,
                                      chain *chains)
{
    hga_status st = HGA_OK;
    if (flat(f, start, m))
        return put_block(
            b, relation, &chains[0],
            (hga_block){.dst = forest_member(f, start), .n_dst = m, .src = start, .n_src = m, .shape = HGA_LOWER});
    for (hga_id i = 0; i < m; i++) HGA_TRY(add_left_siblings(b, relation, f, start, i, &chains[i + 1]));
done:
    return st;
}

static hga_id widest_family(const forest *f)
{
    hga_id widest = 0;
    for (hga_id v = f->n_tokens; v < f->n; v++) {
        hga_id m = f->family_ptr[v + 1] - f->family_ptr[v];
        widest = m > widest ? m : widest;
    }
    return widest;
}

/* Adds edges to left siblings of ancestors, family by family. */
static hga_status add_frontier(hga_builder *b, const forest *f)
{
    hga_status st = HGA_OK;
    hga_id relation, n_chains = widest_family(f) + 1;
    chain *chains = NULL;
    HGA_TRY(hga_new_zero(f->a, n_chains, sizeof *chains, &chains));
    HGA_TRY(hga_builder_add_relation(b, "frontier", &relation));
    if (f->order) HGA_TRY(hga_builder_set_order(b, relation, NULL, 0, f->order, f->n));
    for (hga_id v = f->n_tokens; v < f->n; v++)
        HGA_TRY(add_frontier_family(b, relation, f, f->family_ptr[v], f->family_ptr[v + 1] - f->family_ptr[v], chains));
    for (hga_id i = f->n - f->n_roots; i < f->n; i++) /* a tree of one leaf */
        if (forest_member(f, i) < f->n_tokens) HGA_TRY(add_frontier_family(b, relation, f, i, 1, chains));
    for (hga_id i = 0; i < n_chains; i++) HGA_TRY(flush(b, relation, &chains[i]));
done:
    hga_delete(f->a, chains, n_chains, sizeof *chains);
    return st;
}

/* ---- programs ---- */

/* Coarse queries, keys and values; attention within families; energies up, outputs down. */
static hga_status write_program(hga_program *p)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, state, psi, keep, out;
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "state", HGA_WIDTH_STATE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &state));
    HGA_TRY(hga_program_add_field(p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &psi));
    HGA_TRY(hga_program_add_field(p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &keep));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &out));
    HGA_TRY(hga_program_coarsen(p, query));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, 0, query, key, value, state, 1));
    HGA_TRY(hga_program_energy(p, state, psi));
    HGA_TRY(hga_program_descend(p, state, psi, keep, out));
done:
    return st;
}

/* Coarse keys and values; each token attends to its frontier. */
static hga_status write_frontier_program(hga_program *p)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, out;
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, 0, query, key, value, out, 1));
    p->has_lse = 0; /* HSA has no softmax denominator to give, in any mode */
done:
    return st;
}

static hga_status check_hsa(const hga_hsa *p)
{
    if (!p->parent && !p->branching) return hga_fail(HGA_EINVAL, "hsa needs parent or branching");
    if (p->parent && p->branching) return hga_fail(HGA_EINVAL, "hsa takes parent or branching, not both");
    if (p->causal && p->mode != HGA_HSA_FRONTIER && p->mode != HGA_HSA_SELF)
        return hga_fail(HGA_EINVAL, "mode %d is neither frontier nor self", (int)p->mode);
    return HGA_OK;
}

/* Builds everything but the longer graph. */
static hga_status build(const hga_hsa *p, const forest *f, hga_builder *b)
{
    hga_status st = HGA_OK;
    uint32_t claims =
        HGA_CLAIM_SINGLE | (p->causal ? HGA_CLAIM_CAUSAL : 0u) | (f->n_roots == 1 ? HGA_CLAIM_COMPLETE : 0u);
    for (hga_id l = 0; l < f->n_levels; l++) HGA_TRY(hga_builder_add_level(b, f->level_size[l], NULL));
    HGA_TRY(add_families(b, f));
    HGA_TRY(hga_builder_set_claims(b, claims));
    if (p->causal && p->mode == HGA_HSA_FRONTIER)
        HGA_TRY(add_frontier(b, f));
    else
        HGA_TRY(add_siblings(b, f, p->self || p->causal, p->causal));
done:
    return st;
}

/* The frontiers of more tokens under the same branching. */
static hga_status draw_more_hsa(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there)
{
    hga_hsa p = *(const hga_hsa *)parameters;
    forest f = {.a = p.allocator};
    (void)there;
    p.n_tokens = n_tokens;
    hga_status st = forest_plant(&p, &f);
    for (hga_id l = 0; !st && l < f.n_levels; l++) st = hga_builder_add_level(b, f.level_size[l], NULL);
    if (!st) st = add_frontier(b, &f);
    forest_clear(&f);
    return st;
}

/* Draws the longer graph of frontiers, whose only rows are tokens: not needed where these are a multiple of 16. */
static hga_status look_ahead(hga_builder *b, const hga_hsa *p, const forest *f)
{
    if (!p->causal || p->mode != HGA_HSA_FRONTIER || !p->branching || f->order || p->n_tokens % 16 == 0) return HGA_OK;
    return draw_longer(b, p->allocator, p->n_tokens, 1, draw_more_hsa, p);
}

hga_status hga_build_hsa(const hga_hsa *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    forest f = {.a = p->allocator};
    hga_builder *b = NULL;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_hsa", p->reserved, sizeof p->reserved));
    HGA_TRY(check_hsa(p));
    HGA_TRY(forest_plant(p, &f));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(build(p, &f, b));
    HGA_TRY(look_ahead(b, p, &f));
    HGA_TRY(p->causal && p->mode == HGA_HSA_FRONTIER ? write_frontier_program(program) : write_program(program));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    forest_clear(&f);
    return st;
}
