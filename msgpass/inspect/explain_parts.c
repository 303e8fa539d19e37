/* explain_parts.c: which rows of each stage every NUMA domain computes, and so holds. */
#include "explain_parts.h"
#include "counted.h"
#include "plan.h"

/* The rows of one stage that the threads of one domain compute. */
typedef struct part {
    int64_t rows, bytes;         /* in all phases of the stage */
    hga_id first, last, of, all; /* of its largest phase, whose rows are of .. of + all - 1 */
    int64_t n;                   /* so many of that phase */
} part;

static int64_t written_row_bytes(const hga_plan *plan, hga_id stage)
{
    hga_id out = plan->program.stage[stage].out;
    return !out ? 0
                : (int64_t)plan->fields.storage[out].heads * plan->fields.storage[out].columns * (int64_t)sizeof(float);
}

static int64_t largest_phase(const hga_plan *plan, hga_id stage)
{
    int64_t largest = -1;
    for (int64_t i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        if (runs_stage(ph, stage) && ph->part_of_tree != TREE_ACROSS &&
            (largest < 0 || ph->n > plan->phases.list[largest].n))
            largest = i;
    }
    return largest;
}

/* Adds the panel's rows of the stage; for the stage's largest phase also where they begin and end. */
static void add_panel(const hga_plan *plan, const wave_item *item, hga_id stage, int64_t largest, part *p)
{
    const phase *ph = &plan->phases.list[item->phase];
    if (!runs_stage(ph, stage) || ph->part_of_tree == TREE_ACROSS || item->head_range > 0)
        return; /* rows count with their first heads */
    hga_id begin = item->panel * ph->panel, n = begin + ph->panel < ph->n ? ph->panel : ph->n - begin,
           first = ph->first + begin;
    p->rows += n;
    if (item->phase != largest) return;
    if (!p->n || first < p->first) p->first = first;
    if (!p->n || first + n - 1 > p->last) p->last = first + n - 1;
    p->n += n;
    p->of = ph->first, p->all = ph->n;
}

/* The rows of a stage that the threads of one domain compute, in all waves. */
static part part_of_domain(const hga_plan *plan, hga_id stage, hga_id domain)
{
    const wave_order *waves = &plan->waves;
    int64_t largest = largest_phase(plan, stage);
    part p = {0};
    for (hga_id w = 0; w < waves->n; w++)
        for (hga_id t = 0; t < plan->team.n; t++) {
            if (plan->team.domain[waves->alone ? 0 : t] != domain) continue;
            int64_t list = (int64_t)w * plan->team.n + t;
            for (int64_t i = waves->ptr[list]; i < waves->ptr[list + 1]; i++)
                add_panel(plan, &waves->item[i], stage, largest, &p);
        }
    p.bytes = p.rows * written_row_bytes(plan, stage);
    return p;
}

/* How many rows and bytes of each stage each memory domain has, in words. */
void parts_say(FILE *f, const hga_plan *plan)
{
    hga_id domains = topology_domains(plan->machine.topology);
    fprintf(f, "parts:\n");
    for (hga_id d = 0; d < domains; d++)
        for (hga_id s = 0; s < plan->program.n_stages; s++) {
            part p = part_of_domain(plan, s, d);
            fprintf(f, "  domain %d, stage %d: %s, %.1f kB", d, s + 1, counted(p.rows, "row").text,
                    (double)p.bytes / 1e3);
            if (p.n && p.n == p.all)
                fprintf(f, "; all of %d to %d", p.first, p.last);
            else if (p.n && p.n == (int64_t)p.last - p.first + 1)
                fprintf(f, "; %d to %d of %d to %d", p.first, p.last, p.of, p.of + p.all - 1);
            fputc('\n', f);
        }
}

/* How many rows and bytes of each stage each memory domain has, as JSON. */
json_t *parts_json(const hga_plan *plan)
{
    json_t *parts = json_array();
    for (hga_id d = 0; parts && d < topology_domains(plan->machine.topology); d++)
        for (hga_id s = 0; s < plan->program.n_stages; s++) {
            part p = part_of_domain(plan, s, d);
            json_array_append_new(parts, json_pack("{s:i, s:i, s:I, s:I, s:i, s:i}", "domain", (int)d, "stage", (int)s,
                                                   "rows", (json_int_t)p.rows, "bytes", (json_int_t)p.bytes, "first",
                                                   (int)p.first, "last", (int)p.last));
        }
    return parts;
}
