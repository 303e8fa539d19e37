/* plan.c: graph + program + shape + options -> plan. Everything that can be wrong is found here, so that executing
   cannot fail on it. */
#include "call_lists.h"
#include "by_columns.h"
#include "interrupt.h"
#include "longer.h"
#include "panels.h"
#include "partition.h"
#include "program_check.h"
#include "regions.h"
#include "thread_binding.h"

#include <string.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
const char *hga_version(void)
{
    return TEXT(HGA_VERSION_MAJOR) "." TEXT(HGA_VERSION_MINOR) "." TEXT(HGA_VERSION_PATCH) HGA_VERSION_STAGE;
}

/* Fills in the shape's defaults, and refuses rows that cannot exist. */
static hga_status check_shape(hga_shape *s)
{
    if (s->n_kv_heads == 0) s->n_kv_heads = s->n_heads;
    if (s->dim_v == 0) s->dim_v = s->dim;
    if (s->n_heads < 1 || s->n_kv_heads < 1)
        return hga_fail(HGA_EINVAL, "the shape has %d heads and %d key/value heads; at least 1 is needed", s->n_heads,
                        s->n_kv_heads);
    if (s->n_heads % s->n_kv_heads)
        return hga_fail(HGA_EINVAL, "%d key/value heads do not divide %d heads", s->n_kv_heads, s->n_heads);
    if (s->dim < 1 || s->dim_v < 1 || s->pos_dim < 0)
        return hga_fail(HGA_EINVAL, "the shape has dim %d, dim_v %d, pos_dim %d; at least 1, 1 and 0 are needed",
                        s->dim, s->dim_v, s->pos_dim);
    int64_t row = (int64_t)s->n_heads * ((int64_t)(s->dim > s->dim_v ? s->dim : s->dim_v) + KERNEL_PAD);
    if (row > INT32_MAX / 8)
        return hga_fail(HGA_EOVERFLOW, "%d heads of %d and %d columns do not fit a row", s->n_heads, s->dim, s->dim_v);
    return HGA_OK;
}

/* Chooses the plan's kernels, number of threads, and their processors. */
static hga_status choose_machine(hga_plan *plan)
{
    hga_status st = HGA_OK;
    const hga_options *o = &plan->options;
    if (o->threads < 0 || o->threads > 4096) return hga_fail(HGA_EINVAL, "threads is %d, not in 0 .. 4096", o->threads);
    HGA_TRY(isa_kernels(o->isa, &plan->machine.kernels));
    HGA_TRY(isa_tuning(&plan->machine.tuning));
    HGA_TRY(topology_open(o->topology, &plan->machine.topology));
    plan->team.n = isa_threads(o->threads, plan->machine.topology);
    HGA_TRY(binding_choose(plan));
done:
    return st;
}

/* Whether rows are strict: as the options say, or since later tokens must not change the bits of earlier rows. */
static int rows_are_strict(const hga_plan *plan)
{
    return plan->options.strict_rows || graph_keeps_positions(plan->graph);
}

/* Sets what the plan knows of each stage before rows are cut. */
static void find_stages(hga_plan *plan)
{
    program_values values;
    program_values_start(&plan->program, &values);
    plan->bias_stage = -1;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        hga_stage *stage = &plan->program.stage[s];
        stage_plan *sp = &plan->stage[s];
        *sp = (stage_plan){.kind = program_kind(stage), .strict = rows_are_strict(plan)};
        program_show(&plan->program, stage, &values, &sp->shown);
        program_values_after(&plan->program, stage, &values);
        if (sp->kind == KIND_USER) /* a user function's scores read them, whether declared or not */
            stage->reads |= program_fields(stage, 1u << ROLE_QUERY | 1u << ROLE_KEY);
        if (stage->relation >= 0) {
            sp->relation = hga_graph_relation(plan->graph, stage->relation);
            sp->from_instances = !plan->options.strict_rows && sp->relation.src_order;
            sp->edges = (double)sp->relation.n_edges;
        } else if (plan->nodes.child_ptr) {
            sp->edges = plan->nodes.child_ptr[plan->nodes.n - plan->nodes.level_ptr[1]];
        }
        if (kind_attends(sp->kind) && plan->bias_stage < 0) plan->bias_stage = s;
    }
}

