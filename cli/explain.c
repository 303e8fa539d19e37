/* explain.c: hga explain, the plan of a variant. */
#include <stdio.h>

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
     "plan for a machine described as hwloc does, such as \"pack:2 numa:1 core:4 pu:1\", or by a file of lstopo, "
     "machine.xml (default: this machine)",
     8},
    {"gradient", FLAG(arguments, options.gradient), NULL, 0,
     "also how its gradient is computed, and the bytes of tape and gradient", 8},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

/* The tables that were typed; any address stands for files, since plans read only which are present. */
static hga_io call_of(const typed_call *typed)
{
    static float any;
    hga_io io = {0};
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (typed->text[t] && !call_is_put(typed, t))
            io.table[t].data = call_is_number(&hga_call_tables()[t]) ? &typed->number[t] : &any;
    return io;
}

int run_explain(int argc, char **argv)
{
    const option_part parts[] = {{&variant_list, offsetof(arguments, variant), NULL, 0},
                                 {&shape_list, offsetof(arguments, shape), NULL, 0},
                                 {&machine_list, offsetof(arguments, options), NULL, 0},
                                 {&ranks_list, offsetof(arguments, ranks), NULL, 0},
                                 {call_list(CALL_OF_SHAPE), offsetof(arguments, call), "Scores:", 4},
                                 {&chosen_list, offsetof(arguments, chosen), NULL, 0},
                                 {0}};
    const option_list line = {.rows = options,
                              .parts = parts,
                              .words = "VARIANT",
                              .says = "The plan of a variant: stages, kernels, tiles, threads, domains, workspace.\v"};
    arguments a = {0};
    model m = {0};
    hga_plan *plan = NULL;
    char *text = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    if (a.ranks.n > 0 && call_typed(&a.call))
        TRY(complain(CLI_USAGE, "explain: %s changes nothing that --ranks counts", call_typed(&a.call)));
    a.variant.takes_order = 1;
    if (a.ranks.n > 0) return explain_ranks(&a.variant, &a.shape, &a.options, &a.ranks, a.json);
    if (arguments_present("latency gbits output")) TRY(complain(CLI_USAGE, "--latency, --gbits and -o need --ranks"));
    TRY(chosen_build(&a.variant, &a.chosen, CHOSEN_FIRST, 0, &m));
    TRY(ordered_say(&m));
    TRY(call_put(&a.call, &m));
    const hga_io call = call_of(&a.call);
    call_plan(&a.call, &a.options);
    if (m.tree_heads > 1) a.shape.n_heads = a.shape.n_kv_heads = 1;
    TRY(model_complain_of(hga_plan_create(ordered_graph(&m), &m.program, &a.shape, &a.options, &plan), &m));
    TRY(complain_of(hga_plan_explain(plan, &call, a.json ? HGA_JSON : HGA_TEXT, &text), CLI_USAGE, m.title));
    terminal_lines(stdout, text);
done:
    hga_text_free(text);
    hga_plan_destroy(plan);
    model_clear(&m);
    return status;
}
