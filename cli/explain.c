/* explain.c: hga explain, the plan of a variant. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"
#include "chosen_source.h"
#include "command.h"
#include "explain_ranks.h"
#include "ordered.h"
#include "table.h"
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

/* Where its name is given, the i-th backward pass that the plan tries for a call; *refusal is why it is not taken. */
static const char *tried(const hga_plan *plan, const call_as_typed *c, hga_id i, const char **refusal)
{
    return hga_plan_gradient_tried(plan, c->brings ? &c->io : NULL, c->brings ? &c->grad : NULL, i, refusal);
}

/* The backward pass that the call takes; of each that does not take it, why; and `plain`: where it is the last of all,
   why the one before it is refused. */
static int find_gradient(const hga_plan *plan, const call_as_typed *c, const char *title, json_t **out)
{
    const char *name, *refusal, *way = NULL, *plain = NULL;
    int64_t bytes = 0;
    hga_status st = hga_plan_prepare(plan, NULL, c->brings ? &c->io : NULL, c->brings ? &c->grad : NULL, &bytes);
    if (st) return complain_of(st, CLI_USAGE, title);
    json_t *refused = json_array();
    for (hga_id i = 0; (name = tried(plan, c, i, &refusal)); i++) {
        if (refusal) json_array_append_new(refused, json_pack("{s:s, s:s}", "way", name, "why", refusal));
        if (way) continue;
        if (refusal)
            plain = refusal;
        else
            way = name, plain = tried(plan, c, i + 1, NULL) ? NULL : plain; /* NULL: it is not the last */
    }
    *out = json_pack("{s:s?, s:s, s:o, s:I, s:I}", "plain", plain, "way", way, "refused", refused, "tape_bytes",
                     (json_int_t)hga_plan_tape_bytes(plan), "bytes", (json_int_t)bytes);
    return *out ? CLI_GOOD : complain(CLI_OUTSIDE, "no memory to find the backward pass");
}

/* The backward pass, in words, and why it is no other. */
static void say_gradient(const json_t *gradient)
{
    const char *plain = row_text(gradient, "plain"), *way = row_text(gradient, "way");
    size_t i;
    json_t *x;
    if (*plain)
        printf("gradient: %s: %s\n", way, plain);
    else
        printf("gradient: in float, %s\n", way);
    json_array_foreach(json_object_get(gradient, "refused"), i, x)
        printf("  not %s: %s\n", row_text(x, "way"), row_text(x, "why"));
    printf("tape: %.1f kB an execution; gradient: %.1f kB while it runs\n", row_number(gradient, "tape_bytes") / 1e3,
           row_number(gradient, "bytes") / 1e3);
}

/* The plan's JSON with a member `gradient`. */
static int print_gradient_json(const char *text, json_t *gradient)
{
    json_t *j = json_loads(text, 0, NULL);
    char *dump = NULL;
    if (j && json_object_set(j, "gradient", gradient) == 0)
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
    json_t *gradient = NULL;
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
    const call_as_typed call = call_of(&a.call);
    call_plan(&a.call, &a.options);
    if (m.tree_heads > 1) a.shape.n_heads = a.shape.n_kv_heads = 1;
    TRY(model_complain_of(hga_plan_create(ordered_graph(&m), &m.program, &a.shape, &a.options, &plan), &m));
    TRY(complain_of((a.json ? hga_plan_explain_json : hga_plan_explain)(plan, &call.io, &text), CLI_USAGE, m.title));
    if (a.options.gradient) TRY(find_gradient(plan, &call, m.title, &gradient));
    if (gradient && a.json)
        TRY(print_gradient_json(text, gradient));
    else
        terminal_lines(stdout, text);
    if (gradient && !a.json) say_gradient(gradient);
done:
    json_decref(gradient);
    hga_text_free(text);
    hga_plan_destroy(plan);
    model_clear(&m);
    return status;
}
