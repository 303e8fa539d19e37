/* families.c: the call of the families solver: which plans it takes, memory, threads. */
#include "families.h"
#include "carve.h"
#include "plan.h"
#include "thread_binding.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* ---- which plans ---- */

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

/* Are queries, keys and values coarsened, each once, by the first three stages? Fills at->coarsen. */
static const char *find_coarsened(const hga_plan *plan, family_stages *at, reason *buffer)
{
    static const hga_binding inputs[G] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE};
    const hga_program *p = &plan->program;
    for (hga_id i = 0; i < G; i++) {
        int found = 0;
        for (int f = 0; f < G; f++)
            if (is_coarsened(plan, i, inputs[f])) at->coarsen[f] = i, found = 1;
        if (!found)
            return reason_of(buffer, "stage '%s' is not a mean or sum up the tree of queries, keys or values",
                             p->stage[i].name);
    }
    for (int f = 0; f < G; f++)
        if (at->coarsen[f] < 0) return "queries, keys and values are not each coarsened once";
    return NULL;
}

/* Are the coarse fields attended to, and the states and their energies handed down to the output? Returns why not. */
static const char *look_at_states(const hga_plan *plan, const family_stages *at, reason *buffer)
{
    const hga_program *p = &plan->program;
    const hga_stage *attend = &p->stage[at->attend], *energy = &p->stage[at->energy], *descend = &p->stage[at->descend];
    const hga_id read[G] = {attend->query, attend->key, attend->value};
    if (energy->value != attend->out || descend->value != attend->out || descend->gate != energy->out)
        return reason_of(buffer, "stage '%s' does not hand down what '%s' attends to", descend->name, attend->name);
    if (p->field[attend->out].rows != HGA_ROWS_NODES || p->field[energy->out].rows != HGA_ROWS_NODES)
        return "states or energies are not of all nodes";
    if (p->field[descend->out].binding != HGA_IO_OUT) return reason_of(buffer, "'%s' is not the output", descend->name);
    if (!is_of_tokens(plan, descend->out)) return "the output is not of all tokens";
    for (int f = 0; f < G; f++) {
        if (p->stage[at->coarsen[f]].out != read[f])
            return reason_of(buffer, "stage '%s' attends with other fields than those coarsened", attend->name);
        if (!is_of_tokens(plan, read[f]))
            return reason_of(buffer, "field '%s' is not an input of all tokens alone", p->field[read[f]].name);
        if (storage_is_rounded(plan, read[f])) return "operands are rounded to bfloat16";
    }
    return NULL;
}

/* Finds the six stages: three means up the tree, attention among siblings, energies, descent; or returns why they
   are others. */
static const char *find_six_stages(const hga_plan *plan, family_stages *at, reason *buffer)
{
    static const stage_kind kinds[] = {KIND_ATTEND, KIND_ENERGY, KIND_DESCEND};
    const hga_program *p = &plan->program;
    const char *why;
    *at = (family_stages){.coarsen = {-1, -1, -1}, .attend = G, .energy = G + 1, .descend = G + 2};
    if (p->n_stages != G + 3)
        return reason_of(buffer, "the stages that count are %d, not three means, attend, energy and descend",
                         p->n_stages);
    if ((why = find_coarsened(plan, at, buffer))) return why;
    for (hga_id i = 0; i < 3; i++)
        if (plan->stage[G + i].kind != kinds[i])
            return reason_of(buffer, "stage '%s' is not %s", p->stage[G + i].name, program_rules[kinds[i]].name);
    return look_at_states(plan, at, buffer);
}

/* The only terms of pairs that it supports are products of positions; dropout draws by an edge's type. */
static const char *families_refuse(const hga_plan *plan, unsigned features, reason *buffer)
{
    family_stages at;
    const char *why;
    if (program_normaliser(&plan->program) != HGA_NORMALISER_SOFTMAX) return "another normaliser than softmax";
    if ((why = is_generic(plan, buffer))) return why;
    if (scores_are_sums(plan)) return "additive scores";
    if ((why = find_six_stages(plan, &at, buffer))) return why;
    const hga_relation *r = &plan->stage[at.attend].relation;
    if (plan->shape.n_heads > KERNEL_HEADS) return reason_of(buffer, "more than %d heads", KERNEL_HEADS);
    if (plan->options.dropout > 0 && r->n_types > 1) return "dropout, and edges have types";
    if (features & CALL_HAS_NONLINEAR) return "softcaps or slopes";
    if (features & CALL_HAS_TYPES) return "the call has relative keys or biases";
    if (features & CALL_HAS_EDGE_BIASES) return "the call has biases of edges";
    if ((why = edge_features_named(features))) return why;
    if (features & CALL_HAS_SIXTEEN) return "the call has numbers of 16 bits";
    if (features & CALL_HAS_FOLDS) return "the call's rows are folded";
    if (features & CALL_HAS_POSITIONS && r->positioned) return "edges use the positions of other nodes";
    return NULL;
}

