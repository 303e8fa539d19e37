/* written.c: which rows of each field hold values before and after each stage, as sets of regions. */
#include "regions.h"

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
