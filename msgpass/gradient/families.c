/* families.c: the call that goes by families: who does, memory, threads. */
#include "families.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* ---- who goes this way ---- */

static int is_coarsened(const hga_plan *plan, hga_id stage, hga_binding input)
{
    const hga_stage *s = &plan->program.stage[stage];
    stage_kind kind = plan->stage[stage].kind;
    return (kind == KIND_MEAN || kind == KIND_SUM) && s->relation == HGA_TREE_UP && s->value == s->out &&
           plan->program.field[s->out].binding == input;
}

/* Are the caller's rows of a field those of the tokens, and has every node one? */
static int is_of_tokens(const hga_plan *plan, hga_id field)
{
    hga_id first, n = field_io(plan, field, &first);
    return first == 0 && n == plan->nodes.level_ptr[1] && plan->program.field[field].rows == HGA_ROWS_NODES;
}

/* Where the stages are. */
typedef struct family_stages {
    hga_id coarsen[G], attend, energy, descend;
} family_stages;

/* Draws of dropout look at an edge's type, of which families know nothing. */
static int has_types(const hga_plan *plan, hga_id stage) { return plan->stage[stage].relation.n_types > 1; }

/* Three fields are coarsened, attended to, and the states handed down. */
static int find_stages(const hga_plan *plan, family_stages *at)
{
    static const hga_binding inputs[G] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE};
    const hga_stage *s = plan->program.stage;
    *at = (family_stages){.coarsen = {-1, -1, -1}, .attend = G, .energy = G + 1, .descend = G + 2};
    if (plan->program.n_stages != G + 3 || plan->stage[G].kind != KIND_ATTEND ||
        plan->stage[G + 1].kind != KIND_ENERGY || plan->stage[G + 2].kind != KIND_DESCEND)
        return 0;
    for (hga_id i = 0; i < G; i++)
        for (int f = 0; f < G; f++)
            if (is_coarsened(plan, i, inputs[f])) at->coarsen[f] = i;
    const hga_stage *attend = &s[at->attend], *energy = &s[at->energy], *descend = &s[at->descend];
    int found = energy->relation == HGA_TREE_UP && descend->relation == HGA_TREE_DOWN;
    found &= energy->value == attend->out && descend->value == attend->out && descend->gate == energy->out;
    found &= plan->program.field[attend->out].rows == HGA_ROWS_NODES && is_of_tokens(plan, descend->out);
    const hga_id read[G] = {attend->query, attend->key, attend->value};
    for (int f = 0; f < G && found; f++)
        found = at->coarsen[f] >= 0 && s[at->coarsen[f]].out == read[f] && is_of_tokens(plan, read[f]) &&
                !storage_is_rounded(plan, read[f]);
    return found && plan->program.field[descend->out].binding == HGA_IO_OUT &&
           plan->program.field[energy->out].rows == HGA_ROWS_NODES && plan->shape.n_heads <= KERNEL_HEADS &&
           !(plan->options.dropout > 0 && has_types(plan, at->attend)) && !plan->options.generic;
}

/* Nothing but positions is known of any pair. */
static int call_is_known(const gradient_call *c)
{
    const hga_io *io = c->io;
    return !io->rel_key && !io->rel_bias && !io->edge_bias && numbers_are_floats(c);
}

/* ---- memory ---- */

/* Every array; floats in all. */
static int64_t lay_out(families *f, family_lane *lane, hga_id threads, float *memory)
{
    const family_order *o = &f->order;
    carver room = {.base = memory};
    int64_t places = o->nodes.child_ptr[o->n_above], above = (int64_t)o->n_above * f->heads;
    for (int i = 0; i < N_COARSE; i++) f->x[i].above = carve_floats(&room, o->n_above * f->x[i].row);
    for (int i = 0; i < G; i++)
        if (f->d[i].io) f->d[i].above = carve_floats(&room, o->n_top_slots * f->d[i].row);
    f->bias = carve_floats(&room, places);
    f->lse = carve_floats(&room, places * f->heads), f->mean = carve_floats(&room, places * f->heads);
    f->psi = carve_floats(&room, above), f->inside = carve_floats(&room, above), f->keep = carve_floats(&room, above),
    f->d_psi = carve_floats(&room, above);
    for (hga_id t = 0; t < threads; t++) {
        family_lane l = {0};
        for (int i = 0; i < G; i++)
            if (f->d[i].io) l.slots[i] = carve_floats(&room, o->n_slots * f->d[i].row);
        float **scalars[] = {&l.psi, &l.mine, &l.rest, &l.given, &l.delta};
        for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) *scalars[i] = carve_floats(&room, FAMILY_SCALARS);
        if (f->node_pos) l.pair = carve_floats(&room, FAMILY_PAIRS), l.d_pair = carve_floats(&room, FAMILY_PAIRS);
        if (lane) lane[t] = l;
    }
    return carved_floats(&room);
}

static family_rows rows_of(const gradient_call *c, hga_id field, const hga_tensor *t)
{
    hga_id heads = field_heads(c->plan, field), columns = field_columns(c->plan, field);
    return (family_rows){.io = t->data,
                         .io_row = t->row_stride ? t->row_stride : (ptrdiff_t)heads * columns,
                         .io_head = t->head_stride ? t->head_stride : columns,
                         .heads = heads,
                         .columns = columns,
                         .head = padded(columns),
                         .row = (ptrdiff_t)heads * padded(columns)};
}

