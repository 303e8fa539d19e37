/* gradient.c: the call. What it is given is checked before anything is written; then every key/value head is a pass. */
#include "fast.h"
#include "families.h"
#include "linear.h"
#include "scattered.h"

/* ---- fields and tensors ---- */

int numbers_are_floats(const gradient_call *c)
{
    for (hga_id f = 1; f <= c->plan->program.n_fields; f++) {
        const hga_tensor *t = field_tensor(c, f);
        if (t && (t->dtype != HGA_F32 || field_gradient(c, f)->dtype != HGA_F32)) return 0;
    }
    return 1;
}

/* ---- who computes ---- */

/* The gradients head by head, in double. */
static hga_status run_plain(const gradient_call *c)
{
    hga_status st = HGA_OK;
    for (hga_id kv = 0; !st && kv < c->plan->shape.n_kv_heads; kv++) st = plain_gradient(c, kv);
    return st;
}

/* Query heads go by themselves where that costs little, so that threads have something to share out: where each would
   bring keys and values anew in any case, and a sum loses nothing when it is put down in between. */
static hga_id find_turns(const gradient_call *c)
{
    const hga_shape *s = &c->plan->shape;
    int apart = subtrees_may_be(c->plan) && c->grad->d_key.dtype == HGA_F32 && c->grad->d_value.dtype == HGA_F32;
    for (int i = 0; i < HGA_MAX_USER_TENSORS; i++) apart &= c->grad->d_user[i].dtype == HGA_F32;
    return apart ? s->n_heads : s->n_kv_heads;
}

hga_id fast_turns(const gradient_call *c) { return c->subtrees->n ? c->turns : c->plan->shape.n_kv_heads; }

/* How many of them go side by side, each one thread's from beginning to end; on the rest all threads go together,
   strip by strip, where there are strips. */
static hga_id turns_apart(const gradient_call *c, hga_id threads)
{
    hga_id turns = fast_turns(c);
    int cut = 0;
    for (hga_id s = 0; s < c->plan->program.n_stages; s++) cut |= c->strips[s].n > 1;
    return cut ? turns / threads * threads : turns;
}

static hga_status list_stage(const hga_plan *plan, hga_id stage, int64_t bytes, row_list *out)
{
    edge_rows rows = {0};
    rows_open(&rows, plan, stage);
    hga_status st = edges_list(&rows, plan->program.field[plan->program.stage[stage].out].rows, bytes, out);
    edges_close(&rows);
    return st;
}

/* Rows of stages that go row by row, while a sixteenth of the tensors' bytes is enough for each. */
static hga_status list_stages(gradient_call *c)
{
    hga_status st = HGA_OK;
    const hga_plan *plan = c->plan;
    const hga_shape *shape = &plan->shape;
    int64_t bytes = (int64_t)plan->nodes.n * shape->n_heads * (shape->dim + shape->dim_v) * (int64_t)sizeof(float) / 4;
    HGA_TRY(hga_new_zero(&plan->given, HGA_MAX_STAGES, sizeof *c->lists, &c->lists));
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (kind_attends(plan->stage[s].kind) ? has_energies(&plan->program, plan->program.stage[s].out)
                                              : !is_of_children(&plan->program.stage[s]))
            HGA_TRY(list_stage(plan, s, bytes, &c->lists[s]));
done:
    return st;
}

/* Where rows are cut: subtrees, or the rows of each stage that attends. */
static hga_status cut_stages(gradient_call *c)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(&c->plan->given, HGA_MAX_STAGES, sizeof *c->strips, &c->strips));
    HGA_TRY(hga_new_zero(&c->plan->given, 1, sizeof *c->subtrees, &c->subtrees));
    HGA_TRY(subtrees_create(c->plan, c->subtrees));
    const subtrees *trees = c->subtrees->n ? c->subtrees : NULL;
    for (hga_id s = 0; s < c->plan->program.n_stages; s++)
        if (trees ? s == trees->last_attended : kind_attends(c->plan->stage[s].kind))
            HGA_TRY(strips_create(c->plan, s, trees, fast_turns(c), &c->strips[s]));
    if (!trees) HGA_TRY(departures_create(c, &c->departures));
    if (c->plan->shape.n_heads > 1 && !trees) HGA_TRY(list_stages(c));
