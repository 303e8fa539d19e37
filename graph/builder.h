/* builder.h: what a builder has collected. Only builder.c and finish.c include this. */
#ifndef BUILDER_H
#define BUILDER_H

#include "graph.h"

typedef struct families { /* nodes child .. child + n - 1 go, `each` at a time, to parent, parent + 1, .. */
    hga_id parent, child, n, each;
} families;

typedef struct sides {
    hga_id first, n;
    uint8_t side;
} sides;

typedef struct masses {
    hga_id node;
    float mass;
} masses;

typedef struct draft {     /* a relation being collected */
    char name[NAME_BYTES]; /* first: see names.h */
    int64_t n_blocks, block_room, n_edges, edge_room;
    hga_block *blocks;
    explicit_edge *edges;
    hga_id n_dst_order, n_src_order;
    hga_id *dst_order, *src_order;
} draft;

struct hga_builder {
    hga_allocator allocator;
    int64_t n_levels, level_room, n_families, family_room, n_sides, side_room, n_masses, mass_room, n_drafts,
        draft_room;
    hga_id *level_size;
    families *families;
    sides *sides;
    masses *masses;
    draft *drafts;
    name_index names; /* of the drafts */
    hga_id n;         /* nodes so far */
    int has_tokens;
    hga_id query_first, n_queries, key_first, n_keys;
    uint32_t claims;
};

/* Free what was collected; the builder is as new. */
void builder_clear(hga_builder *b);

#endif