/* The last serial number, of plans and of their lowerings. */
static struct {
    pthread_mutex_t lock;
    uint64_t last;
} serial_under_lock = {PTHREAD_MUTEX_INITIALIZER, 0};

/* A number unique in this process. */
static uint64_t next_serial(void)
{
    pthread_mutex_lock(&serial_under_lock.lock);
    uint64_t serial = ++serial_under_lock.last;
    pthread_mutex_unlock(&serial_under_lock.lock);
    return serial;
}

/* ---- objects that other folders cache with a plan ---- */

static hga_status plan_cache_create(hga_plan *plan)
{
    hga_status st = hga_new_zero(&plan->memory.allocator, 1, sizeof *plan->cache, &plan->cache);
    if (!st) pthread_mutex_init(&plan->cache->lock, NULL);
    return st;
}

static void plan_cache_drop(const hga_plan *plan)
{
    if (!plan->cache) return;
    cached_object *const each[] = {&plan->cache->back, &plan->cache->layouts};
    for (int i = 0; i < 2; i++) {
        if (each[i]->what) each[i]->drop(plan, each[i]->what);
        each[i]->what = NULL;
    }
    call_lists_clear(plan);
}

static void plan_cache_destroy(hga_plan *plan)
{
    if (!plan->cache) return;
    plan_cache_drop(plan);
    pthread_mutex_destroy(&plan->cache->lock);
    hga_delete(&plan->memory.allocator, plan->cache, 1, sizeof *plan->cache);
}

/* ---- plans ---- */

/* Refuses dropout and ranks with energies: the energy above a dropped sibling is undefined; and ranks exchange sources,
   not what is below them. */
static hga_status check_energies(const hga_plan *plan)
{
    if (!rows_are_whole(plan) || !program_has_energies(&plan->program)) return HGA_OK;
    if (plan->options.dropout > 0) return hga_fail(HGA_EUNSUPPORTED, "dropout: entmax of energies has none");
    if (plan_is_shared(plan)) return hga_fail(HGA_EUNSUPPORTED, "ranks: entmax of energies is for one process");
    return HGA_OK;
}

/* Computes all that depends on a graph: storages, phases, their order, slices, memory. */
static hga_status lower(hga_plan *plan, const hga_graph *g)
{
    plan->graph = hga_graph_retain(g);
    plan->nodes = hga_graph_nodes(g);
    plan->version.serial = next_serial();
    hga_status st = program_check(&plan->program, g);
    if (st) return st;
    st = check_energies(plan);
    if (st) return st;
    plan->options.generic = plan->requested.generic || program_is_plain(&plan->program);
    find_stages(plan);
    rowless_columns_find(plan);
    st = interrupted();
    if (!st) st = by_columns_find(plan);
    if (st) return st;
    plan->fields.bf16_rows = storage_can_be_bf16(plan);
    storage_find(plan);
    plan->team.cyclic = cyclic_tokens(plan);
    st = phases_make(plan);
    if (!st && plan_is_shared(plan)) st = plan->share.wing->list(plan);
    storage_count_input(plan);
    if (!st) st = interrupted();
    if (!st) st = waves_make(plan);
    if (!st) st = interrupted();
    if (!st) st = slices_make(plan);
    if (!st && plan_is_shared(plan)) st = plan->share.wing->divide(plan);
    if (!st) st = storage_lay_out(plan);
    phases_forget_costs(plan);
    return st;
}

