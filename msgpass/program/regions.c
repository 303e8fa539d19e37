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

/* ---- stage by stage ---- */

/* A stage that starts from the values of level 0 does not write them. */
row_set program_visits(const hga_program *p, const hga_stage *s)
{
    row_set rows = program_row_set(p->field[s->out].rows);
    return program_keeps_tokens(s) ? rows & program_row_set(HGA_ROWS_ABOVE) : rows;
}

row_set program_writes_input(const hga_program *p, hga_id field)
{
    row_set written = 0;
    for (const hga_stage *s = p->stage; s < p->stage + p->n_stages; s++)
        if (s->writes >> field & 1u) written |= program_visits(p, s);
    return written & program_row_set(p->field[field].io);
}

int program_keeps_tokens(const hga_stage *s)
{
    return s->order == HGA_LEVELS_UP && s->value == s->out && program_kind(s) != KIND_USER;
}

void program_values_start(const hga_program *p, program_values *v)
{
    *v = (program_values){{0}};
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_is_input(p->field[f].binding)) v->holds[f] = program_row_set(p->field[f].io);
}

void program_values_after(const hga_program *p, const hga_stage *s, program_values *v)
{
    row_set visited = program_visits(p, s);
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (s->writes >> f & 1u) v->holds[f] |= visited & program_row_set(p->field[f].rows);
}

/* A built-in stage knows where its fields exist. A user's function sees what it reads where it was written: at the
   sources also what the stage itself has written on other levels; at the row what it writes only in finish. */
void program_show(const hga_program *p, const hga_stage *s, const program_values *before, program_shown *to)
{
    program_values after = *before;
    int user = program_kind(s) == KIND_USER;
    uint32_t reads = s->reads | program_fields(s, 1u << ROLE_QUERY | 1u << ROLE_KEY);
    program_values_after(p, s, &after);
    *to = (program_shown){{0}, {0}, {0}};
    for (hga_id f = 1; f <= p->n_fields; f++) {
        row_set exists = program_row_set(p->field[f].rows);
        int read = reads >> f & 1u, written = s->writes >> f & 1u;
        to->source[f] = !user ? exists : read ? after.holds[f] : 0;
        to->row[f] = !user ? exists : read && (!written || f == s->query) ? before->holds[f] : 0;
        to->result[f] = !user || written ? exists : to->row[f];
    }
}
