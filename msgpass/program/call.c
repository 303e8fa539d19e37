/* call.c: the tables of a call besides rows of queries, keys and values: a row each. */
#include "call.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define NO_STANDARD HGA_NOWHERE, NULL
#define STANDARD(m) offsetof(hga_program, m), #m
#define ANY         0, 0, NAN, NULL
#define FINITE      -FLT_MAX, FLT_MAX, NAN, "finite"
/* A bound so that a number times log2 e and its inverse stay within float32; 1e30 rounded to float32 is within. */
#define BOUND                  (double)1e30f
#define EXTENTS(rows, columns) HGA_EXTENT_##rows, HGA_EXTENT_##columns

static const hga_call_row tables[HGA_N_TABLES + 1] = {
    [HGA_TABLE_SCALE] = {"scale", "scale", EXTENTS(ONE, ONE), HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES,
                         STANDARD(default_scale), -BOUND, BOUND, NAN, "finite, from -1e30 to 1e30",
                         "factor of the products of queries and keys (default: the program's, 1 / sqrt(dim), or 1 "
                         "with additive scores)"},
    [HGA_TABLE_REL_KEY] = {"rel_key", "rel-key", EXTENTS(TYPES, DIM), HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES,
                           NO_STANDARD, ANY, "added to keys by edge type"},
    [HGA_TABLE_REL_BIAS] = {"rel_bias", "rel-bias", EXTENTS(TYPES, HEADS), HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES,
                            NO_STANDARD, ANY, "added to scores by edge type"},
    [HGA_TABLE_EDGE_BIAS] = {"edge_bias", "edge-bias", EXTENTS(EDGES, HEADS_OR_ONE),
                             HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES, NO_STANDARD, ANY,
                             "added to scores by edge, in canonical order: by destination, source, type"},
    [HGA_TABLE_NODE_POS] = {"node_pos", "node-pos", EXTENTS(NODES, POS_DIM), HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES,
                            NO_STANDARD, ANY, "position embeddings, whose products are added to scores"},
    [HGA_TABLE_TYPE_SCALE] = {"type_scale", "alpha", EXTENTS(TYPES, ONE),
                              HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SUMS | HGA_CALL_BY_VARIANT, NO_STANDARD, ANY,
                              "factor of the sources of weighted sums, by edge type"},
    [HGA_TABLE_SINK] = {"sink", "sink", EXTENTS(HEADS, ONE),
                        HGA_CALL_GRADIENT | HGA_CALL_NEEDS_LSE | HGA_CALL_IS_REFUSED, NO_STANDARD, -FLT_MAX, FLT_MAX,
                        -INFINITY, "finite, or -inf for none", "each row's softmax denominator gains e^sink"},
    [HGA_TABLE_SLOPES] = {"slopes", "slopes", EXTENTS(HEADS, ONE),
                          HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES | HGA_CALL_NEEDS_POSITIONS | HGA_CALL_BENDS |
                              HGA_CALL_IS_REFUSED,
                          NO_STANDARD, 0, FLT_MAX, NAN, "finite and at least 0",
                          "scores lose slope times the distance of the query's position and the key's"},
    [HGA_TABLE_ADDITIVE] = {"additive", "additive", EXTENTS(HEADS, DIM),
                            HGA_CALL_GRADIENT | HGA_CALL_NO_PRODUCT | HGA_CALL_IS_REFUSED, NO_STANDARD, FINITE,
                            "the vector of additive scores (default: ones)"},
    [HGA_TABLE_SOFTCAP] =
        {"softcap", "softcap", EXTENTS(ONE, ONE),
         HGA_CALL_NEEDS_SCORES | HGA_CALL_NO_ENERGY | HGA_CALL_BENDS | HGA_CALL_IS_REFUSED, STANDARD(softcap), 1e-30,
         BOUND, 0, "from 1e-30 to 1e30, or 0 for none",
         "cap scores before biases are added: C tanh(scale q . k / C) (default: the program's, none)"},
    [HGA_TABLE_NORMALISER_BIAS] = {"normaliser_bias", "normaliser-bias", EXTENTS(ONE, ONE),
                                   HGA_CALL_NEEDS_BIAS | HGA_CALL_IS_REFUSED | HGA_CALL_BY_WORD, NO_STANDARD, FINITE,
                                   "B of sigmoids"},
    [HGA_TABLE_LOG_MASS] = {"log_mass", "log-mass", EXTENTS(NODES, ONE),
                            HGA_CALL_GRADIENT | HGA_CALL_OF_GRAPH | HGA_CALL_NEEDS_SCORES, NO_STANDARD, ANY,
                            "every node's log mass in the scores of its edges, added there or not"},
    [HGA_TABLE_EDGE_KEY] = {"edge_key", "edge-key", EXTENTS(EDGES, KEYS),
                            HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES | HGA_CALL_IS_REFUSED, NO_STANDARD, ANY,
                            "added to keys by edge, in canonical order"},
    [HGA_TABLE_EDGE_VALUE] = {"edge_value", "edge-value", EXTENTS(EDGES, COLUMNS),
                              HGA_CALL_GRADIENT | HGA_CALL_NEEDS_SCORES | HGA_CALL_IS_REFUSED, NO_STANDARD, ANY,
                              "features of edges, in canonical order, whose sum with the output's weights is edge_out"},
};

