/* builder.h: what a builder has collected. Only graph/ includes this. */
#ifndef BUILDER_H
#define BUILDER_H

#include "graph.h"

typedef struct declared_families { /* nodes child .. child + n - 1 go, `each` at a time, to parent, parent + 1, .. */
    hga_id parent, child, n, each;
} declared_families;

typedef struct sides {
    hga_id first, n;
    uint8_t side;
} sides;

typedef struct masses {
    hga_id first, n;
    float mass;
} masses;

typedef struct positions {
    hga_id first, n;
    float position;
} positions;

typedef struct label { /* a node's name begins at `at` of the texts; the last one counts */
    hga_id node;
    int64_t at;
} label;

typedef struct declared_kinds {
    hga_id first, n;
    int32_t kind;
} declared_kinds;

typedef struct draft { /* a relation being collected */
    char name[NAME_BYTES];
    int64_t n_blocks, block_capacity;
    hga_block *blocks;
    declared_edges edges;
    hga_choice *choice; /* [n_choices] */
    /* [n_lists]: where the choices' lists begin in `chosen`, choice after choice, each with their end */
    hga_pos *list;
    hga_id *chosen;
    int64_t n_choices, choice_capacity, n_lists, list_capacity, n_chosen, chosen_capacity;
    int sums; /* weights of repeated edges are added */
    hga_id n_dst_order, n_src_order;
    hga_id *dst_order, *src_order;
} draft;

/* Lists that grow: the first n of `capacity`. */
typedef struct level_list {
    int64_t n, capacity;
    hga_id *size;
} level_list;
typedef struct family_ranges {
    int64_t n, capacity;
    declared_families *list;
} family_ranges;
typedef struct side_list {
    int64_t n, capacity;
    sides *list;
} side_list;
typedef struct mass_list {
    int64_t n, capacity;
    masses *list;
} mass_list;
typedef struct position_list {
    int64_t n, capacity;
    positions *list;
} position_list;
typedef struct draft_list {
    int64_t n, capacity;
    draft *list;
    name_index names;
} draft_list;
typedef struct label_list {
    int64_t n, capacity;
    label *list;
    int64_t text_bytes, text_capacity;
    char *text; /* names of nodes, each ended by 0 */
} label_list;
typedef struct declared_kind_list {
    int64_t n, capacity;
    declared_kinds *list;
} declared_kind_list;

struct hga_builder {
    hga_allocator allocator;
    level_list levels;
    family_ranges families;
    side_list sides;
    mass_list masses;
    position_list positions;
    draft_list drafts;
    label_list labels;
    kind_list kinds;
    declared_kind_list declared;
    hga_id n; /* nodes so far */
    int has_tokens;
    token_ranges token;
    uint32_t claims;
    hga_graph *longer; /* NULL: none was declared */
    hga_id n_parts, *part;
};

/* The mass of nodes [first, first + n). */
hga_status builder_set_masses(hga_builder *b, hga_id first, hga_id n, float mass);

/* Raises the relation's number of types to most + 1. */
static inline void relation_note_types(stored_relation *r, int64_t most)
{
    if (most + 1 > r->n_types) r->n_types = (int32_t)(most + 1);
}

/* longer.c: HGA_EGRAPH unless g is part of its longer graph. */
hga_status longer_check(const hga_graph *g);

/* Frees what was collected; the builder is as new. */
void builder_clear(hga_builder *b);

#endif
