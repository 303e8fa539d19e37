/* explain_parts.c: which rows of each stage every NUMA domain computes, and so holds. */
#include "engine.h"
#include "explain_parts.h"

/* What the threads of one domain have of one stage. */
typedef struct part {
    int64_t rows, bytes;         /* in all phases of the stage */
    hga_id first, last, of, all; /* of its largest phase, whose rows are of .. of + all - 1 */
} part;

static int64_t row_bytes(const hga_plan *plan, hga_id stage)
{
    hga_id out = plan->program.stage[stage].out;
    return out < 0 ? 0 : (int64_t)plan->home[out].heads * plan->home[out].columns * (int64_t)sizeof(float);
}

/* Panels [from, to) of a phase that belong to a domain: its threads follow each other. One thread alone is the first. */
static void panels_of(const hga_plan *plan, const phase *ph, hga_id domain, hga_id *from, hga_id *to)
{
    *from = *to = 0;
    for (hga_id t = 0; t < plan->threads; t++) {
        if (plan->domain[ph->alone ? 0 : t] != domain) continue;
        if (*to == *from) *from = ph->share[t];
        *to = ph->share[t + 1];
    }
}

static part part_of(const hga_plan *plan, hga_id stage, hga_id domain)
{
    part p = {0};
    for (int64_t i = 0; i < plan->n_phases; i++) {
        const phase *ph = &plan->phase[i];
        hga_id from, to;
        if (ph->job != JOB_ROWS || ph->stage != stage) continue;
        panels_of(plan, ph, domain, &from, &to);
        int64_t begin = (int64_t)from * ph->panel, end = (int64_t)to * ph->panel < ph->n ? (int64_t)to * ph->panel : ph->n;
        if (end > begin) p.rows += end - begin;
        if (ph->n <= p.all) continue;
        p.of = ph->first, p.all = ph->n;
        p.first = ph->first + (hga_id)begin, p.last = ph->first + (hga_id)end - 1;
    }
    p.bytes = p.rows * row_bytes(plan, stage);
    return p;
}

static int is_scattered(const hga_plan *plan, hga_id stage)
{
    for (int64_t i = 0; i < plan->n_phases; i++)
        if (plan->phase[i].job == JOB_ROWS && plan->phase[i].stage == stage && plan->phase[i].order) return 1;
    return 0;
}

void parts_say(FILE *f, const hga_plan *plan)
{
    hga_id domains = topology_domains(plan->machine);
    fprintf(f, "parts:\n");
    for (hga_id d = 0; d < domains; d++)
        for (hga_id s = 0; s < plan->program.n_stages; s++) {
            part p = part_of(plan, s, d);
            fprintf(f, "  domain %d, stage %d: %lld rows, %.1f kB", d, s + 1, (long long)p.rows, (double)p.bytes / 1e3);
            if (p.rows && p.last >= p.first && !is_scattered(plan, s))
                fprintf(f, "; rows %d to %d of %d to %d", p.first, p.last, p.of, p.of + p.all - 1);
            fputc('\n', f);
        }
}

json_t *parts_json(const hga_plan *plan)
{
    json_t *parts = json_array();
    for (hga_id d = 0; parts && d < topology_domains(plan->machine); d++)
        for (hga_id s = 0; s < plan->program.n_stages; s++) {
            part p = part_of(plan, s, d);
            json_array_append_new(parts, json_pack("{s:i, s:i, s:I, s:I, s:i, s:i}", "domain", (int)d, "stage", (int)s, "rows", (json_int_t)p.rows,
                                                   "bytes", (json_int_t)p.bytes, "first", (int)p.first, "last", (int)p.last));
        }
    return parts;
}