done:
    return st;
}

static void clear_stages(gradient_call *c)
{
    for (hga_id s = 0; c->strips && s < c->plan->program.n_stages; s++) strips_clear(c->plan, &c->strips[s]);
    for (hga_id s = 0; c->lists && s < c->plan->program.n_stages; s++)
        edges_unlist(c->plan->graph, &c->plan->given, &c->lists[s]);
    departures_clear(c->plan, &c->departures);
    if (c->subtrees) subtrees_clear(c->plan, c->subtrees);
    hga_delete(&c->plan->given, c->subtrees, 1, sizeof *c->subtrees);
    hga_delete(&c->plan->given, c->strips, HGA_MAX_STAGES, sizeof *c->strips);
    hga_delete(&c->plan->given, c->lists, HGA_MAX_STAGES, sizeof *c->lists);
    c->strips = NULL, c->lists = NULL, c->subtrees = NULL;
}

/* The threads of a call: what each has for itself, and passes, one for each turn that goes side by side. */
typedef struct crew {
    hga_id threads, passes, apart;
    lane *lane;
    fast_pass *pass;
} crew;

/* Turns side by side take about twice the memory of the tensors and their gradients at most: where several query heads
   read one key/value head there is less of these. */
static crew crew_of(const gradient_call *c)
{
    hga_id threads = c->threads, apart = turns_apart(c, threads),
           most = (c->plan->shape.n_heads + c->plan->shape.n_kv_heads + 1) / 2, passes = threads;
    if (passes > apart) passes = apart > 1 ? apart : 1;
    if (passes > most) passes = most;
    return (crew){.threads = apart == fast_turns(c) ? passes : threads, .passes = passes, .apart = apart};
}

static int64_t crew_bytes(const gradient_call *c, const crew *all)
{
    return (all->passes * fast_floats(c) + all->threads * lane_floats(c)) * (int64_t)sizeof(float);
}

static hga_status crew_create(const gradient_call *c, hga_workspace *workspace, crew *all)
{
    hga_status st = HGA_OK;
    void *memory;
    struct panel **panel;
    HGA_TRY(hga_new_zero(&c->plan->given, all->threads, sizeof *all->lane, &all->lane));
    HGA_TRY(hga_new_zero(&c->plan->given, all->passes, sizeof *all->pass, &all->pass));
    HGA_TRY(workspace_spare(workspace, crew_bytes(c, all), &memory));
    HGA_TRY(keep_panels(c, workspace, all->threads, &panel));
    float *at = memory;
    for (hga_id t = 0; t < all->threads; t++, at += lane_floats(c))
        HGA_TRY(lane_create(c, at, panel[t], &all->lane[t]));
    for (hga_id t = 0; t < all->passes; t++, at += fast_floats(c)) {
        fast_create(c, at, &all->lane[t], all->passes == 1 ? all->threads : 1, &all->pass[t]);
        all->pass[t].turns = (turn_walk){t, all->passes, all->apart};
    }
done:
    return st;
}

static void crew_clear(const gradient_call *c, crew *all)
{
    for (hga_id t = 0; all->pass && t < all->passes; t++) fast_destroy(&all->pass[t]);
    for (hga_id t = 0; all->lane && t < all->threads; t++) lane_destroy(c, &all->lane[t]);
    hga_delete(&c->plan->given, all->pass, all->passes, sizeof *all->pass);
    hga_delete(&c->plan->given, all->lane, all->threads, sizeof *all->lane);
}

/* A key/value head is one turn: turns share nothing but tables. */
static void go_apart(const crew *all)
{
#pragma omp parallel for num_threads(all->passes) schedule(static, 1) if (all->passes > 1)
    for (hga_id t = 0; t < all->passes; t++)
        for (hga_id turn = t; turn < all->apart && !all->pass[t].status; turn += all->passes) {
            all->pass[t].status = fast_gradient(&all->pass[t], turn);
            if (!all->pass[t].status) all->pass[t].status = fast_end(&all->pass[t]);
        }
}

