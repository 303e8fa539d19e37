/* regions.c: every set of rows that a program can name is a union of a dozen regions of nodes, so that a word says
   exactly which rows hold values. */
#include "regions.h"

/* Level 0 is query tokens, key tokens or both; above it are the nodes of the hierarchy. */
enum { BOTH_TOKEN, QUERY_TOKEN, KEY_TOKEN, ABOVE, N_REGIONS, N_SIDES = 3 };

#define REGION(p)    ((row_set)(7u << (p)*N_SIDES)) /* of every side */
#define SIDE(s)      ((row_set)(0x249u << (s)))     /* of every kind of node */
#define EVERY_REGION ((row_set)((1u << N_REGIONS * N_SIDES) - 1))

int program_region(const hga_nodes *nodes, hga_id v)
{
    int side = nodes->side ? nodes->side[v] : HGA_SIDE_BOTH, place = ABOVE;
    if (v < nodes->level_ptr[1]) {
        int query = v >= nodes->query_first && v - nodes->query_first < nodes->n_queries,
            key = v >= nodes->key_first && v - nodes->key_first < nodes->n_keys;
        place = query && key ? BOTH_TOKEN : query ? QUERY_TOKEN : KEY_TOKEN;
    }
    return place * N_SIDES + side;
}

/* The regions whose nodes are among such rows, as bits. */
row_set program_row_set(hga_field_rows rows)
{
    static const row_set set[HGA_ROWS_ABOVE + 1] = {
        [HGA_ROWS_QUERIES] = REGION(BOTH_TOKEN) | REGION(QUERY_TOKEN),
        [HGA_ROWS_KEYS] = REGION(BOTH_TOKEN) | REGION(KEY_TOKEN),
        [HGA_ROWS_NODES] = EVERY_REGION,
        [HGA_ROWS_QUERY_SIDE] = SIDE(HGA_SIDE_BOTH) | SIDE(HGA_SIDE_QUERY),
        [HGA_ROWS_KEY_SIDE] = SIDE(HGA_SIDE_BOTH) | SIDE(HGA_SIDE_KEY),
        [HGA_ROWS_ABOVE] = REGION(ABOVE),
    };
    return set[rows];
}

/* Nodes without sides are in three regions at most: queries, keys, and what is above the tokens. */
row_set program_present(const hga_nodes *nodes)
{
    row_set present = 0;
    if (nodes->side) {
        for (hga_id v = 0; v < nodes->n; v++) present |= (row_set)(1u << program_region(nodes, v));
        return present;
    }
    if (nodes->n_queries) present |= (row_set)(1u << program_region(nodes, nodes->query_first));
    if (nodes->n_keys) present |= (row_set)(1u << program_region(nodes, nodes->key_first));
    if (nodes->n > nodes->level_ptr[1]) present |= (row_set)(1u << program_region(nodes, nodes->level_ptr[1]));
    return present;
}
