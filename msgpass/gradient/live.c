/* live.c: the stages that count: what they compute is read, perhaps by others that are, on the way to the output. The
   others have an adjoint of zero, and no backward pass needs them: another output of the caller's, a state that nobody
   goes on with, a mean that a later one makes anew. */
#include "ways.h"

/* Regions of each field whose rows are read behind the stage at hand. */
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

/* Does it write every row of its field that it visits, whatever was there? */
static int replaces(const hga_stage *s) { return s->update == HGA_REPLACE; }

/* Before a stage that counts: what it writes need not be there, what it reads must. Where it reads what it writes it
   goes level by level, and has written those rows before. */
static void step_back(const hga_program *p, const hga_stage *s, live_rows *live)
{
    row_set visited = program_visits(p, s);
    if (replaces(s)) live->of[s->out] &= (row_set)~visited;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        int in_place = f == s->out && replaces(s);
        if (s->reads >> f & 1u) live->of[f] |= in_place ? (row_set)~visited : (row_set)~0;
    }
}

/* From the last stage back: bit s says that the output depends on stage s. */
static uint32_t live_stages(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
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

/* The other stages leave the plan's program, and those that stay move up. */
void keep_live_stages(hga_plan *plan)
{
    uint32_t counting = live_stages(plan);
    hga_id n = 0, biased = -1;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        if (!(counting >> s & 1u)) continue;
        if (s == plan->bias_stage) biased = n;
        plan->program.stage[n] = plan->program.stage[s], plan->stage[n] = plan->stage[s], n++;
    }
    plan->program.n_stages = n, plan->bias_stage = biased;
}

int field_is_used(const hga_program *p, hga_id field)
{
    uint32_t used = 0;
    for (hga_id s = 0; s < p->n_stages; s++) used |= p->stage[s].reads | p->stage[s].writes;
    return (int)(used >> field & 1u);
}