/* It is several: what they give it is added in their order. */
static void go_in_order(const crew *all)
{
#pragma omp parallel for ordered num_threads(all->passes) schedule(static, 1) if (all->passes > 1)
    for (hga_id turn = 0; turn < all->apart; turn++) {
        fast_pass *p = &all->pass[turn % all->passes];
        if (!p->status) p->status = fast_gradient(p, turn);
#pragma omp ordered
        if (!p->status) p->status = fast_end(p);
    }
}

/* Which thread takes which turn or strip changes nothing: sums of tables are kept apart and added in the order of the
   turns, and strips are added in their own. */
static hga_status run_fast(gradient_call *c, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    crew all = {0};
    HGA_TRY(cut_stages(c));
    all = crew_of(c);
    HGA_TRY(crew_create(c, workspace, &all));
    (fast_turns(c) == c->plan->shape.n_kv_heads ? go_apart : go_in_order)(&all);
    for (hga_id t = 0; t < all.passes; t++) /* said by another thread */
        if (all.pass[t].status) HGA_TRY(hga_fail(all.pass[t].status, "the gradient's rows found no memory"));
    all.pass[0].n_lanes = all.threads, all.pass[0].turns = (turn_walk){all.apart, 1, fast_turns(c)};
    for (hga_id turn = all.apart; turn < fast_turns(c); turn++)
        if (fast_gradient(&all.pass[0], turn) || fast_end(&all.pass[0]))
            HGA_TRY(hga_fail(HGA_ENOMEM, "the gradient's rows found no memory"));
done:
    if (st) workspace_forget(workspace); /* what was being found is not whole */
    crew_clear(c, &all);
    clear_stages(c);
    return st;
}

