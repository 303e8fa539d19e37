/* explain.c: hga explain, the plan of a variant. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"
#include "chosen_source.h"
#include "command.h"
#include "explain_ranks.h"
#include "ordered.h"
#include "terminal.h"
#include "typed_call.h"

typedef struct arguments {
    typed_variant variant;
    hga_shape shape;
    hga_options options;
    rank_question ranks;
    typed_call call;
    chosen_source chosen;
    int json;
} arguments;

static const option_row options[] = {
    {"topology", TEXT(arguments, options.topology), "S", 0,
     "plan for a machine described as hwloc does, such as \"pack:2 numa:1 core:4 pu:1\" (default: this machine)", 8},
    {"gradient", FLAG(arguments, options.gradient), NULL, 0,
     "also how its gradient is computed, and the bytes of tape and gradient", 8},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

/* A call as typed, of packed tensors: what it brings, not what numbers there are. */
typedef struct call_as_typed {
    hga_io io;
    hga_grad_io grad;
    int brings; /* 0: nothing beside rows */
} call_as_typed;

/* A call with the tables that were typed; any address stands for their data, for plans ask only what is there. */
static call_as_typed call_of(const typed_call *typed)
{
    static float any;
    call_as_typed c = {.brings = 0};
    const hga_tensor packed = {.data = &any};
    c.io.query = c.io.key = c.io.value = c.io.out = c.grad.d_out = packed;
    c.grad.d_query = c.grad.d_key = c.grad.d_value = packed;
    for (int i = 0; i < HGA_MAX_USER_TENSORS; i++) c.io.user[i] = c.grad.d_user[i] = packed;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        if (!typed->text[t] || call_is_put(typed, t)) continue;
        c.io.table[t].data = call_is_number(&hga_call_tables()[t]) ? &typed->number[t] : &any, c.brings = 1;
    }
    return c;
}

/* How a plan goes back: the way, why it is in double (NULL: it is not), and what a workspace takes for it. */
typedef struct way_back {
    call_as_typed call;
    const char *name, *plain;
    int64_t bytes;
} way_back;

static const char *tried(const hga_plan *plan, const way_back *x, hga_id i, const char **refusal)
{
    const call_as_typed *c = x->call.brings ? &x->call : NULL;
    return hga_plan_gradient_tried(plan, c ? &c->io : NULL, c ? &c->grad : NULL, i, refusal);
}

/* Which backward pass the call takes and, where that is the last of all, why the one before it is refused. */
static hga_status find_way_back(const hga_plan *plan, way_back *to)
{
    hga_id i = 0;
    const char *refusal;
    const call_as_typed *c = to->call.brings ? &to->call : NULL;
    hga_status st = hga_plan_prepare(plan, NULL, c ? &c->io : NULL, c ? &c->grad : NULL, &to->bytes);
    if (st) return st;
    for (to->plain = NULL; (to->name = tried(plan, to, i, &refusal)) && refusal; i++) to->plain = refusal;
    if (!to->name) return hga_fail(HGA_ENOMEM, "no memory to find the backward pass");
    if (tried(plan, to, i + 1, NULL)) to->plain = NULL; /* it is not the last */
    return HGA_OK;
}

/* The backward pass, in words, and why it is no other. */
static void say_gradient(const hga_plan *plan, const way_back *x)
{
    const char *name, *refusal;
    if (x->plain)
        printf("gradient: %s: %s\n", x->name, x->plain);
    else
        printf("gradient: in float, %s\n", x->name);
    for (hga_id i = 0; (name = tried(plan, x, i, &refusal)); i++)
        if (refusal) printf("  not %s: %s\n", name, refusal);
    printf("tape: %.1f kB an execution; gradient: %.1f kB while it runs\n", (double)hga_plan_tape_bytes(plan) / 1e3,
           (double)x->bytes / 1e3);
}

/* [{way, why}, ..]: the ways that do not take the plan. */
static json_t *refused_json(const hga_plan *plan, const way_back *x)
{
    const char *name, *refusal;
    json_t *all = json_array();
    for (hga_id i = 0; (name = tried(plan, x, i, &refusal)); i++)
        if (refusal) json_array_append_new(all, json_pack("{s:s, s:s}", "way", name, "why", refusal));
    return all;
}

/* The plan's JSON with a member `gradient`. */
static int print_gradient_json(const hga_plan *plan, const way_back *x, const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    json_t *gradient =
        json_pack("{s:s?, s:s, s:o, s:I, s:I}", "plain", x->plain, "way", x->name, "refused", refused_json(plan, x),
                  "tape_bytes", (json_int_t)hga_plan_tape_bytes(plan), "bytes", (json_int_t)x->bytes);
    char *dump = NULL;
    if (j && json_object_set_new(j, "gradient", gradient) == 0)
        dump = json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    json_decref(j);
    if (!dump) return complain(CLI_OUTSIDE, "out of memory");
    terminal_lines(stdout, dump);
    free(dump);
    return CLI_GOOD;
}

int run_explain(int argc, char **argv)
{
    const option_part parts[] = {{&variant_list, offsetof(arguments, variant), NULL, 0},
                                 {&shape_list, offsetof(arguments, shape), NULL, 0},
                                 {&machine_list, offsetof(arguments, options), NULL, 0},
                                 {&ranks_list, offsetof(arguments, ranks), NULL, 0},
                                 {call_list(CALL_OF_SHAPE), offsetof(arguments, call), "What is done with scores:", 4},
                                 {&chosen_list, offsetof(arguments, chosen), NULL, 0},
                                 {0}};
    const option_list line = {.rows = options,
                              .parts = parts,
                              .words = "VARIANT",
                              .says = "The plan of a variant: stages, kernels, tiles, threads, domains, workspace.\v"};
    arguments a = {0};
    model m = {0};
    way_back back = {0};
    hga_plan *plan = NULL;
    char *text = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    if (a.ranks.n > 0 && call_typed(&a.call))
        TRY(complain(CLI_USAGE, "explain: %s changes nothing that --ranks counts", call_typed(&a.call)));
    a.variant.takes_order = 1;
    if (a.ranks.n > 0) return explain_ranks(&a.variant, &a.shape, &a.options, &a.ranks, a.json);
    if (a.ranks.latency_us > 0 || a.ranks.gbits > 0 || a.ranks.picture)
        TRY(complain(CLI_USAGE, "explain: --latency, --gbits and -o go with --ranks"));
    TRY(chosen_build(&a.variant, &a.chosen, CHOSEN_FIRST, 0, &m));
    TRY(ordered_say(&m));
    TRY(call_put(&a.call, &m));
    back.call = call_of(&a.call);
    call_plan(&a.call, &a.options);
    if (m.tree_heads > 1) a.shape.n_heads = a.shape.n_kv_heads = 1;
    TRY(complain_of(hga_plan_create(ordered_graph(&m), &m.program, &a.shape, &a.options, &plan),
                    m.from_file ? CLI_DATA : CLI_USAGE, m.title));
    TRY(complain_of((a.json ? hga_plan_explain_json : hga_plan_explain)(plan, &back.call.io, &text), CLI_USAGE,
                    m.title));
    if (a.options.gradient) TRY(complain_of(find_way_back(plan, &back), CLI_USAGE, m.title));
    if (a.json && a.options.gradient)
        TRY(print_gradient_json(plan, &back, text));
    else
        terminal_lines(stdout, text);
    if (!a.json && a.options.gradient) say_gradient(plan, &back);
done:
    hga_text_free(text);
    hga_plan_destroy(plan);
    model_clear(&m);
    return status;
}