static void find_fields(families *f, const family_stages *at)
{
    const hga_program *p = &f->plan->program;
    for (int i = 0; i < G; i++) {
        const hga_stage *s = &p->stage[at->coarsen[i]];
        const hga_tensor *wanted = field_gradient(f->call, s->out);
        f->x[i] = rows_of(f->call, s->out, field_tensor(f->call, s->out));
        f->x[i].mean = s->reduce == HGA_MEAN, f->x[i].by_mass = f->x[i].mean && s->by_mass;
        f->d[i] = rows_of(f->call, s->out, wanted);
    }
    f->x[G] = rows_of(f->call, p->stage[at->descend].out, &f->call->grad->d_out);
}

/* ---- the pass ---- */

static void fill_biases(families *f, int by_mass)
{
    const family_order *o = &f->order;
    for (hga_id i = 0; i < o->nodes.child_ptr[o->n_above]; i++)
        f->bias[i] = by_mass ? (float)(log((double)o->nodes.mass[member_at(o, i)]) / log(2)) : 0;
}

/* Nothing passes by a root, and nothing is asked of its energy; a lone token has no gradient. */
static void start_at_roots(families *f)
{
    const family_order *o = &f->order;
    for (hga_id v = o->base; v < o->nodes.n; v++)
        for (hga_id h = 0; h < f->heads && o->nodes.parent[v] < 0; h++)
            f->keep[(ptrdiff_t)(v - o->base) * f->heads + h] = 1, f->d_psi[(ptrdiff_t)(v - o->base) * f->heads + h] = 0;
    for (hga_id v = 0; v < o->base && !f->call->grad->accumulate; v++)
        for (int i = 0; i < G && o->nodes.parent[v] < 0; i++)
            for (hga_id h = 0; f->d[i].io && h < f->d[i].heads; h++)
                memset(f->d[i].io + v * f->d[i].io_row + h * f->d[i].io_head, 0,
                       (size_t)f->d[i].columns * sizeof(float));
}

static void go_up(families *f, hga_id share, const family_lane *l)
{
    for (hga_id i = f->order.share[share].first; i < f->order.share[share].end; i++) family_up(f, f->order.up[i], l);
}

static void go_down(families *f, hga_id share, const family_lane *l)
{
    family_share *s = &f->order.share[share];
    family_lane one = *l;
    one.d_scale = f->call->sums[0].of[SCALE] ? &s->d_scale : NULL;
    for (hga_id i = s->first; i < s->end; i++) family_down(f, f->order.down[i], &one);
}

/* Shares side by side up to the families above them all, those, and shares side by side on the way down. */
static void run(families *f, const family_lane *lane, hga_id threads)
{
    hga_id last = f->order.n_shares - 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const family_lane *l = &lane[threads > 1 ? omp_get_thread_num() : 0];
#pragma omp for schedule(dynamic, 1)
        for (hga_id i = 0; i < last; i++) go_up(f, i, l);
#pragma omp single
        go_up(f, last, l), go_down(f, last, l);
#pragma omp for schedule(dynamic, 1)
        for (hga_id i = 0; i < last; i++) go_down(f, i, l);
    }
    double *d_scale = f->call->sums[0].of[SCALE];
    for (hga_id i = 0; d_scale && i <= last; i++) *d_scale += f->order.share[i].d_scale;
}

hga_status families_gradient(gradient_call *c, hga_workspace *workspace, int *known)
{
    hga_status st = HGA_OK;
    family_stages at;
    families f = {.call = c, .plan = c->plan, .heads = c->plan->shape.n_heads, .node_pos = c->io->node_pos};
    family_lane *lane = NULL;
    hga_id threads = c->threads;
    void *memory;
    *known = call_is_known(c) && find_stages(c->plan, &at);
    if (!*known) return HGA_OK;
    HGA_TRY(
        order_create(c->plan, c->plan->program.stage[at.attend].relation, c->io->node_pos != NULL, &f.order, known));
    if (!*known) goto done;
    find_fields(&f, &at);
    HGA_TRY(hga_new_zero(&c->plan->given, threads, sizeof *lane, &lane));
    HGA_TRY(workspace_spare(workspace, lay_out(&f, NULL, threads, NULL) * (int64_t)sizeof(float), &memory));
    lay_out(&f, lane, threads, memory);
    f.draw = (kernel_draw){c->io->seed, c->io->layer, c->plan->options.dropout};
    f.d_log_mass = c->sums[0].of[LOG_MASS], f.d_node_pos = c->sums[0].of[NODE_POS];
    fill_biases(&f, c->plan->program.stage[at.attend].by_mass);
    start_at_roots(&f);
    run(&f, lane, threads);
done:
    hga_delete(&c->plan->given, lane, threads, sizeof *lane);
    order_clear(&f.order);
    return st;
}

int64_t families_bytes(const hga_plan *plan)
{
    family_stages at;
    int known = find_stages(plan, &at);
    float wanted;
    hga_tensor t = {.data = &wanted};
    hga_io io = {0};
    hga_grad_io grad = {.d_query = t, .d_key = t, .d_value = t};
    gradient_call c = {.plan = plan, .io = &io, .grad = &grad};
    families f = {.call = &c, .plan = plan, .heads = plan->shape.n_heads};
    int64_t bytes = -1;
    if (!known) return -1;
    if (!order_create(plan, plan->program.stage[at.attend].relation, 0, &f.order, &known) && known) {
        find_fields(&f, &at);
        bytes = lay_out(&f, NULL, plan->threads, NULL) * (int64_t)sizeof(float) +
                plan->nodes.n * (int64_t)sizeof *f.order.columns + 3 * f.order.n_above * (int64_t)sizeof(hga_id);
    }
    order_clear(&f.order);
    return bytes;
}
