/* live.c: the live stages, on which the output depends. */
#include "regions.h"

/* Regions of each field whose rows are read after the current stage. */
typedef struct live_rows {
    row_set of[HGA_FIELD_SLOTS];
} live_rows;

static int is_live(const hga_program *p, const hga_stage *s, const live_rows *live)
{
    row_set visited = program_visits(p, s);
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (s->writes >> f & 1u && live->of[f] & visited & program_row_set(p->field[f].rows)) return 1;
    return 0;
}

/* Whether it overwrites every row of its field that it visits. */
static int replaces(const hga_stage *s) { return s->update == HGA_REPLACE; }

/* The live rows before a live stage: not those that it overwrites, but those that it reads. A stage in place runs level
   by level, and has written the rows that it reads. */
static void step_back(const hga_program *p, const hga_stage *s, live_rows *live)
{
    row_set visited = program_visits(p, s);
    if (replaces(s)) live->of[s->out] &= (row_set)~visited;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        int in_place = f == s->out && replaces(s);
        if (s->reads >> f & 1u) live->of[f] |= in_place ? (row_set)~visited : (row_set)~0;
    }
}

/* From the last stage backwards: bit s is set when the output depends on stage s. */
uint32_t hga_program_live(const hga_program *p)
{
    live_rows live = {{0}};
    uint32_t counting = 0;
    hga_id out = program_bound(p, HGA_IO_OUT);
    live.of[out] = program_row_set(p->field[out].io);
    for (hga_id s = p->n_stages; s-- > 0;) {
        const hga_stage *stage = &p->stage[s];
        if (!is_live(p, stage, &live)) continue;
        counting |= UINT32_C(1) << s;
        step_back(p, stage, &live);
    }
    return counting;
}