_Static_assert((int)HGA_N_TABLES <= (int)HGA_MAX_TABLES, "hga_io has room for every table");

const hga_call_row *hga_call_tables(void) { return tables; }

static char lined(char c) { return c == '-' ? '_' : c; }

static int is_called(const char *row, const char *name)
{
    while (*row && lined(*name) == *row) row++, name++;
    return !*row && !*name;
}

const hga_call_row *hga_call_table_named(const char *name)
{
    for (const hga_call_row *row = tables; row->name; row++)
        if (is_called(row->name, name)) return row;
    return NULL;
}

const char *hga_extent_name(hga_extent extent)
{
    static const char *const names[HGA_EXTENT_COLUMNS + 1] = {[HGA_EXTENT_ONE] = "1",
                                                              [HGA_EXTENT_DIM] = "dim",
                                                              [HGA_EXTENT_HEADS] = "heads",
                                                              [HGA_EXTENT_HEADS_OR_ONE] = "heads or 1",
                                                              [HGA_EXTENT_POS_DIM] = "columns",
                                                              [HGA_EXTENT_TYPES] = "types",
                                                              [HGA_EXTENT_EDGES] = "edges",
                                                              [HGA_EXTENT_NODES] = "nodes",
                                                              [HGA_EXTENT_KEYS] = "key heads * dim",
                                                              [HGA_EXTENT_COLUMNS] = "features"};
    return names[extent];
}

/* ---- how long ---- */

int64_t hga_call_extent(hga_extent extent, const hga_shape *s, hga_id n_nodes, int64_t n_input)
{
    switch (extent) {
    case HGA_EXTENT_ONE: return 1;
    case HGA_EXTENT_DIM: return s->dim;
    case HGA_EXTENT_HEADS: return s->n_heads;
    case HGA_EXTENT_POS_DIM: return s->pos_dim;
    case HGA_EXTENT_NODES: return n_nodes;
    case HGA_EXTENT_KEYS: return (int64_t)(s->n_kv_heads ? s->n_kv_heads : s->n_heads) * s->dim;
    default: return n_input;
    }
}

int64_t hga_call_entries(hga_call_table which, const hga_shape *s, hga_id n_nodes, const hga_io *io)
{
    const hga_table *t = &io->table[which];
    return hga_call_extent(tables[which].rows, s, n_nodes, t->rows) *
           hga_call_extent(tables[which].columns, s, n_nodes, t->columns);
}

int call_table_is_by_head(hga_call_table which, const hga_io *io)
{
    hga_extent columns = tables[which].columns;
    return tables[which].rows == HGA_EXTENT_HEADS || columns == HGA_EXTENT_HEADS || columns == HGA_EXTENT_KEYS ||
           (columns == HGA_EXTENT_HEADS_OR_ONE && io->table[which].columns > 1);
}