static void drop_families(const hga_plan *plan, void *what)
{
    made_families *made = what;
    order_clear(&made->order);
    hga_delete(&plan->memory.allocator, made, 1, sizeof *made);
}

/* Makes once for a plan: its stages, and its families in the order in which a call takes them. */
static hga_status make_families(const hga_plan *plan, void **out, const char **why, reason *buffer)
{
    hga_status st = HGA_OK;
    made_families *made = NULL;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *made, &made));
    find_six_stages(plan, &made->at, buffer);
    HGA_TRY(order_create(plan, plan->program.stage[made->at.attend].relation, &made->order, why));
    if (!*why) *out = made;
done:
    if (made && (st || *why)) drop_families(plan, made);
    return st;
}

/* ---- memory ---- */

/* Are two products per edge and head few enough to be cached until the pass down? */
static int keeps_products(const families *f)
{
    int64_t products = 2 * (int64_t)f->order.edge_ptr[f->order.n_above] * f->plan->shape.n_heads;
    return products * (int64_t)sizeof(float) <= most_list_bytes(f->plan);
}

/* Carves every array; returns the bytes in all. */
static int64_t lay_out_families(families *f, family_thread **out, const call_needs *needs, void *memory)
{
    const family_order *o = &f->order;
    carver arena = {.base = memory};
    int64_t places = o->nodes.child_ptr[o->n_above], above = (int64_t)o->n_above * f->heads;
    family_thread *thread = carve(&arena, needs->threads, sizeof *thread);
    f->d_scale = carve(&arena, (int64_t)o->n_shares * f->heads, sizeof *f->d_scale);
    for (int i = 0; i < N_COARSE; i++) f->x[i].above = carve_floats(&arena, o->n_above * f->x[i].row);
    for (int i = 0; i < G; i++)
        if (f->d[i].needs_grad) f->d[i].above = carve_floats(&arena, o->n_top_slots * f->d[i].row);
    f->bias = carve_floats(&arena, places);
    f->lse = carve_floats(&arena, places * f->heads), f->mean = carve_floats(&arena, places * f->heads);
    if (keeps_products(f)) {
        int64_t products = (int64_t)o->edge_ptr[o->n_above] * f->heads;
        f->product = carve_floats(&arena, products), f->product_v = carve_floats(&arena, products);
    }
    f->psi = carve_floats(&arena, above), f->inside = carve_floats(&arena, above),
    f->keep = carve_floats(&arena, above), f->d_psi = carve_floats(&arena, above);
    for (hga_id t = 0; t < needs->threads; t++) {
        family_thread l = {0};
        for (int i = 0; i < G; i++)
            if (f->d[i].needs_grad) l.slots[i] = carve_floats(&arena, o->n_slots * f->d[i].row);
        float **scalars[] = {&l.psi, &l.mine, &l.rest, &l.upstream, &l.delta};
        for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
            *scalars[i] = carve_floats(&arena, FAMILY_SCALARS);
        if (needs->features & CALL_HAS_POSITIONS) l.pair = carve_floats(&arena, FAMILY_PAIRS);
        if (needs->entries[HGA_TABLE_LOG_MASS] || needs->entries[HGA_TABLE_NODE_POS])
            l.d_score = carve_floats(&arena, (int64_t)FAMILY_PAIRS * f->heads);
        if (thread) thread[t] = l;
    }
    if (out) *out = thread;
    return arena.used;
}

static family_rows family_rows_of(const hga_plan *plan, const call_needs *needs, hga_id field)
{
    hga_id heads = heads_here(plan, needs, field_heads(plan, field)), columns = field_columns(plan, field);
    return (family_rows){
        .heads = heads, .columns = columns, .head = padded(columns), .row = (ptrdiff_t)heads * padded(columns)};
}

/* The call without its tensors: its heads, and the rows of every coarsened field and of its gradient. */
static families families_of(const hga_plan *plan, const made_families *made, const call_needs *needs)
{
    families f = {.plan = plan,
                  .order = made->order,
                  .heads = heads_here(plan, needs, plan->shape.n_heads),
                  .first_head = first_here(plan, needs, plan->shape.n_heads)};
    const hga_program *p = &plan->program;
    for (int i = 0; i < G; i++) {
        const hga_stage *s = &p->stage[made->at.coarsen[i]];
        f.x[i] = family_rows_of(plan, needs, s->out);
        f.x[i].mean = s->reduce == HGA_MEAN, f.x[i].by_mass = f.x[i].mean && s->by_mass;
        f.d[i] = family_rows_of(plan, needs, s->out), f.d[i].needs_grad = (int)(needs->grads >> s->out & 1u);
    }
    f.x[G] = family_rows_of(plan, needs, p->stage[made->at.descend].out);
    return f;
}

