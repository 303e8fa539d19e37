/* owners.c: which thread owns which rows of the caller's tensors. Tokens are divided in order, so that a thread's rows
   are one run of them; a panel of rows belongs to the thread that owns its first one. */
#include "owners.h"
#include "plan.h"

/* The last phase that writes rows of the output, where these are tokens in their own order. */
static const phase *last_writer(const hga_plan *plan)
{
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    const phase *last = NULL;
    for (int64_t i = 0; out && i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        if (ph->job != JOB_ROWS || ph->by_position || ph->owner || ph->first >= plan->nodes.level_ptr[1]) continue;
        for (hga_id s = ph->stage; s < stages_end(ph); s++)
            if (plan->program.stage[s].writes >> out & 1u) last = ph;
    }
    return last;
}

void owners_meet_panels(hga_plan *plan)
{
    const phase *ph = last_writer(plan);
    hga_id *token = plan->waves.token, n = plan->nodes.level_ptr[1];
    for (hga_id t = 1; ph && t < plan->team.n; t++) {
        int64_t at = token[t] <= ph->first ? 0 : token[t] - ph->first;
        int64_t begin = ph->first + (at + ph->panel - 1) / ph->panel * ph->panel;
        if (token[t] > ph->first && token[t] < ph->first + ph->n) token[t] = begin < n ? (hga_id)begin : n;
    }
}

/* Divides n rows in proportion to the tokens, or to the queries where they are as many as these or the keys. */
void owned_rows(const hga_plan *plan, hga_id thread, int64_t n, int64_t *first, int64_t *end)
{
    const hga_nodes *nodes = &plan->nodes;
    const hga_id *token = plan->waves.token + thread;
    int64_t all = nodes->level_ptr[1], from = 0;
    if (n == nodes->n_queries || n == nodes->n_keys) from = nodes->query_first, all = nodes->n_queries;
    for (int i = 0; i < 2; i++) {
        int64_t at = token[i] < from ? 0 : token[i] - from > all ? all : token[i] - from;
        *(i ? end : first) = thread + i == plan->team.n ? n : all ? at * n / all : 0;
    }
    if (thread == 0) *first = 0;
}

/* The thread's rows of one level among the caller's io_n rows from io_first on; 0: it has none. */
int owned_of_level(const hga_plan *plan, hga_id thread, hga_id level, hga_id io_first, hga_id io_n, hga_id *first,
                   hga_id *end)
{
    const hga_id *ptr = plan->nodes.level_ptr;
    int64_t a = ptr[level] - (int64_t)io_first, b = ptr[level + 1] - (int64_t)io_first, from, to;
    if (a < 0) a = 0;
    if (b > io_n) b = io_n;
    if (a >= b) return 0;
    owned_rows(plan, thread, b - a, &from, &to);
    *first = (hga_id)(a + from), *end = (hga_id)(a + to);
    return *first < *end;
}

/* ---- queries ---- */

hga_status owned_field(const hga_plan *plan, hga_binding of, hga_id *field)
{
    *field = plan && of > HGA_INTERNAL && of < HGA_IO_USER ? program_bound(&plan->program, of) : 0;
    if (!plan) return hga_fail(HGA_EINVAL, "no plan");
    if (plan_is_shared(plan))
        return hga_fail(HGA_EUNSUPPORTED, "threads have rows of their own of one process' tensors alone");
    return *field ? HGA_OK : hga_fail(HGA_EINVAL, "the program has no tensor of binding %d", (int)of);
}

hga_status hga_plan_rows(const hga_plan *plan, hga_binding of, hga_id thread, int64_t *first, int64_t *n)
{
    hga_id f, levels = 0, a = 0, b = 0;
    hga_status st = owned_field(plan, of, &f);
    if (st) return st;
    if (!first || !n) return hga_fail(HGA_EINVAL, "nowhere to put a thread's rows");
    if (thread < 0 || thread >= plan->team.n)
        return hga_fail(HGA_EINVAL, "thread %d of %d does not exist", thread, plan->team.n);
    const field_storage *h = &plan->fields.storage[f];
    *first = *n = 0;
    for (hga_id l = 0; l < plan->nodes.n_levels; l++) {
        hga_id begin = plan->nodes.level_ptr[l], end = plan->nodes.level_ptr[l + 1];
        if (begin >= h->io_first + h->io_n || end <= h->io_first || begin == end) continue;
        if (levels++)
            return hga_fail(HGA_EUNSUPPORTED, "rows of field %s are of several levels, and a thread has some of each",
                            plan->program.field[f].name);
        if (owned_of_level(plan, thread, l, h->io_first, h->io_n, &a, &b)) *first = a, *n = b - a;
    }
    return HGA_OK;
}
