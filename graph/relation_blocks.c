/* relation_blocks.c: the blocks of a relation, checked, counted and put in order. */
#include "builder.h"
#include "builder_relations.h"
#include "blocks.h"

/* Checks every block and adds up its edges; *kept: the number of blocks with edges. */
static hga_status count_blocks(const hga_graph *g, const draft *d, stored_relation *r, hga_pos *kept)
{
    hga_id n_columns = r->order.src ? r->order.n_src : g->n;
    *kept = 0;
    for (hga_pos i = 0; i < d->n_blocks; i++) {
        const hga_block *b = &d->blocks[i];
        hga_status st = block_check(b, g->n, n_columns, g->n, d->name, i);
        if (st) return st;
        int64_t edges = block_edges(b), least, most;
        if (edges < 0 || __builtin_add_overflow(r->n_edges, edges, &r->n_edges))
            return hga_fail(HGA_EOVERFLOW, "relation %s, block %lld: more than 2^63 edges", d->name, (long long)i);
        if (edges == 0) continue;
        block_types(b, &least, &most);
        relation_note_types(r, most);
        r->weighted |= b->weight != 0 && b->weight != 1;
        r->positioned |= b->pos_of != HGA_POS_OWN || b->src_pos_of != HGA_POS_OWN;
        ++*kept;
    }
    return HGA_OK;
}

/* Stores the blocks that have edges, sorted and indexed. */
hga_status relation_blocks(const hga_graph *g, const draft *d, stored_relation *r)
{
    hga_status st = HGA_OK;
    hga_pos kept;
    HGA_TRY(count_blocks(g, d, r, &kept));
    r->n_blocks = kept;
    HGA_TRY(hga_new(&g->allocator, kept, sizeof *r->blocks, &r->blocks));
    HGA_TRY(hga_new(&g->allocator, kept, sizeof *r->reach, &r->reach));
    hga_pos at = 0;
    for (hga_pos i = 0; i < d->n_blocks; i++)
        if (block_edges(&d->blocks[i]) > 0) r->blocks[at++] = d->blocks[i];
    blocks_sort(r->blocks, kept);
    blocks_index(r->blocks, kept, r->reach);
done:
    return st;
}