static int64_t families_bytes(const hga_plan *plan, const void *made, const call_needs *needs)
{
    families f = families_of(plan, made, needs);
    return lay_out_families(&f, NULL, needs, NULL);
}

/* Points rows to the caller's tensor, at the first head of this call. */
static void bind_rows(const families *f, hga_id field, family_rows *x, const hga_tensor *t)
{
    hga_id all = field_heads(f->plan, field), first = first_here(f->plan, &f->call->needs, all);
    x->io = t->data ? tensor_at(t, all, x->columns, 0, first) : NULL;
    x->io_row = t->row_stride ? t->row_stride : (ptrdiff_t)all * x->columns;
    x->io_head = t->head_stride ? t->head_stride : x->columns;
}

static void bind_families(families *f, const made_families *made)
{
    const hga_program *p = &f->plan->program;
    for (int i = 0; i < G; i++) {
        hga_id field = p->stage[made->at.coarsen[i]].out;
        bind_rows(f, field, &f->x[i], field_tensor(f->call, field)),
            bind_rows(f, field, &f->d[i], field_gradient(f->call, field));
    }
    bind_rows(f, p->stage[made->at.descend].out, &f->x[G], &f->call->grad->d_out);
}

/* ---- the pass ---- */

static void fill_biases(families *f, int by_mass)
{
    const family_order *o = &f->order;
    for (hga_id i = 0; i < o->nodes.child_ptr[o->n_above]; i++)
        f->bias[i] = by_mass ? (float)(log((double)o->nodes.mass[member_at(o, i)]) / log(2)) : 0;
}

/* At roots keep is 1 and the energy's gradient is zero. Tokens without a parent have a gradient of zero. */
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

static void go_up(families *f, hga_id share, const family_thread *l)
{
    for (hga_id i = f->order.share[share].first; i < f->order.share[share].end; i++) family_up(f, f->order.up[i], l);
}

static void go_down(families *f, hga_id share, const family_thread *l)
{
    const family_share *s = &f->order.share[share];
    family_thread one = *l;
    double *d_scale = f->d_scale + (ptrdiff_t)share * f->heads;
    memset(d_scale, 0, (size_t)f->heads * sizeof *d_scale);
    one.d_scale = f->sums->of[HGA_TABLE_SCALE] ? d_scale : NULL;
    for (hga_id i = s->first; i < s->end; i++) family_down(f, f->order.down[i], &one);
}

/* Adds the shares' sums in their order, for each key/value head separately. */
static void store_scale(const families *f)
{
    hga_id group = f->heads / (f->call->needs.kv_end - f->call->needs.kv_first);
    for (int64_t i = 0; f->sums->of[HGA_TABLE_SCALE] && i < (int64_t)f->order.n_shares * f->heads; i++)
        *f->sums[i % f->heads / group].of[HGA_TABLE_SCALE] += f->d_scale[i];
}

/* Shares run in parallel on the way up; then one thread takes the families above all shares, up and down; then
   shares run in parallel on the way down. */
static void run_families(families *f, const family_thread *thread, hga_id threads)
{
    hga_id last = f->order.n_shares - 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(f->plan, &old);
        const family_thread *l = &thread[threads > 1 ? omp_get_thread_num() : 0];
#pragma omp for schedule(dynamic, 1)
        for (hga_id i = 0; i < last; i++) go_up(f, i, l);
#pragma omp single
        go_up(f, last, l), go_down(f, last, l);
#pragma omp for schedule(dynamic, 1)
        for (hga_id i = 0; i < last; i++) go_down(f, i, l);
        topology_unbind(&old);
    }
    store_scale(f);
}

/* A call: binds its rows, then takes families from the tokens up to the roots and down again. */
static hga_status go_families(gradient_call *c, const void *what, hga_workspace *workspace, void *memory)
{
    const made_families *made = what;
    families f = families_of(c->plan, made, &c->needs);
    family_thread *thread;
    (void)workspace;
    f.call = c, f.node_pos = c->io->node_pos.data;
    bind_families(&f, made);
    lay_out_families(&f, &thread, &c->needs, memory);
    f.draw = draw_of_call(c->plan, c->io);
    f.sums = c->sums + c->needs.kv_first;
    fill_biases(&f, c->plan->program.stage[made->at.attend].by_mass);
    start_at_roots(&f);
    run_families(&f, thread, c->threads);
    return HGA_OK;
}

const solver families_solver = {.name = "a family of siblings at a time, all heads together",
                                .refuses = families_refuse,
                                .make = make_families,
                                .drop = drop_families,
                                .bytes = families_bytes,
                                .go = go_families};