/* Ways with all heads together, where a program, its graph and a call's tensors are as they know them. */
static const struct {
    const char *name;
    hga_status (*run)(gradient_call *c, hga_workspace *workspace, int *known);
    int64_t (*bytes)(const hga_plan *plan); /* -1: not of the kind */
} ways[] = {
    {"a family of siblings at a time, all heads together", families_gradient, families_bytes},
    {"row by row and source by source, all heads together", scattered_gradient, scattered_bytes},
    {"sums from end to end, all heads together", linear_gradient, linear_bytes},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* The first that knows all, else a head at a time. */
static hga_status run_in_float(gradient_call *c, hga_workspace *workspace)
{
    int known = 0;
    hga_status st = c->threads > 1 ? threads_prepare(c->threads) : HGA_OK;
    for (int i = 0; i < WAYS && !st && !known; i++) st = ways[i].run(c, workspace, &known);
    return st || known ? st : run_fast(c, workspace);
}

int gradient_is_plain(const hga_plan *plan, const char **why)
{
    *why = plan->options.generic ? "asked for" : NULL;
    if (program_normaliser(&plan->program) != HGA_NORMALISER_SOFTMAX) *why = "another normaliser than softmax";
    uint32_t read = 0;
    for (hga_id s = 0; s < plan->program.n_stages && !*why; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        stage_kind kind = plan->stage[s].kind;
        if (kind == KIND_USER) *why = "functions of the caller's own";
        if ((kind == KIND_ENERGY || kind == KIND_DESCEND) && !energies_are_simple(plan)) *why = "energies";
        if (plan->stage[s].strays) *why = "blocks with columns of nodes that have no rows";
        if (kind_sums(kind) && read >> stage->out & 1u) *why = "a field is written again after it was attended to";
        if (!kind_sums(kind) || kind == KIND_WEIGHTED_SUM) read |= stage->reads;
    }
    return *why != NULL;
}

const char *hga_plan_gradient_plain(const hga_plan *plan)
{
    const char *why;
    return gradient_is_plain(plan, &why) ? why : NULL;
}

/* Bytes of the fast way when every gradient is wanted; -1 when there is no memory to find out. */
static int64_t fast_bytes(const hga_plan *plan)
{
    float wanted;
    hga_tensor t = {.data = &wanted};
    hga_grad_io all = {.d_query = t, .d_key = t, .d_value = t};
    for (int i = 0; i < HGA_MAX_USER_TENSORS; i++) all.d_user[i] = t;
    hga_io none = {0};
    gradient_call c = {.plan = plan, .io = &none, .grad = &all, .threads = plan->threads};
    int64_t bytes = -1;
    c.turns = find_turns(&c);
    if (!cut_stages(&c)) {
        crew everybody = crew_of(&c);
        bytes = crew_bytes(&c, &everybody) + everybody.threads * panel_bytes(plan);
    }
    clear_stages(&c);
    return bytes;
}

int64_t hga_plan_gradient_bytes(const hga_plan *plan)
{
    const char *why;
    if (!plan->options.gradient) return 0;
    if (gradient_is_plain(plan, &why)) return plain_bytes(plan);
    int64_t bytes = -1;
    for (int i = 0; i < WAYS && bytes < 0; i++) bytes = ways[i].bytes(plan);
    return bytes < 0 ? fast_bytes(plan) : bytes;
}

const char *hga_plan_gradient_way(const hga_plan *plan)
{
    const char *why;
    if (gradient_is_plain(plan, &why)) return "row by row in double";
    for (int i = 0; i < WAYS; i++)
        if (ways[i].bytes(plan) >= 0) return ways[i].name;
    return "a head at a time";
}

static gradient_call call_of(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad)
{
    return (gradient_call){.plan = plan,
                           .io = io,
                           .grad = grad,
                           .scale = meaning_scale(&plan->program, &plan->shape, io),
                           .threads = threads_allowed(plan->threads)};
}

hga_status gradient_begin(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, gradient_call *c)
{
    *c = call_of(plan, io, grad);
    return call_check(c);
}

hga_status gradient_go(gradient_call *c, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    const hga_plan *plan = c->plan;
    const char *why;
    int plain = gradient_is_plain(plan, &why);
    const hga_grad_io *wanted = c->grad;
    hga_grad_io own = {0}, read = *wanted;
    unread_take_out(plan, &read), c->grad = &read;
    HGA_TRY(range_open(c, &own));
    c->turns = plain ? plan->shape.n_kv_heads : find_turns(c);
    HGA_TRY(tables_create(c));
    HGA_TRY(plain ? run_plain(c) : run_in_float(c, workspace));
    tables_store(c);
    unread_store(plan, wanted);
done:
    range_close(c, &own);
    tables_clear(c);
    c->grad = wanted;
    return st;
}

hga_status hga_plan_gradient(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, const hga_grad_io *grad)
{
    if (!plan || !workspace || !io || !grad)
        return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspace ? "workspace" : !io ? "tensors" : "gradients");
    gradient_call c;
    hga_status st = gradient_begin(plan, io, grad, &c);
    return st ? st : gradient_go(&c, workspace);
}

hga_status hga_plan_loss(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, hga_gradient_input input,
                         int64_t entry, double by, double *loss)
{
    if (!plan || !io || !grad || !loss)
        return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !io ? "tensors" : !grad ? "gradients" : "loss");
    if (plan->options.precision != HGA_PRECISION_F32)
        return hga_fail(HGA_EUNSUPPORTED, "operands rounded to bfloat16 have no slope");
    if (!plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    hga_status st = HGA_OK;
    hga_grad_io own = {0};
    gradient_call c = call_of(plan, io, grad);
    c.moved = (nudge){input, entry, by};
    HGA_TRY(call_check_loss(&c));
    HGA_TRY(range_open(&c, &own));
    *loss = 0;
    for (hga_id kv = 0; kv < plan->shape.n_kv_heads; kv++) {
        double part;
        HGA_TRY(plain_loss(&c, kv, &part));
        *loss += part;
    }
done:
    range_close(&c, &own);
    return st;
}