/* Refuses options out of their ranges, by name and number. */
static hga_status check_options(const hga_options *o)
{
    const struct {
        const char *name;
        int64_t value;
    } flag[] = {{"generic", o->generic},
                {"keep_fields", o->keep_fields},
                {"gradient", o->gradient},
                {"strict_rows", o->strict_rows}};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (flag[i].value != 0 && flag[i].value != 1)
            return hga_fail(HGA_EINVAL, "%s %lld is neither 0 nor 1", flag[i].name, (long long)flag[i].value);
    if (o->cut_edges < 1) return hga_fail(HGA_EINVAL, "cut_edges %lld", (long long)o->cut_edges);
    if ((unsigned)o->precision > HGA_PRECISION_BF16)
        return hga_fail(HGA_EINVAL, "%d is not a precision", (int)o->precision);
    if (o->gradient_row_ranges < 0 || o->gradient_row_ranges > MOST_ROW_RANGES)
        return hga_fail(HGA_EINVAL, "gradient_row_ranges %lld, not 0 to %d", (long long)o->gradient_row_ranges,
                        MOST_ROW_RANGES);
    if (o->gradient_subtree < 0 || o->gradient_subtree > INT32_MAX)
        return hga_fail(HGA_EINVAL, "gradient_subtree %lld", (long long)o->gradient_subtree);
    if (o->rows < HGA_EVERY_ROW || o->rows > HGA_ROWS_THAT_STAY)
        return hga_fail(HGA_EINVAL, "options.rows %lld is not one of HGA_EVERY_ROW, HGA_SOME_ROWS, HGA_ROWS_THAT_STAY",
                        (long long)o->rows);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return hga_fail(HGA_EINVAL, "dropout %g is not in [0, 1)", (double)o->dropout);
    return HGA_OK;
}

/* Checks and copies the arguments, chooses threads and kernels, and lowers the program onto the graph. */
hga_status plan_make(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                     hga_id panel, const plan_wing *wing, hga_plan **out)
{
    *out = NULL;
    if (!g || !p || !shape) return hga_fail(HGA_EINVAL, "no %s", !g ? "graph" : !p ? "program" : "shape");
    hga_plan *plan = NULL;
    const hga_allocator *a = options ? options->allocator : NULL;
    hga_status st = hga_check_reserved("hga_shape", shape->reserved, sizeof shape->reserved);
    if (!st) st = hga_new_zero(a, 1, sizeof *plan, &plan);
    if (st) return st;
    if (a) plan->memory.user = *a;
    HGA_TRY(retained_create(a, &plan->memory.retained));
    plan->memory.allocator = retained_allocator(plan->memory.retained);
    if (options) plan->options = *options;
    plan->options.allocator = NULL; /* the copy is the plan's */
    if (plan->options.cut_edges == 0) plan->options.cut_edges = CUT_EDGES;
    plan->version.identity = next_serial();
    plan->requested.panel = panel, plan->requested.generic = plan->options.generic;
    plan->program = *p;
    plan->shape = *shape;
    HGA_TRY(check_shape(&plan->shape));
    HGA_TRY(check_options(&plan->options));
    HGA_TRY(plan_cache_create(plan));
    HGA_TRY(choose_machine(plan));
    plan->share.wing = wing;
    if (wing) HGA_TRY(wing->begin(plan));
    HGA_TRY(lower(plan, g));
done:
    plan->options.isa = plan->options.topology = NULL; /* borrowed for this call */
    if (st) hga_plan_destroy(plan), plan = NULL;
    *out = plan;
    return st;
}

/* A plan can be updated to graphs whose relations have the same names. */
static hga_status same_relations(const hga_graph *old, const hga_graph *g)
{
    hga_nodes a = hga_graph_nodes(old), b = hga_graph_nodes(g);
    if (a.n_relations != b.n_relations)
        return hga_fail(HGA_EPROGRAM, "the plan's graph has %d relations, the new one %d", a.n_relations,
                        b.n_relations);
    for (hga_id r = 0; r < a.n_relations; r++) {
        const char *was = hga_graph_relation(old, r).name, *is = hga_graph_relation(g, r).name;
        if (strcmp(was, is) != 0)
            return hga_fail(HGA_EPROGRAM, "relation %d is %s in the plan and %s in the new graph", r, was, is);
    }
    return HGA_OK;
}

/* Lowers into a copy, so that a failure leaves the plan unchanged. The old one's memory is retained for the next
   update. */