int call_table_is_of_shape(hga_call_table which)
{
    return tables[which].rows == HGA_EXTENT_HEADS || tables[which].rows == HGA_EXTENT_ONE;
}

const char *call_of_edges(const hga_io *io)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (io->table[t].data && tables[t].rows == HGA_EXTENT_EDGES) return tables[t].name;
    return NULL;
}

int call_needs_positions(const hga_io *io)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (io->table[t].data && tables[t].is & HGA_CALL_NEEDS_POSITIONS) return 1;
    return 0;
}

static int call_table_goes_to(hga_call_table which, const hga_stage *s)
{
    if (tables[which].rows != HGA_EXTENT_TYPES) return 0;
    if (tables[which].is & HGA_CALL_NEEDS_SUMS) return s->message == HGA_SCALED;
    return s->query && s->key && s->relation >= 0; /* the caller's own stages have scores, too */
}

int call_table_lacks(hga_call_table which, const hga_stage *s, const hga_io *io, int64_t types)
{
    const hga_table *input = &io->table[which];
    int must_be = input->data || tables[which].is & HGA_CALL_NEEDS_SUMS;
    return must_be && call_table_goes_to(which, s) && (input->data ? input->rows : 0) < types;
}

/* ---- numbers ---- */

float *call_standard(const hga_call_row *row, const hga_program *p)
{
    return row->member ? (float *)(uintptr_t)((const char *)p + row->standard) : NULL;
}

static float standard_of(hga_call_table which, const hga_program *p)
{
    const float *at = call_standard(&tables[which], p);
    return at ? *at : 0;
}

float call_number(hga_call_table which, const hga_program *p, const hga_io *io)
{
    const float *input = io->table[which].data;
    return input ? *input : standard_of(which, p);
}

const hga_call_row *call_standing_plain(const hga_program *p)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (tables[t].is & HGA_CALL_IS_PLAIN && standard_of(t, p) != 0) return &tables[t];
    return NULL;
}

int call_entry_is_fit(const hga_call_row *row, float x)
{
    return ((double)x >= row->least && (double)x <= row->most) || (double)x == row->none;
}

hga_status call_check_standing(const hga_program *p)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        float x = standard_of(t, p);
        if (x != 0 && !call_entry_is_fit(&tables[t], x))
            return hga_fail(HGA_EPROGRAM, "%s %g is not %s", tables[t].member, (double)x, tables[t].numbers);
    }
    return HGA_OK;
}

/* ---- features ---- */

/* The bit of each table present, and of each number that is not 0. */
unsigned call_features(const hga_program *p, const hga_io *io)
{
    static const unsigned flag[HGA_N_TABLES] = {
        [HGA_TABLE_REL_KEY] = CALL_HAS_TYPE_KEYS,     [HGA_TABLE_REL_BIAS] = CALL_HAS_TYPE_BIASES,
        [HGA_TABLE_NODE_POS] = CALL_HAS_POSITIONS,    [HGA_TABLE_SLOPES] = CALL_HAS_SLOPES,
        [HGA_TABLE_EDGE_BIAS] = CALL_HAS_EDGE_BIASES, [HGA_TABLE_SOFTCAP] = CALL_HAS_CAP,
        [HGA_TABLE_EDGE_KEY] = CALL_HAS_EDGE_KEYS,    [HGA_TABLE_EDGE_VALUE] = CALL_HAS_EDGE_VALUES};
    unsigned features = 0;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        int is_number = tables[t].rows == HGA_EXTENT_ONE;
        if (is_number ? call_number(t, p, io) != 0 : io->table[t].data != NULL) features |= flag[t];
    }
    if (call_adds_edge_values(io)) features = (features & ~(unsigned)CALL_HAS_EDGE_VALUES) | CALL_HAS_EDGE_KEYS;
    return features;
}

int call_adds_edge_values(const hga_io *io) { return io->edge_value.data && !io->edge_out.data; }

const hga_call_row *call_row(hga_call_table which) { return &hga_call_tables()[which]; }

int call_has_edges(const hga_io *io) { return call_of_edges(io) != NULL; }