hga_status hga_plan_update(hga_plan *plan, const hga_graph *g)
{
    if (!plan || !g) return plan_failed(plan, hga_fail(HGA_EINVAL, "no %s", g ? "plan" : "graph"));
    hga_status st = same_relations(plan->graph, g);
    if (st) return plan_failed(plan, st);
    hga_plan *fresh = NULL;
    retained_keep(plan->memory.retained);
    st = hga_new(&plan->memory.allocator, 1, sizeof *fresh, &fresh);
    if (st) return plan_failed(plan, st);
    *fresh = *plan;
    fresh->graph = NULL; /* until it is lowered */
    fresh->phases.list = NULL, fresh->phases.n = fresh->phases.capacity = 0;
    fresh->windows = (column_windows){0};
    fresh->waves = (wave_order){0};
    fresh->slices = NULL;
    memset(fresh->stage, 0, sizeof fresh->stage);
    memset(fresh->fields.storage, 0, sizeof fresh->fields.storage);
    if (plan_is_shared(plan)) st = plan->share.wing->renew(fresh);
    if (!st) st = lower(fresh, g);
    plan_failed(plan, st);
    hga_plan *loser = st ? fresh : plan;
    if (!st) plan_cache_drop(plan);
    slices_clear(loser);
    if (plan_is_shared(loser)) loser->share.wing->clear(loser);
    slots_clear(loser);
    waves_clear(loser);
    phases_clear(loser);
    hga_graph_destroy(loser->graph);
    if (!st) *plan = *fresh;
    hga_delete(&plan->memory.allocator, fresh, 1, sizeof *fresh);
    return st;
}

void hga_plan_destroy(hga_plan *plan)
{
    if (!plan) return;
    hga_allocator user_allocator = plan->memory.user;
    plan_cache_destroy(plan);
    slices_clear(plan);
    if (plan_is_shared(plan)) plan->share.wing->clear(plan);
    slots_clear(plan);
    waves_clear(plan);
    phases_clear(plan);
    binding_clear(plan);
    retained_destroy(plan->memory.retained);
    topology_close(plan->machine.topology);
    hga_graph_destroy(plan->graph);
    hga_delete(&user_allocator, plan, 1, sizeof *plan);
}

int64_t hga_plan_bytes(const hga_plan *plan)
{
    pthread_mutex_lock(&plan->cache->lock);
    int64_t bytes = (int64_t)sizeof *plan + retained_bytes(plan->memory.retained);
    pthread_mutex_unlock(&plan->cache->lock);
    return bytes;
}

hga_id hga_plan_threads(const hga_plan *plan) { return plan->team.n; }

/* Multiplications and additions per edge, and per edge and head, that a stage cannot do without. */
static double stage_flops(const hga_plan *plan, hga_id s)
{
    const hga_shape *shape = &plan->shape;
    const edge_cost *cost = &program_rules[plan->stage[s].kind].cost;
    const field_storage *out = &plan->fields.storage[plan->program.stage[s].out];
    double of_head = (double)cost->key * shape->dim + (double)cost->value * shape->dim_v + cost->head;
    return plan->stage[s].edges * (shape->n_heads * of_head + (double)cost->column * out->heads * out->columns);
}

/* The same of the backward pass: for an attended edge its score and its product with the value again, and three sums; a
   mean or a sum is computed again and transposed, merges of states are transposed. */
static double stage_gradient_flops(const hga_plan *plan, hga_id s)
{
    const hga_shape *shape = &plan->shape;
    const edge_cost *cost = &program_rules[plan->stage[s].kind].cost;
    const field_storage *out = &plan->fields.storage[plan->program.stage[s].out];
    int attends = kind_attends(plan->stage[s].kind);
    double of_head = (attends ? 3 : 1) * (double)cost->key * shape->dim +
                     (attends ? 2 : 1) * (double)cost->value * shape->dim_v + 2 * (double)cost->head;
    return plan->stage[s].edges * (shape->n_heads * of_head + 2 * (double)cost->column * out->heads * out->columns);
}

hga_cost hga_plan_cost(const hga_plan *plan)
{
    hga_cost cost = {0};
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        cost.flops += stage_flops(plan, s);
        cost.gradient_flops += stage_gradient_flops(plan, s);
        if (kind_attends(plan->stage[s].kind)) cost.edges += plan->stage[s].edges;
    }
    if (cost.edges == 0)
        for (hga_id s = 0; s < plan->program.n_stages; s++)
            if (plan->program.stage[s].relation >= 0) cost.edges += plan->stage[s].edges;
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        cost.bytes_min += (double)plan->fields.storage[f].io_n * plan->fields.storage[f].heads *
                          plan->fields.storage[f].columns * (double)sizeof(float);
    return cost;
}
